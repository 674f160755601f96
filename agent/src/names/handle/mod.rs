//! The name behind a driver handle that no call gave a name to.
//!
//! A `CUfunction` or `CUkernel` points to a structure of the driver's own, whose layout nobody
//! promises. But most handles of a process are looked up by name, and what those have in common tells
//! where the driver keeps names: in driver 580.159.04 (an H200), at byte 8 of either kind lies a
//! pointer to the name, and the first word is the same for all handles of a kind. cuFFT's handles,
//! which come from inside the driver, are alike.
//!
//! So nothing is known in advance, and nothing is claimed where handles do not agree.

mod kind;

use kind::Kind;

use crate::discover::{LookBudget, Memory};

/// Words of a handle's structure that are looked at.
const WORDS: usize = 64;
/// Kinds that are told apart; the real driver has two.
const MAX_KINDS: usize = 8;
/// Handles of no kind, of known name, after which no more of those are looked at closely.
const TOLD_STRANGERS: u32 = 64;
/// The same of unknown name. More, for one with a name of C shows nothing.
const MET_STRANGERS: u32 = 1024;
/// Longest name that is read, bytes. The longest of torch 2.14 has 2,301.
const NAME_LIMIT: usize = 4096;
/// A name is read in pieces of so many bytes, for most are short.
const PIECE: usize = 256;

/// Where one process's driver keeps the names of its handles, as far as they tell.
#[derive(Debug, Default)]
pub struct NamePlaces {
    kinds: Vec<Kind>,
    /// Handles of no kind, of known name.
    told_strangers: u32,
    /// The same of unknown name.
    met_strangers: u32,
}

/// How sure it is that a handle is called as it is said to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The driver gave the handle for the name, or the name for the handle.
    Driver,
    /// By the host's compiler, which spells some names otherwise than the device's: a name that is
    /// nowhere to be found means nothing.
    HostStub,
}

/// What was found at a handle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sight {
    /// What the kernel is called; `None` where it is not sure where names are, or none is there.
    pub name: Option<String>,
    /// With this handle it has become sure: others are worth another look.
    pub surer: bool,
}

impl NamePlaces {
    /// Learns from a handle that is known to be called `name`. True where that made it sure where the
    /// names of its kind are.
    pub fn learn(
        &mut self,
        (memory, budget): (&mut Memory, &mut LookBudget),
        handle: u64,
        name: &str,
        source: Source,
    ) -> bool {
        if !is_symbol(name.as_bytes()) || name.len() >= NAME_LIMIT {
            return false;
        }
        let structure = Structure::read(memory, handle);
        let kind = structure
            .as_ref()
            .and_then(|structure| self.find(structure));
        let is_known = kind.and_then(|index| self.kinds.get(index));
        let is_enough = self.told_strangers >= TOLD_STRANGERS;
        if is_known.map_or(is_enough, Kind::was_told_enough) {
            return false;
        }
        let pointers = |structure: Option<&Structure>, memory: &Memory| {
            structure.map_or(0, |structure| structure.pointers_to(memory, name))
        };
        let mut places = pointers(structure.as_ref(), memory);
        let mut structure = structure;
        if places == 0 {
            // Its memory may be newer than what is known of the process's.
            if !memory.refresh(budget) {
                return false;
            }
            structure = Structure::read(memory, handle);
            places = pointers(structure.as_ref(), memory);
        }
        if places == 0 && source == Source::HostStub {
            return false;
        }
        let Some(structure) = structure else {
            return false;
        };
        let Some(index) = self.kind(&structure, places != 0) else {
            self.told_strangers += 1;
            return false;
        };
        self.change(index, |kind| kind.told(name, places))
    }

    /// What the handle is called.
    pub fn name(&mut self, (memory, budget): (&mut Memory, &mut LookBudget), handle: u64) -> Sight {
        if memory.holds_code(handle) || !memory.is_known(handle) && !memory.refresh(budget) {
            return Sight::default();
        }
        let Some(structure) = Structure::read(memory, handle) else {
            return Sight::default();
        };
        let index = self.find(&structure);
        let sure = index.map_or(0, |index| self.places(index));
        let wanted = index.and_then(|index| self.kinds.get(index));
        let is_enough = self.met_strangers >= MET_STRANGERS;
        if sure == 0 && wanted.map_or(is_enough, Kind::met_enough) {
            return Sight::default();
        }
        let is_new = |(_, pointer): &(usize, u64)| !memory.is_known(*pointer);
        let mut pointers = structure.pointers();
        let is_newer = if sure == 0 {
            pointers.any(|pointer| is_new(&pointer))
        } else {
            pointers.any(|pointer| sure >> pointer.0 & 1 != 0 && is_new(&pointer))
        };
        drop(pointers);
        if is_newer {
            memory.refresh(budget);
        }
        let mut surer = false;
        if sure == 0 {
            let symbols = structure.symbols(memory);
            match self.kind(&structure, !symbols.is_empty()) {
                Some(index) => surer = self.change(index, |kind| kind.met(handle, symbols)),
                None => self.met_strangers += 1,
            }
        }
        let index = self.find(&structure);
        let places = index.map_or(0, |index| self.places(index));
        Sight {
            name: structure.text_at(memory, places),
            surer,
        }
    }

