//! The dictionaries of snapshots, recognized by their keys.

use std::io::Read;

use super::error::PickleError;
use super::machine::Machine;
use super::value::Value;
use crate::snapshot::history::{Action, Entry, History};
use crate::snapshot::intern::{Frame, StackId, StringId, key};
use crate::snapshot::model::{Block, Segment, State};

/// The most lists of trace entries: one a device.
const HISTORIES: usize = 4096;

/// The values of a dictionary's keys.
pub(super) fn find(items: &[Value], key: StringId) -> Option<Value> {
    items
        .chunks_exact(2)
        .find(|pair| pair[0] == Value::String(key))
        .map(|pair| pair[1])
}

impl<R: Read> Machine<R> {
    /// What a complete dictionary is; `None` for one that no rule here knows.
    pub(super) fn recognize(
        &mut self,
        items: &[Value],
        neighbour: Option<Value>,
    ) -> Result<Option<Value>, PickleError> {
        let has = |key| {
            items
                .iter()
                .step_by(2)
                .any(|item| *item == Value::String(key))
        };
        if has(key::ACTION) {
            return self.entry(items, neighbour).map(Some);
        }
        if has(key::FILENAME) {
            return self.frame(items);
        }
        if has(key::STATE) {
            return self.block(items);
        }
        if has(key::BLOCKS) {
            return self.segment(items);
        }
        Ok(None)
    }

    fn frame(&mut self, items: &[Value]) -> Result<Option<Value>, PickleError> {
        let (Some(Value::String(filename)), Some(Value::String(name))) =
            (find(items, key::FILENAME), find(items, key::NAME))
        else {
            return Ok(None);
        };
        let line = find(items, key::LINE)
            .and_then(Value::unsigned)
            .unwrap_or(0);
        let frame = Frame {
            filename,
            name,
            line: u32::try_from(line).unwrap_or(u32::MAX),
        };
        match self.names.frame(frame) {
            Some(frame) => Ok(Some(Value::Frame(frame))),
            None => Err(self.too_large("the number of stack frames")),
        }
    }

    fn frames(&mut self, value: Option<Value>) -> Result<StackId, PickleError> {
        let stack = match value {
            Some(value) => self.stack_of(value)?,
            None => None,
        };
        Ok(stack.unwrap_or(StackId::EMPTY))
    }

    fn entry(&mut self, items: &[Value], neighbour: Option<Value>) -> Result<Value, PickleError> {
        let mut entry = Entry {
            action: Action::Other,
            address: 0,
            size: 0,
            time_us: None,
            device_free: None,
            stack: StackId::EMPTY,
        };
        for pair in items.chunks_exact(2) {
            let Value::String(key) = pair[0] else {
                continue;
            };
            let value = pair[1];
            match key {
                key::ACTION => entry.action = value.string().map_or(Action::Other, action),
                key::ADDR => entry.address = value.unsigned().unwrap_or(0),
                key::SIZE => {
                    entry.size = value
                        .unsigned()
                        .ok_or_else(|| self.malformed("a trace entry's size is no size"))?;
                }
                key::TIME_US => entry.time_us = value.integer(),
                key::DEVICE_FREE => entry.device_free = value.unsigned(),
                key::FRAMES => entry.stack = self.frames(Some(value))?,
                _ => {}
            }
        }
        let number = if let Some(Value::Events(number)) = neighbour {
            number as usize
        } else {
            if self.histories.len() >= HISTORIES {
                return Err(self.too_large("the number of devices"));
            }
            self.histories.push(History::default());
            self.histories.len() - 1
        };
        self.histories[number].push(&entry);
        #[expect(clippy::cast_possible_truncation, reason = "limited above")]
        Ok(Value::Events(number as u32))
    }

