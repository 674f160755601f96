//! What a recording must show of a call.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::arguments::Memory;

/// Where a column's value comes from.
enum Source {
    /// From the arguments: known whatever the call returns.
    Argument(u64),
    /// From what the call left; null where it failed.
    Left(Box<dyn Fn() -> u64>),
    /// Known from one thing when it succeeds, from another one when it fails.
    Either(Box<dyn Fn() -> u64>, u64),
    /// Not compared where the call fails.
    Loose(u64),
}

/// The columns of a call's row. Those that are not named must be null, but for the device, which
/// is compared only if named.
#[derive(Default)]
pub(super) struct Expected {
    columns: BTreeMap<&'static str, Source>,
    dimensions: Option<[[u32; 3]; 2]>,
    name: Option<Memory>,
    identity: Option<Box<dyn Fn() -> Value>>,
    pub(super) traits: Traits,
}

/// What kind of row it is.
#[derive(Clone, Copy, Default)]
pub(super) struct Traits {
    /// Launches are probed at their entry alone: no result.
    pub(super) entry_only: bool,
    /// No row at all.
    pub(super) silent: bool,
    /// What lies behind pointers or on the stack cannot be read in full.
    pub(super) args_unread: bool,
    /// It goes into a graph; `None` is not compared.
    pub(super) captured: Option<bool>,
}

/// A call of which no column but the device may be set.
pub(super) fn nothing() -> Expected {
    Expected {
        traits: Traits {
            captured: Some(false),
            ..Traits::default()
        },
        ..Expected::default()
    }
}

macro_rules! columns {
    ($($column:ident $left:ident;)*) => {
        impl Expected {
            $(
                #[doc = concat!("`", stringify!($column), "`, from the arguments.")]
                #[allow(dead_code, reason = "not every column has both forms")]
                pub(super) fn $column(self, value: u64) -> Self {
                    self.set(stringify!($column), Source::Argument(value))
                }

                #[doc = concat!("`", stringify!($column), "`: the word that the call leaves.")]
                #[allow(dead_code, reason = "not every column has both forms")]
                pub(super) fn $left(self, memory: &Memory) -> Self {
                    let memory = memory.clone();
                    self.left(stringify!($column), move || memory.get())
                }
            )*
        }
    };
}

columns! {
    address address_left;
    source source_left;
    size size_left;
    offset offset_left;
    count count_left;
    copy_kind copy_kind_left;
    stream stream_left;
    handle handle_left;
    related related_left;
    option option_left;
    location location_left;
    location_id location_id_left;
    device device_left;
    source_device source_device_left;
    device_free device_free_left;
    device_total device_total_left;
    shared_memory shared_memory_left;
}

impl Expected {
    fn set(mut self, column: &'static str, source: Source) -> Self {
        self.columns.insert(column, source);
        self
    }

    /// A column that follows from what the call leaves.
    pub(super) fn left(self, column: &'static str, value: impl Fn() -> u64 + 'static) -> Self {
        self.set(column, Source::Left(Box::new(value)))
    }

    /// Bytes that follow from what the call leaves, or else from what was asked for.
    pub(super) fn size_or(self, left: impl Fn() -> u64 + 'static, asked: u64) -> Self {
        self.set("size", Source::Either(Box::new(left), asked))
    }

    /// A handle that need not be told of a call that fails.
    pub(super) fn handle_if_found(self, value: u64) -> Self {
        self.set("handle", Source::Loose(value))
    }

    /// Grid, block and shared memory of a launch.
    pub(super) fn launch(mut self, grid: [u32; 3], block: [u32; 3], shared: u64) -> Self {
        self.dimensions = Some([grid, block]);
        self.traits.entry_only = true;
        self.shared_memory(shared)
    }

    /// The handle stands for these 64 bytes, which the call leaves or is given.
    pub(super) fn handle_names(mut self, bytes: &Memory) -> Self {
        self.name = Some(bytes.clone());
        self
    }

    /// The device's identity becomes known.
    pub(super) fn identity(mut self, identity: impl Fn() -> Value + 'static) -> Self {
        self.identity = Some(Box::new(identity));
        self
    }

    /// No row.
    pub(super) fn silent(mut self) -> Self {
        self.traits.silent = true;
        self
    }

    /// Not all could be read.
    pub(super) fn args_unread(mut self) -> Self {
        self.traits.args_unread = true;
        self
    }

    /// Goes into a graph.
    pub(super) fn captured(mut self) -> Self {
        self.traits.captured = Some(true);
        self
    }

    /// Says something of a capture, without being work in it.
    pub(super) fn about_capture(mut self) -> Self {
        self.traits.captured = None;
        self
    }

    /// The columns that must be as given, after a call that succeeded or failed. A column that is
    /// not compared is given as the text "any".
    pub(super) fn columns(&self, succeeded: bool) -> BTreeMap<&'static str, Value> {
        let value = |source: &Source| match source {
            Source::Argument(value) => Some(json!(value)),
            Source::Left(value) => succeeded.then(|| json!(value())),
            Source::Either(left, _) if succeeded => Some(json!(left())),
            Source::Either(_, asked) => Some(json!(asked)),
            Source::Loose(value) if succeeded => Some(json!(value)),
            Source::Loose(_) => Some(json!("any")),
        };
        let mut columns: BTreeMap<&'static str, Value> = self
            .columns
            .iter()
            .filter_map(|(column, source)| Some((*column, value(source)?)))
            .collect();
        if let Some([grid, block]) = self.dimensions {
            columns.insert("grid", json!(grid));
            columns.insert("block", json!(block));
        }
        columns
    }

    /// The bytes that the handle stands for, as text. What a call was to leave is not there
    /// after a failure; what it was given is.
    pub(super) fn name(&self) -> Option<String> {
        let words = self.name.as_ref()?.words();
        Some(words.fold(String::new(), |text, word| text + &format!("{word:016x}")))
    }

    pub(super) fn identity_now(&self) -> Option<Value> {
        self.identity.as_ref().map(|identity| identity())
    }
}
