//! Which container and pod a process belongs to, by the path of its cgroup.
//!
//! Runtimes name the cgroup of a container by its id: `cri-containerd-ID.scope`, `crio-ID.scope`,
//! `docker-ID.scope`, `libpod-ID.scope` or the bare id. The kubelet names the one around it by the
//! pod's uid: `pod` and the uid, in which the systemd driver writes `_` for `-`.

/// Hex digits of a container's id.
const ID_LENGTH: usize = 64;
/// Characters of a uid.
const UID_LENGTH: usize = 36;

/// A container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Its id: 64 hex digits.
    pub id: String,
    /// Its pod's uid, where the path tells: it does not where the cgroup namespace hides it.
    pub pod_uid: Option<String>,
}

impl Container {
    /// That of a process in these cgroups, one path for each hierarchy.
    pub fn of_cgroups<'a>(paths: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        paths.into_iter().find_map(Self::of_cgroup)
    }

    fn of_cgroup(path: &str) -> Option<Self> {
        let mut elements = path.rsplit('/');
        let id = elements.find_map(container_id)?;
        let pod_uid = elements.find_map(pod_uid);
        Some(Self {
            id: id.to_owned(),
            pod_uid,
        })
    }
}

fn container_id(element: &str) -> Option<&str> {
    let name = element.strip_suffix(".scope").unwrap_or(element);
    let id = name.rsplit('-').next()?;
    let is_id = id.len() == ID_LENGTH && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    // The runtime's own process beside the container.
    (is_id && !name.contains("conmon")).then_some(id)
}

fn pod_uid(element: &str) -> Option<String> {
    let name = element.strip_suffix(".slice").unwrap_or(element);
    let start = name.rfind("pod")? + "pod".len();
    let uid = name.get(start..)?.replace('_', "-");
    let is_uid = uid.len() == UID_LENGTH
        && uid
            .bytes()
            .all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
    is_uid.then_some(uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0e4a8b1dc5f7290e4a8b1dc5f7290e4a8b1dc5f7290e4a8b1dc5f7290e4a8b1d";
    const UID: &str = "9cb1c0de-94a1-4a0e-8f3e-2f5b7d2f1a00";

    fn found(path: &str) -> Option<(String, Option<String>)> {
        let container = Container::of_cgroups([path])?;
        Some((container.id, container.pod_uid))
    }

    #[test]
    fn containers_and_pods_by_path() {
        let underscored = UID.replace('-', "_");
        let in_pod = [
            format!("/kubepods/burstable/pod{UID}/{ID}"),
            format!(
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{underscored}.slice/cri-containerd-{ID}.scope"
            ),
            format!("/kubepods.slice/kubepods-pod{underscored}.slice/crio-{ID}.scope/container"),
        ];
        for path in in_pod {
            let expected = (ID.to_owned(), Some(UID.to_owned()));
            assert_eq!(found(&path), Some(expected), "{path}");
        }
        let alone = [
            format!("/docker/{ID}"),
            format!("/system.slice/docker-{ID}.scope"),
            format!("/../cri-containerd-{ID}.scope"),
            format!("/libpod_parent/libpod-{ID}/container"),
        ];
        for path in alone {
            assert_eq!(found(&path), Some((ID.to_owned(), None)), "{path}");
        }
    }

    #[test]
    fn no_container() {
        let conmon = format!("/machine.slice/libpod-conmon-{ID}.scope");
        let almost = format!("/docker/{}", &ID[1..]);
        let no_hex = format!("/docker/{}", "g".repeat(ID_LENGTH));
        for path in [
            "/",
            "",
            "/user.slice/session-1.scope",
            &conmon,
            &almost,
            &no_hex,
            "/pod/é",
        ] {
            assert_eq!(found(path), None, "{path}");
        }
    }
}
