//! JSON objects, key by key.

use std::fmt::Display;
use std::io::Write;

use super::columns::Value;
use crate::wall_clock;

/// An object in the making; [`Object::close`] ends it.
pub(super) struct Object<'a> {
    out: &'a mut Vec<u8>,
    is_empty: bool,
}

impl<'a> Object<'a> {
    pub(super) fn open(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self {
            out,
            is_empty: true,
        }
    }

    fn key(&mut self, key: &str) -> &mut Vec<u8> {
        if !self.is_empty {
            self.out.push(b',');
        }
        self.is_empty = false;
        string(self.out, key);
        self.out.push(b':');
        self.out
    }

    /// A number, or what else needs no quotes.
    pub(super) fn plain(&mut self, key: &str, value: impl Display) {
        // Memory takes all.
        let _ = write!(self.key(key), "{value}");
    }

    pub(super) fn text(&mut self, key: &str, text: &str) {
        string(self.key(key), text);
    }

    /// A value of the table. Addresses are strings, since many readers round numbers beyond 53
    /// bits.
    pub(super) fn value(&mut self, key: &str, value: Value<'_>) {
        match value {
            Value::Small(number) => self.plain(key, number),
            Value::Signed(number) => self.plain(key, number),
            Value::Number(number) => self.plain(key, number),
            Value::Size(bytes) => self.plain(key, bytes),
            Value::Address(address) => self.plain(key, format_args!("\"{address:#x}\"")),
            Value::Text(text) => self.text(key, text),
            Value::Time(time) => {
                if let Some(time) = wall_clock::rfc_3339(time) {
                    self.text(key, &time);
                }
            }
        }
    }

    pub(super) fn object(&mut self, key: &str) -> Object<'_> {
        Object::open(self.key(key))
    }

    pub(super) fn close(self) {
        self.out.push(b'}');
    }
}

fn string(out: &mut Vec<u8>, text: &str) {
    // Memory takes all, and a text is always JSON.
    let _ = serde_json::to_writer(out, text);
}
