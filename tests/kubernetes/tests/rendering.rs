//! What kubectl makes of the overlays, read strictly: a field that Kubernetes does not know is an
//! error here, where kubectl and the API server may only warn.

mod strict;

use std::{fs, process::Command};

use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment},
    core::v1::{
        Capabilities, ConfigMap, Container, Namespace, PersistentVolumeClaim, PodSpec,
        SecurityContext, Service,
    },
};
use kubernetes_manifests::{documents, folder, named, only, output_of, rendered};
use serde_json::{Value, json};
use strict::strictly;

const OVERLAYS: [&str; 3] = ["daemonset", "k3s", "plain"];

fn overlay(name: &str) -> Vec<Value> {
    documents(&rendered(&folder().join("overlays").join(name)))
}

/// The pod of a workload's template.
fn pod_spec(workload: &Value) -> PodSpec {
    strictly(&workload["spec"]["template"]["spec"])
}

fn sidecar(pod: &PodSpec) -> &Container {
    let [sidecar] = &pod.init_containers.as_deref().unwrap_or_default() else {
        panic!("{:?}", pod.init_containers);
    };
    sidecar
}

#[test]
fn every_object_is_one_of_kubernetes() {
    let mut kinds = Vec::new();
    for name in OVERLAYS {
        for object in overlay(name) {
            let kind = object["kind"].as_str().unwrap();
            match kind {
                "DaemonSet" => drop(strictly::<DaemonSet>(&object)),
                "Deployment" => drop(strictly::<Deployment>(&object)),
                "Namespace" => drop(strictly::<Namespace>(&object)),
                "PersistentVolumeClaim" => drop(strictly::<PersistentVolumeClaim>(&object)),
                "Service" => drop(strictly::<Service>(&object)),
                _ => panic!("{name} has a {kind}"),
            }
            kinds.push(format!("{name}: {kind}"));
        }
    }
    kinds.sort();
    assert_eq!(
        kinds,
        [
            "daemonset: DaemonSet",
            "daemonset: Namespace",
            "k3s: Deployment",
            "k3s: Namespace",
            "k3s: PersistentVolumeClaim",
            "k3s: Service",
            "plain: Deployment",
            "plain: Namespace",
            "plain: PersistentVolumeClaim",
            "plain: Service",
        ]
    );
}

/// A second opinion: the schemas of the oldest Kubernetes with native sidecars on by default, and
/// of the newest.
#[test]
fn the_schemas_of_several_versions_agree() {
    let folder = tempfile::tempdir().unwrap();
    let python = std::env::var_os("CUDASNOOP_PYTHON").expect("run `cargo xtask test`");
    let validate = std::path::Path::new(&python).with_file_name("kubernetes-validate");
    let mut files = Vec::new();
    for name in OVERLAYS {
        for (number, object) in overlay(name).iter().enumerate() {
            let file = folder.path().join(format!("{name}-{number}.json"));
            fs::write(&file, object.to_string()).unwrap();
            files.push(file);
        }
    }
    for version in ["1.29", "1.37"] {
        output_of(
            Command::new(&validate)
                .args(["--strict", "-k", version])
                .args(&files),
        );
    }
    // It can say no: before 1.28 no container had a restart policy.
    let k3s = overlay("k3s");
    let file = folder.path().join("deployment.json");
    fs::write(&file, only(&k3s, "Deployment").to_string()).unwrap();
    let old = Command::new(&validate)
        .args(["--strict", "-k", "1.27"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(!old.status.success());
}

/// Exactly what docs/security.md says, and nothing beyond.
fn assert_least_privilege(context: Option<&SecurityContext>) {
    let expected = SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities {
            add: Some(["BPF", "PERFMON", "SYS_PTRACE"].map(str::to_owned).to_vec()),
            drop: Some(vec!["ALL".to_owned()]),
        }),
        privileged: Some(false),
        read_only_root_filesystem: Some(true),
        run_as_non_root: Some(false),
        run_as_user: Some(0),
        ..SecurityContext::default()
    };
    assert_eq!(context, Some(&expected));
}

