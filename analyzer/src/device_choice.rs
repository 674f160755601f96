//! Which device is meant: by a process's own ordinal, or by the beginning of a UUID.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use trace::{EventBatch, Fact};

/// How a device may be named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceChoice {
    /// By its ordinal, as each process counts.
    Ordinal(i32),
    /// By the beginning of its UUID, as `nvidia-smi -L` has it and `CUDA_VISIBLE_DEVICES` takes it.
    Uuid(String),
}

/// What a device may be written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected an ordinal (`0`), or the beginning of a UUID as `nvidia-smi -L` has it \
     (`GPU-1a2b`, `MIG-1a2b`)"
)]
pub struct DeviceChoiceError;

impl FromStr for DeviceChoice {
    type Err = DeviceChoiceError;

    fn from_str(text: &str) -> Result<Self, DeviceChoiceError> {
        let is_uuid = ["GPU-", "MIG-"].iter().any(|kind| starts_with(text, kind));
        if is_uuid {
            return Ok(Self::Uuid(text.to_owned()));
        }
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let ordinal = text.parse().ok().filter(|_| is_number);
        ordinal.map(Self::Ordinal).ok_or(DeviceChoiceError)
    }
}

/// No device is meant, or more than one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceLookupError {
    /// The recording names no device.
    #[error(
        "no UUID begins with {asked}: the recording has none, since no program asked for one; use \
         ordinals (`--device 0`)"
    )]
    NoUuids {
        /// What was asked for.
        asked: String,
    },
    /// None begins so.
    #[error("no UUID begins with {asked}: the recording has {}", known.join(", "))]
    Unknown {
        /// What was asked for.
        asked: String,
        /// All that there are.
        known: Vec<String>,
    },
    /// Several begin so.
    #[error("{asked} is the beginning of {}: give more of it", found.join(" and of "))]
    Ambiguous {
        /// What was asked for.
        asked: String,
        /// Those that begin so.
        found: Vec<String>,
    },
}

/// The UUIDs of a recording's devices, and which process calls each by which ordinal.
#[derive(Clone, Debug, Default)]
pub struct Uuids(BTreeMap<String, BTreeSet<(u32, i32)>>);

impl Uuids {
    /// The columns that this reads, for [`trace::Reader::select`].
    pub const COLUMNS: &[&str] = &["text"];

    /// Takes in the next rows.
    pub fn learn(&mut self, batch: &EventBatch) {
        for (_, text) in batch.text().iter() {
            if let Some(Fact::Device(device)) = Fact::parse(text)
                && let Some(uuid) = device.uuid
            {
                let places = self.0.entry(uuid).or_default();
                places.insert((device.pid, device.ordinal));
            }
        }
    }

    /// The device whose UUID begins so: all of it, and the processes and ordinals that it has.
    pub fn find(
        &self,
        beginning: &str,
    ) -> Result<(&str, impl Iterator<Item = (u32, i32)>), DeviceLookupError> {
        let asked = beginning.to_owned();
        let begins = |(uuid, _): &(&String, _)| starts_with(uuid, beginning);
        let found: Vec<_> = self.0.iter().filter(begins).collect();
        match found[..] {
            [(uuid, places)] => Ok((uuid, places.iter().copied())),
            [] if self.0.is_empty() => Err(DeviceLookupError::NoUuids { asked }),
            [] => Err(DeviceLookupError::Unknown {
                asked,
                known: self.0.keys().cloned().collect(),
            }),
            [..] => Err(DeviceLookupError::Ambiguous {
                asked,
                found: found.into_iter().map(|(uuid, _)| uuid.clone()).collect(),
            }),
        }
    }
}

/// Hexadecimal digits are the same in both cases.
fn starts_with(text: &str, beginning: &str) -> bool {
    let start = text.get(..beginning.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_a_number_or_the_beginning_of_a_uuid() {
        assert_eq!("3".parse(), Ok(DeviceChoice::Ordinal(3)));
        for uuid in ["GPU-", "gpu-1A2b", "MIG-1"] {
            assert_eq!(uuid.parse(), Ok(DeviceChoice::Uuid(uuid.to_owned())));
        }
        for nonsense in ["", "-1", "+1", "1a2b", "GPU", "2147483648", "GPÜ-1"] {
            assert_eq!(nonsense.parse::<DeviceChoice>(), Err(DeviceChoiceError));
        }
    }

    #[test]
    fn only_one_device_may_begin_so() {
        let uuids = ["GPU-1a00", "GPU-1a01", "MIG-2"].map(str::to_owned);
        let places = |n: u32| BTreeSet::from([(10 + n, 0), (20, 1)]);
        let uuids = Uuids(
            (0_u32..)
                .zip(uuids)
                .map(|(n, uuid)| (uuid, places(n)))
                .collect(),
        );
        let found = |beginning| -> Result<_, DeviceLookupError> {
            let (uuid, places) = uuids.find(beginning)?;
            Ok((uuid.to_owned(), places.collect::<Vec<_>>()))
        };
        let second = ("GPU-1a01".to_owned(), vec![(11, 0), (20, 1)]);
        assert_eq!(found("gpu-1A01"), Ok(second));
        let said = |beginning| found(beginning).map_err(|error| error.to_string());
        let several = "GPU-1 is the beginning of GPU-1a00 and of GPU-1a01: give more of it";
        assert_eq!(said("GPU-1"), Err(several.to_owned()));
        let none = "no UUID begins with GPU-1a010: the recording has GPU-1a00, GPU-1a01, MIG-2";
        assert_eq!(said("GPU-1a010"), Err(none.to_owned()));
        let asked = "GPU-1".to_owned();
        let empty = Uuids::default();
        let error = empty.find("GPU-1").map(|_| ()).unwrap_err();
        assert_eq!(error, DeviceLookupError::NoUuids { asked });
    }
}
