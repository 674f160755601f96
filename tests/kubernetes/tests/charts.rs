//! The sidecar in what the charts of vLLM make: names and labels of production-stack,
//! llm-d-modelservice and vLLM's own chart.
#![expect(
    clippy::unwrap_used,
    reason = "a test panics with what it did not find"
)]

mod strict;

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Container};
use kubernetes_manifests::{documents, folder, output_of, rendered, tool};
use serde_json::Value;
use strict::strictly;

/// A chart whose objects have the names and labels of production-stack's: an engine and its router.
fn chart() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/production-stack")
}

fn helm(home: &Path) -> Command {
    let mut helm = Command::new(tool("helm"));
    for kind in ["CACHE", "CONFIG", "DATA"] {
        helm.env(format!("HELM_{kind}_HOME"), home.join(kind));
    }
    helm.env("KUBECTL", tool("kubectl"));
    helm
}

/// The containers' names, the sidecar first if there is one.
fn containers(object: &Value) -> Vec<String> {
    let deployment: Deployment = strictly(object);
    let pod = deployment.spec.unwrap().template.spec.unwrap();
    let lists = [pod.init_containers.unwrap_or_default(), pod.containers];
    lists
        .into_iter()
        .flatten()
        .map(|each: Container| each.name)
        .collect()
}

fn assert_only_the_engine_has_it(yaml: &str) {
    let objects = documents(yaml);
    let component = |name: &str| {
        let label =
            |object: &&Value| object["metadata"]["labels"]["app.kubernetes.io/component"] == name;
        objects
            .iter()
            .find(label)
            .unwrap_or_else(|| panic!("no {name} in {yaml}"))
    };
    let (engine, router) = (component("serving-engine"), component("router"));
    assert_eq!(objects.len(), 2);
    assert_eq!(containers(engine), ["cudasnoop", "vllm"]);
    let pod = &engine["spec"]["template"]["spec"];
    assert_eq!(pod["shareProcessNamespace"], true);
    // What the chart made is still there.
    assert_eq!(pod["containers"][0]["ports"][0]["name"], "container-port");
    let selector = &engine["spec"]["selector"]["matchLabels"];
    assert_eq!(selector["app.kubernetes.io/component"], "serving-engine");
    assert_eq!(containers(router), ["router-container"]);
    assert_eq!(
        router["spec"]["template"]["spec"]["shareProcessNamespace"],
        Value::Null
    );
}

/// Helm 4: post-renderers are plugins.
#[test]
fn as_a_plugin_of_helm() {
    let home = tempfile::tempdir().unwrap();
    let post_renderer = folder().join("helm").canonicalize().unwrap();
    output_of(
        helm(home.path())
            .args(["plugin", "install"])
            .arg(post_renderer),
    );
    let made = output_of(
        helm(home.path())
            .args(["template", "release"])
            .arg(chart())
            .args(["--post-renderer", "cudasnoop"]),
    );
    assert_only_the_engine_has_it(&made);
}

/// Helm 3: a post-renderer is a program between two pipes.
#[test]
fn as_a_program_between_pipes() {
    let home = tempfile::tempdir().unwrap();
    let plain = output_of(helm(home.path()).args(["template", "release"]).arg(chart()));
    let mut script = Command::new(folder().join("helm/post-render.sh"))
        .env("KUBECTL", tool("kubectl"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = script.stdin.take().unwrap();
    stdin.write_all(plain.as_bytes()).unwrap();
    drop(stdin);
    let output = script.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_only_the_engine_has_it(&String::from_utf8(output.stdout).unwrap());
}

/// A kustomization with the component and these resources and patches.
fn kustomized(resource: &str, more: &str) -> String {
    // A kustomization names others by relative paths only.
    let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let write = |name: &str, text: &str| fs::write(root.path().join(name), text).unwrap();
    let component = root.path().join("sidecar");
    fs::create_dir(&component).unwrap();
    for file in ["kustomization.yaml", "sidecar.yaml"] {
        fs::copy(
            folder().join("components/sidecar").join(file),
            component.join(file),
        )
        .unwrap();
    }
    write("workload.yaml", resource);
    write(
        "kustomization.yaml",
        &format!("resources: [workload.yaml]\n{more}"),
    );
    rendered(root.path())
}

const STATEFUL: &str = "
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: model, labels: {cudasnoop.dev/sidecar: 'true'}}
spec:
  serviceName: model
  selector: {matchLabels: {app: model}}
  template:
    metadata: {labels: {app: model}}
    spec:
      initContainers: [{name: wait-download-model, image: amazon/aws-cli}]
      containers: [{name: vllm, image: 'vllm/vllm-openai:v0.24.0'}]
";

/// The label asks for it, whatever the kind; containers that were there come after it, so that
/// their CUDA calls are seen, too.
#[test]
fn by_label_in_a_stateful_set() {
    let made = documents(&kustomized(STATEFUL, "components: [sidecar]"));
    let pod = &made[0]["spec"]["template"]["spec"];
    let names: Vec<&str> = pod["initContainers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|container| container["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["cudasnoop", "wait-download-model"]);
    assert_eq!(made[0]["kind"], "StatefulSet");
}

/// Nobody asks for it: a selector that finds nothing says nothing.
#[test]
fn without_the_label_nothing_changes() {
    let without = STATEFUL.replace(", labels: {cudasnoop.dev/sidecar: 'true'}", "");
    let made = kustomized(&without, "components: [sidecar]");
    assert!(!made.contains("cudasnoop"), "{made}");
}

/// vLLM's own chart: no label of its own tells it apart, so a patch names it.
#[test]
fn by_a_patch_with_a_target_of_ones_own() {
    let chart_helm = STATEFUL
        .replace("StatefulSet", "Deployment")
        .replace("  serviceName: model\n", "")
        .replace(
            "{cudasnoop.dev/sidecar: 'true'}",
            "{environment: test, release: test}",
        );
    let patch = "
patches:
  - path: sidecar/sidecar.yaml
    target: {kind: Deployment, name: model}
";
    let made = documents(&kustomized(&chart_helm, patch));
    assert_eq!(
        containers(&made[0]),
        ["cudasnoop", "wait-download-model", "vllm"]
    );
}

/// llm-d-modelservice takes it by values alone: they are the same sidecar.
#[test]
fn the_values_for_llm_d_are_the_sidecar() {
    let read = |file: &str| documents(&fs::read_to_string(folder().join(file)).unwrap()).remove(0);
    let values = read("helm/llm-d-values.yaml");
    let template = read("components/sidecar/sidecar.yaml")["spec"]["template"].take();
    let pod = &template["spec"];
    assert_eq!(
        values["modelArtifacts"]["labels"],
        template["metadata"]["labels"]
    );
    for role in ["decode", "prefill"] {
        let part = &values[role];
        assert_eq!(part["initContainers"], pod["initContainers"], "{role}");
        assert_eq!(part["volumes"], pod["volumes"], "{role}");
        let config = &part["extraConfig"];
        assert_eq!(
            config["shareProcessNamespace"],
            pod["shareProcessNamespace"]
        );
    }
}