    /// Whether it is sure where names are, of handles of any kind.
    pub fn is_sure(&self) -> bool {
        (0..self.kinds.len()).any(|index| self.places(index) != 0)
    }

    /// The kind of a handle.
    fn find(&self, structure: &Structure) -> Option<usize> {
        let first_word = structure.words[0];
        self.kinds
            .iter()
            .position(|kind| kind.first_word == first_word)
    }

    /// The kind of a handle; a new one only where the handle shows something, lest garbage make kinds.
    fn kind(&mut self, structure: &Structure, shows_something: bool) -> Option<usize> {
        let known = self.find(structure);
        if known.is_some() {
            return known;
        }
        if !shows_something || self.kinds.len() >= MAX_KINDS {
            return None;
        }
        self.kinds.push(Kind::new(structure.words[0]));
        Some(self.kinds.len() - 1)
    }

    /// Changes what is known of a kind. True where it is sure now where its names are, and was not.
    fn change(&mut self, index: usize, change: impl FnOnce(&mut Kind)) -> bool {
        let before = self.places(index);
        let Some(kind) = self.kinds.get_mut(index) else {
            return false;
        };
        change(kind);
        let first_word = kind.first_word;
        let after = self.places(index);
        if after != before {
            tracing::debug!(
                "words with names in driver handles that begin with {first_word:#x}: {after:#b}"
            );
        }
        before == 0 && after != 0
    }

    /// A bit for each word of a kind's handles that points to the name; none while that is not sure.
    fn places(&self, index: usize) -> u64 {
        let others = self.kinds.iter().enumerate();
        let elsewhere = others
            .filter(|(other, _)| *other != index)
            .fold(0, |all, (_, kind)| all | kind.own_places());
        self.kinds
            .get(index)
            .map_or(0, |kind| kind.places(elsewhere))
    }
}

/// What a handle points to, as far as it can be read.
struct Structure {
    words: Vec<u64>,
}

impl Structure {
    fn read(memory: &Memory, handle: u64) -> Option<Self> {
        let mut bytes = [0; WORDS * 8];
        let read = memory.read(handle, &mut bytes);
        let (words, _) = bytes[..read].as_chunks::<8>();
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        (!words.is_empty()).then_some(Self { words })
    }

    /// The words that may be pointers, with their indices.
    fn pointers(&self) -> impl Iterator<Item = (usize, u64)> {
        // Small numbers and the kernel's half of the addresses are none.
        let words = self.words.iter().copied().enumerate().skip(1);
        words.filter(|(_, word)| (1 << 16..1 << 56).contains(word))
    }

    /// A bit for each word that points to `name`.
    fn pointers_to(&self, memory: &Memory, name: &str) -> u64 {
        let mut there = vec![0; name.len() + 1];
        self.pointers()
            .filter(|(_, pointer)| {
                memory.read(*pointer, &mut there) == there.len()
                    && there.strip_suffix(&[0]) == Some(name.as_bytes())
            })
            .fold(0, |places, (index, _)| places | 1 << index)
    }

    /// The text that all words of these bits point to; `None` where they differ.
    fn text_at(&self, memory: &Memory, places: u64) -> Option<String> {
        let chosen = self
            .pointers()
            .filter(|(index, _)| places >> index & 1 != 0);
        let mut texts = chosen.map(|(_, pointer)| text(memory, pointer));
        let first = texts.next()??;
        texts
            .all(|text| text.as_deref() == Some(&first))
            .then_some(first)
    }

    /// The words that point to symbols of C++, and those.
    fn symbols(&self, memory: &Memory) -> Vec<(usize, String)> {
        let symbol = |(index, pointer)| {
            let symbol = text(memory, pointer).filter(|text| is_cpp(text))?;
            Some((index, symbol))
        };
        self.pointers().filter_map(symbol).collect()
    }
}

/// The kernel's name at `address`, up to its NUL.
fn text(memory: &Memory, address: u64) -> Option<String> {
    let mut name = Vec::new();
    let mut piece = [0; PIECE];
    while name.len() < NAME_LIMIT {
        let read = memory.read(address.checked_add(name.len() as u64)?, &mut piece);
        let piece = &piece[..read];
        if let Some(end) = piece.iter().position(|byte| *byte == 0) {
            name.extend_from_slice(&piece[..end]);
            return String::from_utf8(name)
                .ok()
                .filter(|name| is_symbol(name.as_bytes()));
        }
        if read < PIECE {
            return None;
        }
        name.extend_from_slice(piece);
    }
    None
}

/// Whether it can be the name of a symbol in device code.
fn is_symbol(name: &[u8]) -> bool {
    name.first().is_some_and(|first| !first.is_ascii_digit())
        && name.iter().all(u8::is_ascii_graphic)
}

/// Whether it is the symbol of a C++ function.
fn is_cpp(text: &str) -> bool {
    text.starts_with("_Z") && cpp_demangle::Symbol::new(text).is_ok()
}

#[cfg(test)]
mod tests;
