//! Names that are written once, and then meant by number.

use rustc_hash::FxHashMap;

use super::proto::{InternedData, InternedName};

/// The names of each sort, and those that the next packet has to bring.
#[derive(Debug, Default)]
pub(super) struct Interned {
    categories: Names,
    events: Names,
    annotations: Names,
    strings: Names,
}

#[derive(Debug, Default)]
struct Names {
    numbers: FxHashMap<String, u64>,
    new: Vec<InternedName>,
}

impl Names {
    fn number(&mut self, name: &str) -> u64 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        // 0 is no number.
        let number = self.numbers.len() as u64 + 1;
        self.numbers.insert(name.to_owned(), number);
        self.new.push(InternedName {
            iid: Some(number),
            name: Some(name.to_owned()),
        });
        number
    }
}

impl Interned {
    pub(super) fn category(&mut self, name: &str) -> u64 {
        self.categories.number(name)
    }

    pub(super) fn event(&mut self, name: &str) -> u64 {
        self.events.number(name)
    }

    pub(super) fn annotation(&mut self, name: &str) -> u64 {
        self.annotations.number(name)
    }

    pub(super) fn string(&mut self, text: &str) -> u64 {
        self.strings.number(text)
    }

    /// What came up since this was asked last.
    pub(super) fn take_new(&mut self) -> Option<InternedData> {
        let data = InternedData {
            event_categories: std::mem::take(&mut self.categories.new),
            event_names: std::mem::take(&mut self.events.new),
            debug_annotation_names: std::mem::take(&mut self.annotations.new),
            debug_annotation_string_values: std::mem::take(&mut self.strings.new),
        };
        (data != InternedData::default()).then_some(data)
    }
}
