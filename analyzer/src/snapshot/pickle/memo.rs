//! The memo: what a pickle may refer back to.

use super::value::Value;
use crate::snapshot::intern::{FrameId, PairId, StackId, StringId};

/// Entries in a page.
const PAGE: usize = 256;
/// Bits of an entry that hold the number; the three above tell the kind.
const NUMBER_BITS: u32 = 29;
const NUMBER: u32 = (1 << NUMBER_BITS) - 1;

/// Values by index. Most indices of a snapshot belong to trace entries, which are never
/// referred to again: their pages do not exist.
#[derive(Default)]
pub(super) struct Memo {
    pages: Vec<Option<Box<[u32; PAGE]>>>,
    /// What has no number of its own.
    others: Vec<Value>,
    next: u32,
}

impl Memo {
    /// The index that `MEMOIZE` uses next.
    pub(super) const fn next(&self) -> u32 {
        self.next
    }

    /// Gives an index away without an entry.
    pub(super) fn pass(&mut self, index: u32) {
        self.next = self.next.max(index.saturating_add(1));
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<Value> {
        let page = self.pages.get(index as usize / PAGE)?.as_ref()?;
        let entry = page[index as usize % PAGE];
        let number = entry & NUMBER;
        Some(match entry >> NUMBER_BITS {
            1 => Value::String(StringId(number)),
            2 => Value::Frame(FrameId(number)),
            3 => Value::Stack(StackId(number)),
            4 => Value::Object(number),
            5 => *self.others.get(number as usize)?,
            6 => Value::Pair(PairId(number)),
            _ => return None,
        })
    }

    /// Sets an entry; `false` if there is no room for its number.
    pub(super) fn set(&mut self, index: u32, value: Value) -> bool {
        let (kind, number) = match value {
            Value::String(StringId(number)) => (1, number),
            Value::Frame(FrameId(number)) => (2, number),
            Value::Stack(StackId(number)) => (3, number),
            Value::Object(number) => (4, number),
            Value::Pair(PairId(number)) => (6, number),
            Value::None | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Opaque => {
                self.others.push(value);
                let number = u32::try_from(self.others.len() - 1).unwrap_or(u32::MAX);
                (5, number)
            }
            // Taken over already, and never shared.
            Value::Events(_) | Value::Blocks { .. } | Value::Segment(_) => return true,
        };
        if number > NUMBER {
            return false;
        }
        let page = index as usize / PAGE;
        if self.pages.len() <= page {
            self.pages.resize_with(page + 1, || None);
        }
        let page = self.pages[page].get_or_insert_with(|| Box::new([0; PAGE]));
        page[index as usize % PAGE] = kind << NUMBER_BITS | number;
        true
    }

    pub(super) fn clear(&mut self, index: u32) {
        if let Some(Some(page)) = self.pages.get_mut(index as usize / PAGE) {
            page[index as usize % PAGE] = 0;
        }
    }
}