fn mounts_no_host_path(pod: &PodSpec) -> bool {
    let volumes = pod.volumes.as_deref().unwrap_or_default();
    volumes.iter().all(|volume| volume.host_path.is_none())
}

#[test]
fn the_sidecar_has_three_capabilities_and_nothing_of_the_host() {
    for name in ["k3s", "plain"] {
        let objects = overlay(name);
        let pod = pod_spec(only(&objects, "Deployment"));
        assert_least_privilege(sidecar(&pod).security_context.as_ref());
        assert!(mounts_no_host_path(&pod), "{name}");
        assert_eq!(pod.share_process_namespace, Some(true));
        assert_eq!((pod.host_pid, pod.host_network), (None, None));
    }
    let objects = overlay("daemonset");
    let pod = pod_spec(only(&objects, "DaemonSet"));
    assert_least_privilege(pod.containers[0].security_context.as_ref());
    assert!(mounts_no_host_path(&pod));
    assert_eq!(pod.host_pid, Some(true));
    assert_eq!(pod.host_network, None);
    assert_eq!(pod.automount_service_account_token, Some(false));
    let profile = fs::read_to_string(folder().join("debug/profile.yaml")).unwrap();
    let profile: Container = strictly(&documents(&profile)[0]);
    assert_least_privilege(profile.security_context.as_ref());
}

/// The profile by which recordings are fetched mounts the sidecar's own volume, to read.
#[test]
fn recordings_are_fetched_from_where_they_lie() {
    let profile = fs::read_to_string(folder().join("debug/recordings.yaml")).unwrap();
    let profile: Container = strictly(&documents(&profile)[0]);
    let objects = overlay("k3s");
    let pod = pod_spec(only(&objects, "Deployment"));
    let [mount] = profile.volume_mounts.as_deref().unwrap() else {
        panic!("{profile:?}");
    };
    let mounts = sidecar(&pod).volume_mounts.as_deref().unwrap();
    assert!(mounts.iter().any(|its| its.name == mount.name));
    assert_eq!(mount.read_only, Some(true));
    assert_eq!(profile.security_context, None);
}

#[test]
fn the_sidecar_is_native_and_keeps_nobody_waiting() {
    let objects = overlay("k3s");
    let pod = pod_spec(only(&objects, "Deployment"));
    let sidecar = sidecar(&pod);
    assert_eq!(sidecar.restart_policy.as_deref(), Some("Always"));
    let path = |probe: Option<&k8s_openapi::api::core::v1::Probe>| {
        let get = probe?.http_get.as_ref()?;
        get.path.clone()
    };
    // The next container waits for the first of them.
    assert_eq!(
        path(sidecar.startup_probe.as_ref()).as_deref(),
        Some("/healthz")
    );
    assert_eq!(
        path(sidecar.liveness_probe.as_ref()).as_deref(),
        Some("/healthz")
    );
    assert!(
        sidecar.readiness_probe.is_none(),
        "it would make the pod unready"
    );
    let resources = sidecar.resources.as_ref().unwrap();
    let requests = resources.requests.as_ref().unwrap();
    assert!(requests.keys().all(|resource| resource != "nvidia.com/gpu"));
    // The server is as it was.
    let base = documents(&rendered(&folder().join("base")));
    let before = pod_spec(only(&base, "Deployment"));
    assert_eq!(pod.containers, before.containers);
    assert_eq!(before.init_containers, None);
    assert_eq!(pod.runtime_class_name.as_deref(), Some("nvidia"));
}

