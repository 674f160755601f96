//! The pod of an overlay, made fit for `podman kube play`. It is derived from the manifest that is
//! shipped, so that the two cannot drift apart; what is taken away is what podman refuses, or what
//! stands for the real vLLM and its GPU.

use serde_json::{Map, Value, json};

use crate::{documents, folder, only, rendered};

/// The container of the sidecar.
pub const SIDECAR: &str = "cudasnoop";
/// The container beside it.
pub const WORKLOAD: &str = "vllm";

/// A pod for podman.
#[derive(Clone, Debug)]
pub struct Pod {
    name: String,
    annotations: Map<String, Value>,
    spec: Value,
}

impl Pod {
    /// The pod of an overlay's Deployment. Its sidecar is as it was but for
    /// - its place: podman would take a native sidecar for an init container, and wait for its end;
    /// - its ports and probes: there is no network, and no kubelet;
    /// - two variables: podman knows neither namespaces nor nodes.
    pub fn of_overlay(overlay: &str, name: &str) -> Self {
        let objects = documents(&rendered(&folder().join("overlays").join(overlay)));
        let mut spec = only(&objects, "Deployment")["spec"]["template"]["spec"].clone();
        let fields = spec.as_object_mut().expect("a pod has fields");
        fields.remove("runtimeClassName");
        let sidecars = fields
            .remove("initContainers")
            .expect("there is a native sidecar");
        let sidecar = sidecars.as_array().expect("a list")[0].clone();
        let containers = fields["containers"].as_array_mut().expect("a list");
        for container in containers.iter_mut() {
            be_a_workload(container.as_object_mut().expect("a container has fields"));
        }
        containers.push(for_podman(sidecar));
        for volume in fields["volumes"].as_array_mut().expect("a list") {
            if volume["persistentVolumeClaim"].is_object() {
                *volume = json!({"name": volume["name"], "emptyDir": {}});
            }
        }
        fields.insert("restartPolicy".to_owned(), "Never".into());
        Self {
            name: name.to_owned(),
            annotations: Map::new(),
            spec,
        }
    }

    /// With one container alone.
    #[must_use]
    pub fn only(mut self, container: &str) -> Self {
        let containers = self.spec["containers"].as_array_mut().expect("a list");
        containers.retain(|entry| entry["name"] == container);
        assert_eq!(containers.len(), 1, "{container}");
        self
    }

    /// With the workload's image, command and a folder of the host that it sees.
    #[must_use]
    pub fn workload(mut self, image: &str, command: &[&str], folder: (&str, &str)) -> Self {
        let (outside, inside) = folder;
        let container = self.container(WORKLOAD);
        container["image"] = image.into();
        container["command"] = json!(command);
        let mounts = container["volumeMounts"].as_array_mut().expect("a list");
        mounts.push(json!({"name": "test", "mountPath": inside}));
        let volumes = self.spec["volumes"].as_array_mut().expect("a list");
        volumes.push(json!({"name": "test", "hostPath": {"path": outside}}));
        self
    }

    /// Without one of the sidecar's capabilities.
    #[must_use]
    pub fn without_capability(mut self, capability: &str) -> Self {
        let added = &mut self.container(SIDECAR)["securityContext"]["capabilities"]["add"];
        let added = added.as_array_mut().expect("a list");
        let before = added.len();
        added.retain(|name| name != capability);
        assert_eq!(added.len() + 1, before, "{capability}");
        self
    }

    /// With a seccomp profile for the sidecar: a file in podman's folder of profiles. podman 4
    /// heeds no `seccompProfile`, but the annotation that came before it.
    #[must_use]
    pub fn sidecar_seccomp(mut self, file: &str) -> Self {
        let name = format!("container.seccomp.security.alpha.kubernetes.io/{SIDECAR}");
        let profile = format!("localhost/{file}");
        self.annotations.insert(name, profile.into());
        self
    }

    fn container(&mut self, name: &str) -> &mut Value {
        let containers = self.spec["containers"].as_array_mut().expect("a list");
        let container = containers.iter_mut().find(|entry| entry["name"] == name);
        container.unwrap_or_else(|| panic!("no container {name}"))
    }

    /// Its capabilities: all that the sidecar is given.
    pub fn capabilities(&mut self) -> Value {
        self.container(SIDECAR)["securityContext"]["capabilities"].clone()
    }

    /// The manifest. JSON is YAML.
    pub fn manifest(&self) -> String {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": self.name, "annotations": self.annotations},
            "spec": self.spec,
        })
        .to_string()
    }
}

/// vLLM without GPU, network and secrets.
fn be_a_workload(container: &mut Map<String, Value>) {
    for field in [
        "args",
        "env",
        "livenessProbe",
        "ports",
        "readinessProbe",
        "resources",
        "startupProbe",
    ] {
        container.remove(field);
    }
}

fn for_podman(mut sidecar: Value) -> Value {
    let fields = sidecar.as_object_mut().expect("a container has fields");
    let policy = fields.remove("restartPolicy");
    assert_eq!(policy, Some("Always".into()), "not a native sidecar");
    for field in ["livenessProbe", "ports", "resources", "startupProbe"] {
        assert!(fields.remove(field).is_some(), "{field}");
    }
    let variables = fields["env"].as_array_mut().expect("a list");
    variables.retain(|variable| {
        let field = &variable["valueFrom"]["fieldRef"]["fieldPath"];
        field != "metadata.namespace" && field != "spec.nodeName"
    });
    // Its counts are compared with the workload's own, launches too.
    variables.push(json!({"name": "CUDASNOOP_MAX_OVERHEAD", "value": "off"}));
    sidecar
}
