//! Which processes are to be traced, where they are not named by their ids.

use std::path::Path;

use wildmatch::WildMatch;

use super::{Container, Process};

/// The programs that hold a pod's namespaces and do nothing else, where they are process 1.
const PAUSE: [&str; 3] = ["pause", "catatonit", "pod"];

/// Fewest characters of a container's id that are enough.
pub const SHORTEST_CONTAINER_ID: usize = 12;

/// A choice among all processes that can be seen. What is given must all be fulfilled; of
/// several patterns, one. Never matches this process, kernel threads, or the pause process.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Patterns with `*` and `?` for the executable: its file name, or its path if the pattern
    /// has a slash. Empty for all.
    pub executables: Vec<WildMatch>,
    /// A cgroup, by its path below the mount point: those in it and below.
    pub cgroup: Option<String>,
    /// The beginning of a container's id.
    pub container: Option<String>,
}

impl Selection {
    /// Whether `process` is chosen. One that cannot be looked at is not.
    pub fn matches(&self, process: &Process) -> bool {
        let Self {
            executables,
            cgroup,
            container,
        } = self;
        if process.pid() == std::process::id() {
            return false;
        }
        // Kernel threads have none.
        let Ok(executable) = process.executable() else {
            return false;
        };
        if process.pid() == 1 && is_pause(&executable) {
            return false;
        }
        if !executables.is_empty()
            && !executables
                .iter()
                .any(|pattern| names(pattern, &executable))
        {
            return false;
        }
        if cgroup.is_none() && container.is_none() {
            return true;
        }
        let Ok(cgroups) = process.cgroups() else {
            return false;
        };
        let in_cgroup = |wanted: &String| cgroups.iter().any(|path| is_within(path, wanted));
        let in_container = |wanted: &String| {
            Container::of_cgroups(cgroups.iter().map(String::as_str))
                .is_some_and(|container| container.id.starts_with(wanted.as_str()))
        };
        cgroup.as_ref().is_none_or(in_cgroup) && container.as_ref().is_none_or(in_container)
    }
}

fn is_pause(executable: &Path) -> bool {
    executable
        .file_name()
        .is_some_and(|name| PAUSE.iter().any(|pause| name == *pause))
}

fn names(pattern: &WildMatch, executable: &Path) -> bool {
    let path = executable.to_string_lossy();
    if pattern.to_string().contains('/') {
        return pattern.matches(&path);
    }
    let name = path.rsplit('/').next().unwrap_or_default();
    // What the kernel says of a program whose file was removed or replaced.
    pattern.matches(name.strip_suffix(" (deleted)").unwrap_or(name))
}

/// Whether the cgroup at `path` is `wanted` or lies in it.
fn is_within(path: &str, wanted: &str) -> bool {
    let wanted = wanted.trim_matches('/');
    let rest = path.trim_start_matches('/').strip_prefix(wanted);
    wanted.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executables_by_name_or_path() {
        let python = Path::new("/usr/bin/python3.12");
        for (pattern, expected) in [
            ("python*", true),
            ("python3.1?", true),
            ("python", false),
            ("/usr/bin/*", true),
            ("*/python3.12", true),
            ("/bin/*", false),
        ] {
            assert_eq!(
                names(&WildMatch::new(pattern), python),
                expected,
                "{pattern}"
            );
        }
        let deleted = Path::new("/opt/engine (deleted)");
        assert!(names(&WildMatch::new("engine"), deleted));
    }

    #[test]
    fn cgroups_hold_what_is_below() {
        for (path, wanted, expected) in [
            ("/kubepods/pod1/a", "/kubepods/pod1", true),
            ("/kubepods/pod1", "kubepods/pod1/", true),
            ("/kubepods/pod10", "/kubepods/pod1", false),
            ("/a", "/", true),
            ("/", "/a", false),
        ] {
            assert_eq!(is_within(path, wanted), expected, "{path} in {wanted}");
        }
    }

    #[test]
    fn never_ourselves() {
        let this = Process::open(std::process::id()).expect("we run");
        assert!(!Selection::default().matches(&this));
    }
}