/// The selectors of a Deployment cannot be changed later: the sidecar must not touch them.
#[test]
fn labels_and_selectors_fit() {
    for name in ["k3s", "plain"] {
        let objects = overlay(name);
        let deployment: Deployment = strictly(only(&objects, "Deployment"));
        let spec = deployment.spec.unwrap();
        let labels = spec.template.metadata.unwrap().labels.unwrap();
        let selector = spec.selector.match_labels.unwrap();
        assert_eq!(json!(selector), json!({"app.kubernetes.io/name": "vllm"}));
        assert!(
            selector
                .iter()
                .all(|(name, value)| labels.get(name) == Some(value))
        );
        let service: Service = strictly(only(&objects, "Service"));
        let selector = service.spec.unwrap().selector.unwrap();
        assert!(
            selector
                .iter()
                .all(|(name, value)| labels.get(name) == Some(value))
        );
    }
}

/// The recordings' folder is larger than what may lie in it; else the pod would be evicted.
#[test]
fn recordings_fit_into_their_volume() {
    let (plain, daemonset) = (overlay("plain"), overlay("daemonset"));
    for workload in [only(&plain, "Deployment"), only(&daemonset, "DaemonSet")] {
        let pod = &workload["spec"]["template"]["spec"];
        let container = match &pod["initContainers"] {
            Value::Null => &pod["containers"],
            sidecars => sidecars,
        };
        let environment = &named(container, "cudasnoop")["env"];
        let budget = &named(environment, "CUDASNOOP_DISK")["value"];
        assert_eq!(*budget, "1GiB");
        let volume = named(&pod["volumes"], "recordings");
        assert_eq!(volume["emptyDir"]["sizeLimit"], "1200Mi");
    }
}

/// One place for each: the version, and what is said twice.
#[test]
fn the_image_is_that_of_this_version() {
    let image = format!("localhost/cudasnoop:{}", env!("CARGO_PKG_VERSION"));
    let (plain, daemonset) = (overlay("plain"), overlay("daemonset"));
    let sidecar = &only(&plain, "Deployment")["spec"]["template"]["spec"]["initContainers"][0];
    let node = &only(&daemonset, "DaemonSet")["spec"]["template"]["spec"]["containers"][0];
    for container in [sidecar, node] {
        assert_eq!(container["image"], image);
    }
    for field in [
        "args",
        "ports",
        "securityContext",
        "startupProbe",
        "livenessProbe",
    ] {
        assert_eq!(sidecar[field], node[field], "{field}");
    }
}

#[test]
fn the_dashboard_is_where_grafanas_sidecar_looks() {
    let objects = documents(&rendered(&folder().join("monitoring")));
    let map: ConfigMap = strictly(only(&objects, "ConfigMap"));
    let labels = map.metadata.labels.unwrap();
    assert_eq!(labels["grafana_dashboard"], "1");
    let files: Vec<String> = map.data.unwrap().into_keys().collect();
    assert_eq!(files, ["cudasnoop.json"]);
}

/// Options are variables: each must be one of `cudasnoop serve`.
#[test]
fn every_variable_is_an_option() {
    let options = fs::read_to_string(folder().join("../agent/config/cudasnoop.toml")).unwrap();
    let (plain, daemonset) = (overlay("plain"), overlay("daemonset"));
    let pods = [only(&plain, "Deployment"), only(&daemonset, "DaemonSet")];
    let mut seen = 0;
    for pod in pods.map(|workload| &workload["spec"]["template"]["spec"]) {
        let containers = ["initContainers", "containers"].map(|list| pod[list].as_array());
        for variable in containers
            .into_iter()
            .flatten()
            .flatten()
            .filter(|container| container["name"] == "cudasnoop")
            .flat_map(|container| container["env"].as_array().unwrap())
        {
            let name = variable["name"].as_str().unwrap();
            let Some(option) = name.strip_prefix("CUDASNOOP_") else {
                continue;
            };
            let key = format!("#{} = ", option.to_lowercase().replace('_', "-"));
            assert!(options.lines().any(|line| line.starts_with(&key)), "{name}");
            seen += 1;
        }
    }
    assert_eq!(seen, 5);
}
