//! What the stack of a pickle holds.

use crate::snapshot::intern::{FrameId, PairId, StackId, StringId};

/// A value, or the number of one. Small: a pickle by C++ has a whole list on its stack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    String(StringId),
    /// Two small integers: a pool's id.
    Pair(PairId),
    /// A stack frame.
    Frame(FrameId),
    /// A list of stack frames.
    Stack(StackId),
    /// A list, tuple or dictionary that has not been recognized.
    Object(u32),
    /// Trace entries that follow each other in one list, taken over into this history.
    Events(u32),
    /// Blocks that follow each other in one list.
    Blocks {
        first: u32,
        count: u32,
    },
    /// A segment.
    Segment(u32),
    /// Something that no snapshot needs: bytes, or an integer beyond 64 bits.
    Opaque,
}

impl Value {
    pub(super) fn integer(self) -> Option<i64> {
        if let Self::Int(value) = self {
            Some(value)
        } else {
            None
        }
    }

    /// An integer that is not negative.
    pub(super) fn unsigned(self) -> Option<u64> {
        self.integer().and_then(|value| u64::try_from(value).ok())
    }

    pub(super) fn bool(self) -> Option<bool> {
        if let Self::Bool(value) = self {
            Some(value)
        } else {
            None
        }
    }

    pub(super) fn float(self) -> Option<f64> {
        if let Self::Float(value) = self {
            Some(value)
        } else {
            None
        }
    }

    pub(super) fn string(self) -> Option<StringId> {
        if let Self::String(string) = self {
            Some(string)
        } else {
            None
        }
    }

    pub(super) fn pair(self) -> Option<PairId> {
        if let Self::Pair(pair) = self {
            Some(pair)
        } else {
            None
        }
    }
}

/// What an [`Value::Object`] is.
#[derive(Debug)]
pub(super) enum Content {
    Sequence(Vec<Value>),
    Dictionary(Vec<(Value, Value)>),
    Free,
}

#[derive(Debug)]
struct Object {
    content: Content,
    /// Where the memo refers to it.
    memo: Option<u32>,
}

/// The objects that are not recognized, or not yet. Their places are used again.
#[derive(Debug, Default)]
pub(super) struct Objects {
    all: Vec<Object>,
    free: Vec<u32>,
}

/// The most objects alive at a time.
const LIMIT: usize = 1 << 22;

impl Objects {
    /// `None` when there are too many.
    pub(super) fn add(&mut self, content: Content) -> Option<u32> {
        let object = Object {
            content,
            memo: None,
        };
        if let Some(number) = self.free.pop() {
            self.all[number as usize] = object;
            return Some(number);
        }
        if self.all.len() >= LIMIT {
            return None;
        }
        self.all.push(object);
        u32::try_from(self.all.len() - 1).ok()
    }

    pub(super) fn get(&self, number: u32) -> &Content {
        self.all
            .get(number as usize)
            .map_or(&Content::Free, |object| &object.content)
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut Content> {
        self.all
            .get_mut(number as usize)
            .map(|object| &mut object.content)
    }

    /// Notes the memo's index of an object; returns the one it had.
    pub(super) fn memoize(&mut self, number: u32, index: u32) -> Option<u32> {
        self.all.get_mut(number as usize)?.memo.replace(index)
    }

    /// Frees an object's place; returns the memo's index of it.
    pub(super) fn release(&mut self, number: u32) -> Option<u32> {
        let object = self.all.get_mut(number as usize)?;
        if matches!(object.content, Content::Free) {
            return None;
        }
        object.content = Content::Free;
        self.free.push(number);
        object.memo.take()
    }

    /// The items of a list or tuple.
    pub(super) fn sequence(&self, value: Value) -> Option<&[Value]> {
        let Value::Object(number) = value else {
            return None;
        };
        match self.get(number) {
            Content::Sequence(items) => Some(items),
            Content::Dictionary(_) | Content::Free => None,
        }
    }

    /// The pairs of a dictionary.
    pub(super) fn dictionary(&self, value: Value) -> Option<&[(Value, Value)]> {
        let Value::Object(number) = value else {
            return None;
        };
        match self.get(number) {
            Content::Dictionary(pairs) => Some(pairs),
            Content::Sequence(_) | Content::Free => None,
        }
    }
}

/// Appends to a list, joining what follows each other.
pub(super) fn append(items: &mut Vec<Value>, item: Value) {
    if let Value::Events(_) = item
        && items.last() == Some(&item)
    {
        return;
    }
    if let Value::Blocks {
        first: next,
        count: more,
    } = item
        && let Some(Value::Blocks { first, count }) = items.last_mut()
        && first.checked_add(*count) == Some(next)
    {
        *count = count.saturating_add(more);
        return;
    }
    items.push(item);
}
