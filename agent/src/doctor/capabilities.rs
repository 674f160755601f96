//! The capabilities: those that are needed, and those that help.

use caps::Capability;
use nix::unistd::geteuid;

use super::{
    check::{Check, CheckId},
    locks::{Locks, Refuser},
    trial::Refused,
};
use crate::kernel::{AttachMode, Privileges};

impl Locks {
    pub(super) fn needed_capabilities(
        &self,
        mode: AttachMode,
        refused: Option<(Refused, Refuser)>,
    ) -> Vec<Check> {
        let needed = Privileges::needed(mode);
        let missing: Vec<Capability> = needed
            .iter()
            .filter(|capability| !self.privileges.has(**capability))
            .copied()
            .collect();
        // The first of them is what the kernel looked for.
        let mut refused = refused
            .filter(|(_, refuser)| *refuser == Refuser::Capability)
            .map(|(refused, _)| refused);
        let fixed = |check: Check| check.yaml(add_line(&missing)).shell(add_command(&missing));
        needed
            .iter()
            .map(|capability| {
                let id = check_of(*capability);
                if !missing.contains(capability) {
                    return Check::ok(id, format!("{capability} is held"));
                }
                let answer = refused.take_if(|_| *capability != Capability::CAP_SYS_PTRACE);
                let finding = match answer {
                    Some(Refused { call, errno }) => {
                        format!("{capability} is not held: {call} answers {errno:?}")
                    }
                    None => format!("{capability} is not held: {}", purpose(*capability)),
                };
                fixed(Check::missing(id, finding).errno(answer.map(|refused| refused.errno)))
            })
            .collect()
    }

    pub(super) fn optional_capabilities(&self) -> Vec<Check> {
        [Capability::CAP_CHECKPOINT_RESTORE, Capability::CAP_SYS_NICE]
            .map(|capability| {
                let id = check_of(capability);
                if self.privileges.has(capability) {
                    return Check::ok(id, format!("{capability} is held"));
                }
                let purpose = purpose(capability);
                Check::warning(
                    id,
                    format!("{capability} is not held (optional): {purpose}"),
                )
                .yaml(add_line(&[capability]))
                .shell(add_command(&[capability]))
            })
            .into()
    }
}

const fn check_of(capability: Capability) -> CheckId {
    match capability {
        Capability::CAP_BPF => CheckId::CapBpf,
        Capability::CAP_PERFMON => CheckId::CapPerfmon,
        Capability::CAP_SYS_PTRACE => CheckId::CapSysPtrace,
        Capability::CAP_CHECKPOINT_RESTORE => CheckId::CapCheckpointRestore,
        Capability::CAP_SYS_NICE => CheckId::CapSysNice,
        _ => CheckId::CapSysAdmin,
    }
}

/// What it is for.
const fn purpose(capability: Capability) -> &'static str {
    match capability {
        Capability::CAP_BPF => "no map can be created",
        Capability::CAP_PERFMON => "no program can be loaded",
        Capability::CAP_SYS_PTRACE => "other processes' files cannot be opened",
        Capability::CAP_CHECKPOINT_RESTORE => {
            "a library that was replaced on disk since it was mapped cannot be traced"
        }
        Capability::CAP_SYS_NICE => {
            "events may be lost where traced threads keep all processors busy"
        }
        _ => "single uprobes, which are all that this kernel has, cannot be opened",
    }
}

/// `BPF`, `PERFMON`: as Kubernetes and Docker call them.
fn short(capability: Capability) -> String {
    capability.to_string().trim_start_matches("CAP_").to_owned()
}

/// The line of a manifest that grants them.
pub(super) fn add_line(capabilities: &[Capability]) -> String {
    let names: Vec<String> = capabilities.iter().map(|one| short(*one)).collect();
    let add = format!("capabilities: {{add: [{}]}}", names.join(", "));
    if geteuid().is_root() {
        format!("securityContext: {{{add}}}")
    } else {
        format!("securityContext: {{runAsUser: 0, {add}}}")
    }
}

/// The command that grants them.
pub(super) fn add_command(capabilities: &[Capability]) -> String {
    if !geteuid().is_root() {
        return "sudo cudasnoop ...".to_owned();
    }
    let options: Vec<String> = capabilities
        .iter()
        .map(|one| format!("--cap-add={}", short(*one)))
        .collect();
    format!("docker run {}", options.join(" "))
}
