//! Whose metrics they are: the attributes of the resource.

use std::collections::BTreeMap;

use super::pairs;
use crate::session;
use trace::fact::Pod;

const SERVICE: &str = "service.name";
/// The variable with further attributes.
const LIST: &str = "OTEL_RESOURCE_ATTRIBUTES";

/// Attributes, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Identity(pub(super) BTreeMap<String, String>);

impl Identity {
    /// What is known of us; what `OTEL_RESOURCE_ATTRIBUTES` says goes before it, and the service's
    /// name that `OTEL_SERVICE_NAME` says before that.
    pub(super) fn of_environment(variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let host = nix::sys::utsname::uname()
            .ok()
            .and_then(|name| name.nodename().to_str().map(str::to_owned));
        let Pod {
            name,
            namespace,
            uid,
            node,
        } = session::pod().unwrap_or_default();
        let known = [
            (SERVICE, Some("cudasnoop".to_owned())),
            (
                "service.version",
                Some(env!("CARGO_PKG_VERSION").to_owned()),
            ),
            ("service.instance.id", uid.clone().or_else(|| host.clone())),
            ("host.name", host),
            ("k8s.pod.name", name),
            ("k8s.namespace.name", namespace),
            ("k8s.pod.uid", uid),
            ("k8s.node.name", node),
        ];
        let known = known.into_iter();
        let mut attributes: BTreeMap<String, String> = known
            .filter_map(|(key, value)| Some((key.to_owned(), value?)))
            .collect();
        match pairs::parse(&variable(LIST).unwrap_or_default()) {
            Ok(pairs) => attributes.extend(pairs),
            Err(problem) => tracing::warn!("{LIST} is passed over: {problem}"),
        }
        if let Some(name) = variable("OTEL_SERVICE_NAME") {
            attributes.insert(SERVICE.to_owned(), name);
        }
        Self(attributes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_goes_first() {
        let identity = Identity::of_environment(&|name| {
            let value = match name {
                "OTEL_SERVICE_NAME" => "worker",
                "OTEL_RESOURCE_ATTRIBUTES" => {
                    "service.name=other,host.name=here,deployment.environment=a%20b"
                }
                _ => return None,
            };
            Some(value.to_owned())
        });
        let has = |key: &str| identity.0.get(key).map(String::as_str);
        assert_eq!(has("service.name"), Some("worker"));
        assert_eq!(has("host.name"), Some("here"));
        assert_eq!(has("deployment.environment"), Some("a b"));
        assert_eq!(has("service.version"), Some(env!("CARGO_PKG_VERSION")));
        let plain = Identity::of_environment(&|_| None);
        assert_eq!(plain.0["service.name"], "cudasnoop");
    }
}
