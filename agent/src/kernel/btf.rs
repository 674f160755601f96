//! Offsets of kernel structure fields, from the kernel's own type information.
//!
//! The layout of BTF is <include/uapi/linux/btf.h>, which is ABI. aya reads BTF too, but keeps
//! structure members to itself.

use std::{collections::HashMap, fs, io, path::Path};

use thiserror::Error;

/// Where the kernel shows its type information.
pub const VMLINUX: &str = "/sys/kernel/btf/vmlinux";

/// Why offsets could not be had.
#[derive(Debug, Error)]
pub enum BtfError {
    /// The file could not be read.
    #[error("reading {VMLINUX}: {0} (the kernel needs CONFIG_DEBUG_INFO_BTF)")]
    Read(#[source] io::Error),
    /// The file is not as it should be.
    #[error("{VMLINUX} is not understood at byte {at}")]
    Malformed {
        /// Where.
        at: usize,
    },
    /// A field is not there.
    #[error("the kernel's `struct {structure}` has no field `{field}`")]
    NoField {
        /// The structure.
        structure: &'static str,
        /// The field.
        field: &'static str,
    },
}

/// The fields that the eBPF programs read, byte offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskOffsets {
    /// `task_struct.pid`.
    pub task_pid: u64,
    /// `task_struct.tgid`.
    pub task_tgid: u64,
    /// `task_struct.signal`.
    pub task_signal: u64,
    /// `signal_struct.live`.
    pub signal_live: u64,
    /// `task_struct.group_leader`.
    pub task_group_leader: u64,
    /// `task_struct.thread_pid`.
    pub task_thread_pid: u64,
    /// `pid.numbers`.
    pub pid_numbers: u64,
    /// `pid.level`.
    pub pid_level: u64,
    /// Size of `struct upid`.
    pub upid_size: u64,
    /// `upid.ns`.
    pub upid_ns: u64,
    /// `pid_namespace.ns.inum`.
    pub namespace_inum: u64,
}

impl TaskOffsets {
    /// Those of the running kernel.
    pub fn of_running_kernel() -> Result<Self, BtfError> {
        Self::parse(&fs::read(Path::new(VMLINUX)).map_err(BtfError::Read)?)
    }

    fn parse(data: &[u8]) -> Result<Self, BtfError> {
        let types = Types::parse(data)?;
        Ok(Self {
            task_pid: types.offset("task_struct", "pid")?,
            task_tgid: types.offset("task_struct", "tgid")?,
            task_signal: types.offset("task_struct", "signal")?,
            signal_live: types.offset("signal_struct", "live")?,
            task_group_leader: types.offset("task_struct", "group_leader")?,
            task_thread_pid: types.offset("task_struct", "thread_pid")?,
            pid_numbers: types.offset("pid", "numbers")?,
            pid_level: types.offset("pid", "level")?,
            upid_size: types.size("upid")?,
            upid_ns: types.offset("upid", "ns")?,
            namespace_inum: types.offset("pid_namespace", "ns")?
                + types.offset("ns_common", "inum")?,
        })
    }
}

const KIND_STRUCT: u32 = 4;
const KIND_UNION: u32 = 5;

/// Where the structures and unions are.
struct Types<'a> {
    descriptions: &'a [u8],
    strings: &'a [u8],
    /// By type id: offset of the type's description.
    composites: HashMap<u32, usize>,
    /// By name: type id of the structure.
    structures: HashMap<&'a [u8], u32>,
}

