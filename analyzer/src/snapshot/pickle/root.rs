//! The outermost dictionary.

use std::io::Read;

use super::error::PickleError;
use super::machine::Machine;
use super::value::Value;
use crate::snapshot::history::History;
use crate::snapshot::intern::{StringId, key};
use crate::snapshot::model::{Segment, Settings, Snapshot};

/// Puts together what the machine has recognized.
pub(super) fn snapshot<R: Read>(machine: Machine<R>, root: Value) -> Result<Snapshot, PickleError> {
    let offset = machine.offset();
    let missing = |what| PickleError::NotASnapshot { offset, what };
    let get = |name: StringId| field(&machine, root, name);
    // torch.cuda.memory_snapshot() is the list of segments alone.
    let is_list = machine.objects.sequence(root).is_some();
    let list = if is_list {
        Some(root)
    } else {
        get(key::SEGMENTS)
    };
    let list = list.ok_or_else(|| missing("it has no list of segments"))?;
    let segments =
        segments(&machine, list).ok_or_else(|| missing("`segments` is no list of segments"))?;
    let host_segments = match get(key::HOST_SEGMENTS) {
        None => None,
        Some(list) => Some(
            self::segments(&machine, list)
                .ok_or_else(|| missing("`host_segments` is no list of segments"))?,
        ),
    };
    let histories = numbers(&machine, get(key::DEVICE_TRACES), offset)?;
    let host_histories = numbers(&machine, get(key::HOST_TRACES), offset)?;
    let overflowed = scalars(&machine, get(key::OVERFLOWED))
        .iter()
        .map(|value| value.bool())
        .collect();
    let max_entries = scalars(&machine, get(key::MAX_ENTRIES))
        .iter()
        .map(|value| value.unsigned())
        .collect();
    let settings = get(key::ALLOCATOR_SETTINGS).map(|value| settings(&machine, value));
    let protocol = machine.protocol;
    let Machine {
        names,
        blocks,
        histories: mut all,
        ..
    } = machine;
    let mut take = |numbers: Vec<Option<u32>>| -> Vec<History> {
        numbers
            .into_iter()
            .map(|number| {
                let history = number.and_then(|number| all.get_mut(number as usize));
                history.map(std::mem::take).unwrap_or_default()
            })
            .collect()
    };
    Ok(Snapshot {
        histories: take(histories),
        host_histories: take(host_histories),
        names,
        blocks,
        segments,
        host_segments,
        settings,
        overflowed,
        max_entries,
        bytes: offset,
        protocol,
    })
}

fn field<R: Read>(machine: &Machine<R>, dictionary: Value, name: StringId) -> Option<Value> {
    let pairs = machine.objects.dictionary(dictionary)?;
    // Of equal keys the last counts.
    let pair = pairs
        .iter()
        .rev()
        .find(|pair| pair.0 == Value::String(name));
    pair.map(|pair| pair.1)
}

fn segments<R: Read>(machine: &Machine<R>, list: Value) -> Option<Vec<Segment>> {
    let items = machine.objects.sequence(list)?;
    items
        .iter()
        .map(|item| {
            let Value::Segment(number) = item else {
                return None;
            };
            machine.segments.get(*number as usize).cloned()
        })
        .collect()
}

/// The histories in a list of lists of trace entries, or in one such list.
fn numbers<R: Read>(
    machine: &Machine<R>,
    list: Option<Value>,
    offset: u64,
) -> Result<Vec<Option<u32>>, PickleError> {
    let wrong = PickleError::NotASnapshot {
        offset,
        what: "the traces are no lists of trace entries",
    };
    let Some(list) = list else {
        return Ok(Vec::new());
    };
    let Some(items) = machine.objects.sequence(list) else {
        return Err(wrong);
    };
    let numbers: Option<Vec<_>> = items
        .iter()
        .map(|item| match item {
            Value::Events(number) => Some(Some(*number)),
            item => match machine.objects.sequence(*item)? {
                [] => Some(None),
                [Value::Events(number)] => Some(Some(*number)),
                _ => None,
            },
        })
        .collect();
    numbers.ok_or(wrong)
}

/// The values of a list, or of a dictionary by device, or a value alone.
fn scalars<R: Read>(machine: &Machine<R>, value: Option<Value>) -> Vec<Value> {
    let Some(value) = value else {
        return Vec::new();
    };
    if let Some(items) = machine.objects.sequence(value) {
        return items.to_vec();
    }
    if let Some(pairs) = machine.objects.dictionary(value) {
        return pairs.iter().map(|pair| pair.1).collect();
    }
    vec![value]
}

fn settings<R: Read>(machine: &Machine<R>, value: Value) -> Settings {
    let get = |name| field(machine, value, name);
    let text = |name: StringId, variable: &'static str| {
        let string = get(name)?.string()?;
        Some((machine.names.text(string), variable))
    };
    let named = text(key::ALLOC_CONF, "PYTORCH_ALLOC_CONF")
        .or_else(|| text(key::CUDA_CONF, "PYTORCH_CUDA_ALLOC_CONF"));
    Settings {
        variable: named.as_ref().map(|(_, variable)| *variable),
        configuration: named.map(|(text, _)| text),
        expandable_segments: get(key::EXPANDABLE).and_then(Value::bool),
        max_split_size: get(key::MAX_SPLIT_SIZE).and_then(Value::integer),
        garbage_collection_threshold: get(key::GARBAGE_COLLECTION).and_then(Value::float),
    }
}
