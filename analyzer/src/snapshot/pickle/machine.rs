//! The stack machine that a pickle is written for.

use std::io::Read;

use super::error::PickleError;
use super::memo::Memo;
use super::opcode;
use super::source::Source;
use super::value::{Content, Objects, Value, append};
use crate::snapshot::history::History;
use crate::snapshot::intern::{FrameId, Names, StackId};
use crate::snapshot::model::{Block, Segment};

/// The most values on the stack. Trace entries and blocks need no place on it.
const STACK: usize = 1 << 22;
/// The deepest nesting of marks.
const MARKS: usize = 1 << 12;

/// The machine, and what it has recognized.
pub(super) struct Machine<R> {
    source: Source<R>,
    memo: Memo,
    stack: Vec<Value>,
    marks: Vec<usize>,
    pub(super) objects: Objects,
    pub(super) names: Names,
    pub(super) blocks: Vec<Block>,
    pub(super) segments: Vec<Segment>,
    pub(super) histories: Vec<History>,
    pub(super) protocol: u8,
    /// Kept for its room.
    items: Vec<Value>,
    frames: Vec<FrameId>,
}

impl<R: Read> Machine<R> {
    pub(super) fn new(reader: R) -> Self {
        Self {
            source: Source::new(reader),
            memo: Memo::default(),
            stack: Vec::new(),
            marks: Vec::new(),
            objects: Objects::default(),
            names: Names::default(),
            blocks: Vec::new(),
            segments: Vec::new(),
            histories: Vec::new(),
            protocol: 0,
            items: Vec::new(),
            frames: Vec::new(),
        }
    }

    /// Bytes read so far.
    pub(super) fn offset(&self) -> u64 {
        self.source.offset()
    }

    /// Follows the opcodes up to the last; returns what they built.
    pub(super) fn run(&mut self) -> Result<Value, PickleError> {
        let first = self.source.byte()?;
        if first != opcode::PROTO {
            return Err(PickleError::NotAPickle { first });
        }
        self.protocol = self.source.byte()?;
        if !(2..=5).contains(&self.protocol) {
            return Err(PickleError::Protocol {
                protocol: self.protocol,
            });
        }
        loop {
            let opcode = self.source.byte()?;
            if opcode == opcode::STOP {
                return self.pop();
            }
            self.step(opcode)?;
        }
    }

    #[inline]
    fn step(&mut self, opcode: u8) -> Result<(), PickleError> {
        match opcode {
            opcode::BINGET => {
                let index = u32::from(self.source.byte()?);
                self.recall(index)
            }
            opcode::LONG_BINGET => {
                let index = u32::from_le_bytes(self.source.array()?);
                self.recall(index)
            }
            opcode::BININT1 => {
                let value = i64::from(self.source.byte()?);
                self.push(Value::Int(value))
            }
            opcode::BININT2 => {
                let value = i64::from(u16::from_le_bytes(self.source.array()?));
                self.push(Value::Int(value))
            }
            opcode::BININT => {
                let value = i64::from(i32::from_le_bytes(self.source.array()?));
                self.push(Value::Int(value))
            }
            opcode::LONG1 => {
                let length = usize::from(self.source.byte()?);
                self.long(length)
            }
            opcode::LONG4 => {
                let length = u32::from_le_bytes(self.source.array()?);
                self.long(length as usize)
            }
            opcode::BINFLOAT => {
                let value = f64::from_be_bytes(self.source.array()?);
                self.push(Value::Float(value))
            }
            opcode::NONE => self.push(Value::None),
            opcode::NEWTRUE => self.push(Value::Bool(true)),
            opcode::NEWFALSE => self.push(Value::Bool(false)),
            opcode::SHORT_BINUNICODE => {
                let length = u64::from(self.source.byte()?);
                self.string(length)
            }
            opcode::BINUNICODE => {
                let length = u64::from(u32::from_le_bytes(self.source.array()?));
                self.string(length)
            }
            opcode::BINUNICODE8 => {
                let length = u64::from_le_bytes(self.source.array()?);
                self.string(length)
            }
            opcode::SHORT_BINBYTES => {
                let length = u64::from(self.source.byte()?);
                self.blob(length)
            }
            opcode::BINBYTES => {
                let length = u64::from(u32::from_le_bytes(self.source.array()?));
                self.blob(length)
            }
            opcode::BINBYTES8 | opcode::BYTEARRAY8 => {
                let length = u64::from_le_bytes(self.source.array()?);
                self.blob(length)
            }
            opcode::EMPTY_DICT => self.push_object(Content::Dictionary(Vec::new())),
            opcode::EMPTY_LIST | opcode::EMPTY_TUPLE => {
                self.push_object(Content::Sequence(Vec::new()))
            }
            opcode::MARK => {
                if self.marks.len() >= MARKS {
                    return Err(self.too_large("the nesting"));
                }
                self.marks.push(self.stack.len());
                Ok(())
            }
            opcode::SETITEMS => self.set_items(),
            opcode::SETITEM => self.set_item(),
            opcode::APPENDS => self.appends(),
            opcode::APPEND => {
                let item = self.pop()?;
                let list = self.top()?;
                self.extend(list, &[item])
            }
            opcode::TUPLE => {
                let mark = self.mark()?;
                self.tuple(mark)
            }
            opcode::TUPLE1 | opcode::TUPLE2 | opcode::TUPLE3 => {
                let count = usize::from(opcode - opcode::TUPLE1) + 1;
                let start = self.stack.len().checked_sub(count);
                match start.filter(|start| *start >= self.floor()) {
                    Some(start) => self.tuple(start),
                    None => Err(self.malformed("a tuple of missing values")),
                }
            }
            opcode::MEMOIZE => self.memoize(self.memo.next()),
            opcode::BINPUT => {
                let index = u32::from(self.source.byte()?);
                self.memoize(index)
            }
            opcode::LONG_BINPUT => {
                let index = u32::from_le_bytes(self.source.array()?);
                self.memoize(index)
            }
            opcode::POP => self.pop().map(drop),
            opcode::POP_MARK => {
                let mark = self.mark()?;
                self.stack.truncate(mark);
                Ok(())
            }
            opcode::DUP => {
                let value = self.top()?;
                self.push(value)
            }
            opcode::FRAME => self.source.array::<8>().map(drop),
            opcode => {
                let offset = self.offset() - 1;
                Err(match opcode::code(opcode) {
                    Some(opcode) => PickleError::Code { offset, opcode },
                    None => PickleError::Opcode { offset, opcode },
                })
            }
        }
    }

