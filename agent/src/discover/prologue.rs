//! Where in a function a probe works best, told from its first instructions.
//!
//! A probe replaces an instruction by a trap. The kernel then carries out the instruction
//! itself where it can (`push`, most of all: cheap), else it steps over a copy of it, which
//! costs several times as much. Some instructions it refuses, and not loudly: attaching
//! succeeds, and no call is ever seen. So they are refused here.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
    OpKind, Register,
};

/// A function's first `push` is looked for in this many bytes.
const SCAN_LIMIT: u64 = 32;

/// Registers that hold a function's arguments or its return address.
const KEPT: [Register; 7] = [
    Register::RDI,
    Register::RSI,
    Register::RDX,
    Register::RCX,
    Register::R8,
    Register::R9,
    Register::RSP,
];

/// Which moments a probe sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Entry only: the probe may stand at a later instruction that every call reaches with
    /// its arguments in place.
    Entry,
    /// Return, or both: the probe stands at the first instruction.
    Return,
}

/// Where to put a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Bytes from the beginning of the function.
    pub offset: u64,
    /// Whether every kernel carries out the instruction there itself: a cheap probe.
    pub emulated: bool,
    /// Where the first instruction jumps to, if it is a direct jump: a call of this function
    /// is then a call of that code too.
    pub jumps_to: Option<u64>,
}

/// Why a probe would never fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unprobeable {
    /// A prefix that the kernel does not accept under a probe.
    #[error(
        "its first instruction begins with prefix {0:#04x} (lock or segment), where the kernel \
         places no probe: it would never fire"
    )]
    Prefix(u8),
    /// An instruction that the kernel does not accept under a probe.
    #[error(
        "its first instruction ({0}) is one where the kernel places no probe: it would never fire"
    )]
    Instruction(&'static str),
    /// No instruction of this processor.
    #[error("its first bytes are no instruction")]
    Invalid,
}

/// Chooses the place for a probe in the function at virtual address `address` that begins
/// with the bytes `code`.
pub fn place(code: &[u8], address: u64, moment: Moment) -> Result<Placement, Unprobeable> {
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let first = decoder.decode();
    check(code, &first)?;
    let jumps_to = matches!(first.flow_control(), FlowControl::UnconditionalBranch)
        .then(|| first.near_branch_target());
    let at_first = Placement {
        offset: 0,
        emulated: is_emulated(&first),
        jumps_to,
    };
    if at_first.emulated || moment == Moment::Return {
        return Ok(at_first);
    }
    let mut info = InstructionInfoFactory::new();
    let mut instruction = first;
    while keeps_arguments(&instruction, &mut info) && decoder.can_decode() {
        let offset = instruction.next_ip() - address;
        decoder.decode_out(&mut instruction);
        if offset <= SCAN_LIMIT && is_push(&instruction) {
            return Ok(Placement {
                offset,
                emulated: true,
                jumps_to: None,
            });
        }
    }
    Ok(at_first)
}

/// The kernel's own checks (`validate_insn_64bits` in arch/x86/kernel/uprobes.c), as far as
/// a function can begin like that.
fn check(code: &[u8], first: &Instruction) -> Result<(), Unprobeable> {
    if first.is_invalid() {
        return Err(Unprobeable::Invalid);
    }
    for byte in &code[..first.len()] {
        match byte {
            // ES, CS, SS, DS, LOCK.
            0x26 | 0x2e | 0x36 | 0x3e | 0xf0 => return Err(Unprobeable::Prefix(*byte)),
            // Operand and address size, FS, GS, REPNE, REP: accepted.
            0x64..=0x67 | 0xf2 | 0xf3 => {}
            _ => break,
        }
    }
    let refused = match first.mnemonic() {
        Mnemonic::Syscall => "syscall",
        Mnemonic::Sysenter => "sysenter",
        Mnemonic::Int3 => "int3",
        Mnemonic::Int1 => "int1",
        Mnemonic::Int => "int",
        Mnemonic::Hlt => "hlt",
        Mnemonic::Ud2 => "ud2",
        _ if first.is_privileged() => "privileged",
        _ => return Ok(()),
    };
    Err(Unprobeable::Instruction(refused))
}

/// `push` of a general register, plain or with a REX prefix.
fn is_push(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Push
        && instruction.op0_kind() == OpKind::Register
        && instruction.op0_register().is_gpr64()
        && instruction.len() <= 2
}

/// What kernels of all supported versions carry out themselves.
fn is_emulated(instruction: &Instruction) -> bool {
    is_push(instruction)
        || (instruction.mnemonic() == Mnemonic::Nop && instruction.len() == 1)
        || matches!(
            instruction.flow_control(),
            FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch
        )
}