    fn block(&mut self, items: &[Value]) -> Result<Option<Value>, PickleError> {
        let Some(size) = find(items, key::SIZE) else {
            return Ok(None);
        };
        let size = size
            .unsigned()
            .ok_or_else(|| self.malformed("a block's size is no size"))?;
        let state = find(items, key::STATE)
            .and_then(Value::string)
            .and_then(state)
            .ok_or_else(|| self.malformed("a block is in a state that is not known"))?;
        // PyTorch before 2.1 told these in the first entry of a history.
        let oldest = find(items, key::HISTORY)
            .and_then(|history| self.objects.sequence(history)?.first().copied())
            .and_then(|first| self.objects.dictionary(first))
            .map(|pairs| {
                let get = |key| {
                    let pair = pairs.iter().find(|pair| pair.0 == Value::String(key));
                    pair.map(|pair| pair.1)
                };
                (get(key::REAL_SIZE), get(key::FRAMES))
            });
        let frames = find(items, key::FRAMES);
        let requested = match (frames, oldest) {
            (None, Some((real, _))) => real,
            (Some(_), _) | (None, None) => find(items, key::REQUESTED_SIZE),
        };
        let requested = requested
            .and_then(Value::unsigned)
            .unwrap_or(size)
            .min(size);
        let stack = self.frames(frames.or_else(|| oldest.and_then(|(_, frames)| frames)))?;
        let first = u32::try_from(self.blocks.len());
        let first = first.map_err(|_| self.too_large("the number of blocks"))?;
        self.blocks.push(Block {
            address: find(items, key::ADDRESS)
                .and_then(Value::unsigned)
                .unwrap_or(0),
            size,
            requested,
            state,
            stack,
        });
        Ok(Some(Value::Blocks { first, count: 1 }))
    }

    fn segment(&mut self, items: &[Value]) -> Result<Option<Value>, PickleError> {
        let Some(size) = find(items, key::TOTAL_SIZE).and_then(Value::unsigned) else {
            return Ok(None);
        };
        let Some(blocks) = find(items, key::BLOCKS).and_then(|list| self.objects.sequence(list))
        else {
            return Ok(None);
        };
        let blocks = match *blocks {
            [] => 0..0,
            [Value::Blocks { first, count }] => first as usize..first as usize + count as usize,
            _ => return Err(self.malformed("a segment has something else than blocks")),
        };
        let address = find(items, key::ADDRESS)
            .and_then(Value::unsigned)
            .unwrap_or(0);
        let mut next = address;
        for block in &mut self.blocks[blocks.clone()] {
            if block.address == 0 {
                block.address = next;
            }
            next = block.address.saturating_add(block.size);
        }
        let stack = self.frames(find(items, key::FRAMES))?;
        let pool = find(items, key::SEGMENT_POOL_ID).and_then(Value::pair);
        self.segments.push(Segment {
            device: find(items, key::DEVICE)
                .and_then(Value::integer)
                .unwrap_or(0),
            address,
            size,
            allocated: find(items, key::ALLOCATED_SIZE).and_then(Value::unsigned),
            stream: find(items, key::STREAM)
                .and_then(Value::integer)
                .unwrap_or(0),
            is_small: find(items, key::SEGMENT_TYPE)
                .and_then(Value::string)
                .and_then(is_small),
            pool: pool.map(|pair| self.names.pair_of(pair)),
            is_expandable: find(items, key::IS_EXPANDABLE) == Some(Value::Bool(true)),
            stack,
            blocks,
        });
        match u32::try_from(self.segments.len() - 1) {
            Ok(number) => Ok(Some(Value::Segment(number))),
            Err(_) => Err(self.too_large("the number of segments")),
        }
    }
}

fn state(name: StringId) -> Option<State> {
    match name {
        key::ACTIVE_ALLOCATED => Some(State::Allocated),
        key::ACTIVE_PENDING_FREE | key::ACTIVE_AWAITING_FREE => Some(State::PendingFree),
        key::INACTIVE => Some(State::Inactive),
        _ => None,
    }
}

fn is_small(name: StringId) -> Option<bool> {
    match name {
        key::SMALL => Some(true),
        key::LARGE => Some(false),
        _ => None,
    }
}

fn action(name: StringId) -> Action {
    match name {
        key::ALLOC => Action::Alloc,
        key::FREE_REQUESTED | key::FREE => Action::FreeRequested,
        key::FREE_COMPLETED => Action::FreeCompleted,
        key::SEGMENT_ALLOC | key::SEGMENT_MAP => Action::SegmentAdded,
        key::SEGMENT_FREE | key::SEGMENT_UNMAP => Action::SegmentRemoved,
        key::OOM => Action::OutOfMemory,
        _ => Action::Other,
    }
}