impl<'a> Types<'a> {
    fn parse(data: &'a [u8]) -> Result<Self, BtfError> {
        let header = u32_at(data, 4)? as usize;
        let section = |offset_at, length_at| -> Result<&'a [u8], BtfError> {
            let start = header + u32_at(data, offset_at)? as usize;
            let end = start + u32_at(data, length_at)? as usize;
            data.get(start..end)
                .ok_or(BtfError::Malformed { at: start })
        };
        let (types, strings) = (section(8, 12)?, section(16, 20)?);
        let mut composites = HashMap::new();
        let mut structures = HashMap::new();
        let (mut at, mut id) = (0, 0);
        while at < types.len() {
            id += 1;
            let info = u32_at(types, at + 4)?;
            let (kind, members) = ((info >> 24) & 0x1f, (info & 0xffff) as usize);
            if kind == KIND_STRUCT || kind == KIND_UNION {
                composites.insert(id, at);
                if kind == KIND_STRUCT {
                    let name = string_at(strings, u32_at(types, at)?)?;
                    structures.entry(name).or_insert(id);
                }
            }
            at += 12 + trailing(kind, members).ok_or(BtfError::Malformed { at })?;
        }
        Ok(Self {
            descriptions: types,
            strings,
            composites,
            structures,
        })
    }

    fn size(&self, structure: &'static str) -> Result<u64, BtfError> {
        let at = self.structure(structure)?;
        Ok(u32_at(self.descriptions, at + 8)?.into())
    }

    fn offset(&self, structure: &'static str, field: &'static str) -> Result<u64, BtfError> {
        let at = self.structure(structure)?;
        self.field(at, field, 8)?
            .map(|bits| u64::from(bits / 8))
            .ok_or(BtfError::NoField { structure, field })
    }

    fn structure(&self, name: &'static str) -> Result<usize, BtfError> {
        self.structures
            .get(name.as_bytes())
            .and_then(|id| self.composites.get(id))
            .copied()
            .ok_or(BtfError::NoField {
                structure: name,
                field: "(itself)",
            })
    }

    /// Bit offset of a field, also one in an unnamed member (layout randomisation wraps
    /// `task_struct` in one).
    fn field(&self, at: usize, field: &str, depth: u32) -> Result<Option<u32>, BtfError> {
        if depth == 0 {
            return Ok(None);
        }
        let info = u32_at(self.descriptions, at + 4)?;
        let has_bit_fields = info >> 31 == 1;
        for member in 0..(info & 0xffff) as usize {
            let member = at + 12 + member * 12;
            let name = string_at(self.strings, u32_at(self.descriptions, member)?)?;
            let mut bits = u32_at(self.descriptions, member + 8)?;
            if has_bit_fields {
                bits &= 0x00ff_ffff;
            }
            if name == field.as_bytes() {
                return Ok(Some(bits));
            }
            if name.is_empty() {
                let inner = self.composites.get(&u32_at(self.descriptions, member + 4)?);
                if let Some(inner) = inner
                    && let Some(found) = self.field(*inner, field, depth - 1)?
                {
                    return Ok(Some(bits + found));
                }
            }
        }
        Ok(None)
    }
}

/// Bytes after the common 12 of a type of this kind; `None` for a kind that is not known.
fn trailing(kind: u32, members: usize) -> Option<usize> {
    Some(match kind {
        // INT, VAR, DECL_TAG.
        1 | 14 | 17 => 4,
        // ARRAY.
        3 => 12,
        // STRUCT, UNION, DATASEC, ENUM64.
        4 | 5 | 15 | 19 => members * 12,
        // ENUM, FUNC_PROTO.
        6 | 13 => members * 8,
        // PTR, FWD, TYPEDEF, VOLATILE, CONST, RESTRICT, FUNC, FLOAT, TYPE_TAG.
        2 | 7..=12 | 16 | 18 => 0,
        _ => return None,
    })
}

fn u32_at(data: &[u8], at: usize) -> Result<u32, BtfError> {
    let bytes = data.get(at..at + 4).ok_or(BtfError::Malformed { at })?;
    Ok(u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

fn string_at(strings: &[u8], at: u32) -> Result<&[u8], BtfError> {
    let at = at as usize;
    let tail = strings.get(at..).ok_or(BtfError::Malformed { at })?;
    Ok(tail.split(|byte| *byte == 0).next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_running_kernel_has_the_fields() {
        let offsets = TaskOffsets::of_running_kernel().expect("BTF of the running kernel");
        // Facts of struct task_struct: pid and tgid are neighbours, both after the first field.
        assert_eq!(offsets.task_tgid, offsets.task_pid + 4);
        assert!(offsets.task_pid > 0 && offsets.task_thread_pid > offsets.task_pid);
        // struct upid { int nr; struct pid_namespace *ns; } on a 64-bit machine.
        assert_eq!((offsets.upid_size, offsets.upid_ns), (16, 8));
    }

    #[test]
    fn damage_is_an_error() {
        let data = fs::read(VMLINUX).expect("BTF of the running kernel");
        for length in [0, 10, 24, 1000, data.len() / 2] {
            assert!(TaskOffsets::parse(&data[..length]).is_err());
        }
    }
}