    pub(super) fn malformed(&self, what: &'static str) -> PickleError {
        PickleError::Malformed {
            offset: self.offset(),
            what,
        }
    }

    pub(super) fn too_large(&self, what: &'static str) -> PickleError {
        PickleError::TooLarge {
            offset: self.offset(),
            what,
        }
    }

    /// Where the values above the last mark begin.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    #[inline]
    fn push(&mut self, value: Value) -> Result<(), PickleError> {
        if self.stack.len() >= STACK {
            return Err(self.too_large("the stack"));
        }
        self.stack.push(value);
        Ok(())
    }

    fn push_object(&mut self, content: Content) -> Result<(), PickleError> {
        match self.objects.add(content) {
            Some(number) => self.push(Value::Object(number)),
            None => Err(self.too_large("the number of objects")),
        }
    }

    fn pop(&mut self) -> Result<Value, PickleError> {
        if self.stack.len() <= self.floor() {
            return Err(self.malformed("a value is missing"));
        }
        self.stack
            .pop()
            .ok_or_else(|| self.malformed("a value is missing"))
    }

    fn top(&self) -> Result<Value, PickleError> {
        let top = self
            .stack
            .last()
            .filter(|_| self.stack.len() > self.floor());
        top.copied()
            .ok_or_else(|| self.malformed("a value is missing"))
    }

    fn mark(&mut self) -> Result<usize, PickleError> {
        self.marks
            .pop()
            .ok_or_else(|| self.malformed("a mark is missing"))
    }

    #[inline]
    fn recall(&mut self, index: u32) -> Result<(), PickleError> {
        match self.memo.get(index) {
            Some(value) => self.push(value),
            None => Err(self.malformed("it refers back to what is not there")),
        }
    }

    fn memoize(&mut self, index: u32) -> Result<(), PickleError> {
        // Picklers count up, and every index costs them at least a byte.
        if u64::from(index) > self.offset() {
            return Err(self.malformed("an index of the memo is out of order"));
        }
        self.memo.pass(index);
        let value = self.top()?;
        if let Value::Object(number) = value
            && let Some(old) = self.objects.memoize(number, index)
            && old != index
        {
            self.memo.clear(old);
        }
        if self.memo.set(index, value) {
            Ok(())
        } else {
            Err(self.too_large("the number of names"))
        }
    }

    fn long(&mut self, length: usize) -> Result<(), PickleError> {
        if length > 8 {
            return self.blob(length as u64);
        }
        let mut bytes = [0; 8];
        bytes[..length].copy_from_slice(self.source.bytes(length)?);
        let is_negative = length > 0 && bytes[length - 1] & 0x80 != 0;
        if is_negative {
            bytes[length..].fill(0xff);
        }
        self.push(Value::Int(i64::from_le_bytes(bytes)))
    }