/// Whether the instruction goes on to the next one and leaves arguments, stack pointer and
/// memory as they are.
fn keeps_arguments(instruction: &Instruction, info: &mut InstructionInfoFactory) -> bool {
    let writes = |access| {
        !matches!(
            access,
            OpAccess::None | OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess
        )
    };
    let effect = info.info(instruction);
    !instruction.is_invalid()
        && instruction.flow_control() == FlowControl::Next
        && !effect
            .used_memory()
            .iter()
            .any(|memory| writes(memory.access()))
        && !effect
            .used_registers()
            .iter()
            .any(|used| writes(used.access()) && KEPT.contains(&used.register().full_register()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(code: &[u8], moment: Moment) -> Placement {
        place(code, 0x1000, moment).expect("can be probed")
    }

    /// What objdump says about each is in the comment.
    #[test]
    fn a_push_is_the_place() {
        for code in [
            &[0x55][..],               // push %rbp
            &[0x41, 0x57],             // push %r15
            &[0x53, 0x48, 0x83, 0xec], // push %rbx; ...
        ] {
            for moment in [Moment::Entry, Moment::Return] {
                assert_eq!(
                    at(code, moment),
                    Placement {
                        offset: 0,
                        emulated: true,
                        jumps_to: None
                    }
                );
            }
        }
    }

    #[test]
    fn a_prologue_that_leaves_the_arguments_alone_is_passed_over() {
        // mov 0x2ff9(%rip),%rax; push %r14 (c10::reportMemoryUsageToProfiler of torch 2.14)
        let torch = [0x48, 0x8b, 0x05, 0xf9, 0x2f, 0x00, 0x00, 0x41, 0x56];
        assert_eq!(at(&torch, Moment::Entry).offset, 7);
        assert!(at(&torch, Moment::Entry).emulated);
        assert_eq!(
            at(&torch, Moment::Return),
            Placement {
                offset: 0,
                emulated: false,
                jumps_to: None
            }
        );
        // endbr64; push %rbp
        assert_eq!(at(&[0xf3, 0x0f, 0x1e, 0xfa, 0x55], Moment::Entry).offset, 4);
        // xor %eax,%eax; mov %rdi,%rax; mov %fs:0x28,%rax; push %rbx
        let longer = [
            0x31, 0xc0, 0x48, 0x89, 0xf8, 0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0, 0x53,
        ];
        assert_eq!(at(&longer, Moment::Entry).offset, 14);
    }

    #[test]
    fn a_prologue_that_touches_them_is_not() {
        let touching: [(&str, &[u8]); 9] = [
            ("mov %rax,%rdi; push %rbx", &[0x48, 0x89, 0xc7, 0x53]),
            ("mov %eax,%esi; push %rbx", &[0x89, 0xc6, 0x53]),
            ("mov $1,%cl; push %rbx", &[0xb1, 0x01, 0x53]),
            ("sub $8,%rsp; push %rbx", &[0x48, 0x83, 0xec, 0x08, 0x53]),
            (
                "mov %rax,-8(%rsp); push %rbx",
                &[0x48, 0x89, 0x44, 0x24, 0xf8, 0x53],
            ),
            (
                "test %rdi,%rdi; je +2; push %rbx",
                &[0x48, 0x85, 0xff, 0x74, 0x02, 0x53],
            ),
            ("call *%rax; push %rbx", &[0xff, 0xd0, 0x53]),
            (
                "cmovne %rax,%rdx; push %rbx",
                &[0x48, 0x0f, 0x45, 0xd0, 0x53],
            ),
            ("ret; push %rbx", &[0xc3, 0x53]),
        ];
        for (name, code) in touching {
            assert_eq!(at(code, Moment::Entry).offset, 0, "{name}");
        }
    }

    #[test]
    fn a_push_too_far_away_or_cut_off_is_not_looked_for() {
        // xor %eax,%eax, again and again
        let mut code = [0x31, 0xc0].repeat(17);
        code.push(0x53);
        assert_eq!(at(&code, Moment::Entry).offset, 0);
        assert_eq!(at(&[0x31, 0xc0], Moment::Entry).offset, 0);
        assert_eq!(at(&[0x31, 0xc0, 0x41], Moment::Entry).offset, 0);
    }

    #[test]
    fn what_the_kernel_refuses_is_refused() {
        // lock xadd %eax,(%rdi)
        let lock = place(&[0xf0, 0x0f, 0xc1, 0x07], 0, Moment::Entry);
        assert_eq!(lock, Err(Unprobeable::Prefix(0xf0)));
        // data16 cs nopw 0x0(%rax,%rax,1)
        let segment = [0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0];
        assert_eq!(
            place(&segment, 0, Moment::Entry),
            Err(Unprobeable::Prefix(0x2e))
        );
        for code in [
            &[0xcc][..],
            &[0xf4],
            &[0x0f, 0x05],
            &[0x0f, 0x0b],
            &[0xfa],
            &[0xe4, 0x10],
        ] {
            let refused = place(code, 0, Moment::Return);
            assert!(
                matches!(refused, Err(Unprobeable::Instruction(_))),
                "{code:02x?} {refused:?}"
            );
        }
        for code in [&[][..], &[0x06], &[0xf0], &[0x0f]] {
            assert_eq!(
                place(code, 0, Moment::Entry),
                Err(Unprobeable::Invalid),
                "{code:02x?}"
            );
        }
    }

    #[test]
    fn a_jump_tells_where_it_leads() {
        // jmp +0x10
        assert_eq!(
            at(&[0xe9, 0x10, 0, 0, 0], Moment::Return).jumps_to,
            Some(0x1015)
        );
        assert_eq!(at(&[0xeb, 0xfe], Moment::Return).jumps_to, Some(0x1000));
    }
}