    fn string(&mut self, length: u64) -> Result<(), PickleError> {
        let Ok(length) = usize::try_from(length) else {
            return Err(self.too_large("a string"));
        };
        let bytes = self.source.bytes(length)?;
        match self.names.string(bytes) {
            Some(string) => self.push(Value::String(string)),
            None => Err(self.too_large("the number of names")),
        }
    }

    fn blob(&mut self, length: u64) -> Result<(), PickleError> {
        self.source.skip(length)?;
        self.push(Value::Opaque)
    }

    fn tuple(&mut self, start: usize) -> Result<(), PickleError> {
        let items = &self.stack[start..];
        if let [Value::Int(first), Value::Int(second)] = *items
            && let (Ok(first), Ok(second)) = (u32::try_from(first), u32::try_from(second))
        {
            self.stack.truncate(start);
            return match self.names.pair((first, second)) {
                Some(pair) => self.push(Value::Pair(pair)),
                None => Err(self.too_large("the number of pools")),
            };
        }
        let items = self.stack.split_off(start);
        self.push_object(Content::Sequence(items))
    }

    fn appends(&mut self) -> Result<(), PickleError> {
        let mark = self.mark()?;
        let items = self.stack.split_off(mark);
        let list = self.top()?;
        self.extend(list, &items)
    }

    fn extend(&mut self, list: Value, items: &[Value]) -> Result<(), PickleError> {
        if let Value::Object(number) = list
            && let Some(Content::Sequence(sequence)) = self.objects.get_mut(number)
        {
            for item in items {
                append(sequence, *item);
            }
            return Ok(());
        }
        Err(self.malformed("something is appended to what is no list"))
    }

    fn set_item(&mut self) -> Result<(), PickleError> {
        let value = self.pop()?;
        let key = self.pop()?;
        if let Value::Object(number) = self.top()?
            && let Some(Content::Dictionary(pairs)) = self.objects.get_mut(number)
        {
            pairs.push((key, value));
            return Ok(());
        }
        Err(self.malformed("a key is set in what is no dictionary"))
    }

    fn set_items(&mut self) -> Result<(), PickleError> {
        let mark = self.mark()?;
        if !(self.stack.len() - mark).is_multiple_of(2) {
            return Err(self.malformed("a key without a value"));
        }
        let mut items = std::mem::take(&mut self.items);
        items.clear();
        items.extend(self.stack.drain(mark..));
        let result = self.set_all(&items);
        self.items = items;
        result
    }

    fn set_all(&mut self, items: &[Value]) -> Result<(), PickleError> {
        let Value::Object(number) = self.top()? else {
            return Err(self.malformed("keys are set in what is no dictionary"));
        };
        let place = self.stack.len() - 1;
        let Content::Dictionary(pairs) = self.objects.get(number) else {
            return Err(self.malformed("keys are set in what is no dictionary"));
        };
        let recognized = if pairs.is_empty() {
            let neighbour = self.neighbour(place);
            self.recognize(items, neighbour)?
        } else {
            None
        };
        let Some(value) = recognized else {
            if let Some(Content::Dictionary(pairs)) = self.objects.get_mut(number) {
                pairs.extend(items.chunks_exact(2).map(|pair| (pair[0], pair[1])));
            }
            return Ok(());
        };
        if let Some(index) = self.objects.release(number) {
            self.memo.clear(index);
            if matches!(value, Value::Frame(_)) {
                self.memo.set(index, value);
            }
        }
        self.stack.truncate(place);
        if place > self.floor() {
            // What continues its neighbour needs no place of its own.
            append(&mut self.stack, value);
            return Ok(());
        }
        self.push(value)
    }

    /// What comes before the value at `place` in the list that it is an item of, or will be.
    fn neighbour(&self, place: usize) -> Option<Value> {
        let floor = self.floor();
        let below = *self.stack.get(place.checked_sub(1)?)?;
        match self.objects.sequence(below) {
            // Below the mark, or without one, lies the list itself.
            Some(list) => list.last().copied(),
            None => (place > floor).then_some(below),
        }
    }

    /// The number of the stack that a list of frames is; the list itself is gone then, and
    /// what referred to it refers to the stack.
    pub(super) fn stack_of(&mut self, value: Value) -> Result<Option<StackId>, PickleError> {
        if let Value::Stack(stack) = value {
            return Ok(Some(stack));
        }
        let Value::Object(number) = value else {
            return Ok(None);
        };
        let Content::Sequence(items) = self.objects.get(number) else {
            return Ok(None);
        };
        self.frames.clear();
        for item in items {
            let Value::Frame(frame) = item else {
                return Ok(None);
            };
            self.frames.push(*frame);
        }
        let Some(stack) = self.names.stack(&self.frames) else {
            return Err(self.too_large("the number of stacks"));
        };
        if let Some(index) = self.objects.release(number) {
            self.memo.set(index, Value::Stack(stack));
        }
        Ok(Some(stack))
    }
}
