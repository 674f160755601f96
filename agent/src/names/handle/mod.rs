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
/// Handles of no kind after which no more are looked at closely.
const STRANGERS: u32 = 64;
/// Longest name that is read, bytes. The longest of torch 2.14 has 2,301.
const NAME_LIMIT: usize = 4096;
/// A name is read in pieces of so many bytes, for most are short.
const PIECE: usize = 256;

/// Where one process's driver keeps the names of its handles, as far as they tell.
#[derive(Debug, Default)]
pub struct NamePlaces {
    kinds: Vec<Kind>,
    /// Handles of no kind.
    strangers: u32,
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
        if is_known.map_or(self.strangers >= STRANGERS, Kind::was_told_enough) {
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
        let index = structure.and_then(|structure| self.kind(&structure, places != 0));
        index.is_some_and(|index| self.change(index, |kind| kind.told(name, places)))
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
        if sure == 0 && wanted.map_or(self.strangers >= STRANGERS, Kind::met_enough) {
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
            let index = self.kind(&structure, !symbols.is_empty());
            surer = index.is_some_and(|index| self.change(index, |kind| kind.met(handle, symbols)));
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
            self.strangers += 1;
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
mod tests {
    use std::ffi::CString;

    use proptest::prelude::*;

    use super::*;
    use crate::discover::Process;

    const FUNCTION: u64 = 0x1_0000_0001;
    const KERNEL: u64 = 2;

    /// This process stands for the traced one.
    fn memory() -> Memory {
        let process = Process::open(std::process::id()).expect("this process");
        Memory::open(process).expect("its memory")
    }

    /// What a handle points to; a name at word 1, as in driver 580.
    struct Handle {
        words: Box<[u64; WORDS]>,
        _name: CString,
    }

    impl Handle {
        fn new(kind: u64, name: &str) -> Self {
            Self::with_name_at(kind, name, 1)
        }

        fn with_name_at(kind: u64, name: &str, place: usize) -> Self {
            let name = CString::new(name).expect("no NUL in it");
            let mut words = Box::new([0; WORDS]);
            words[0] = kind;
            words[place] = name.as_ptr() as u64;
            Self { words, _name: name }
        }

        fn address(&self) -> u64 {
            self.words.as_ptr() as u64
        }
    }

    /// What was learned of these handles, and whether the last one made it sure.
    fn taught(handles: &[(&Handle, &str)]) -> (NamePlaces, bool) {
        let mut places = NamePlaces::default();
        let mut sure = false;
        for (handle, name) in handles {
            sure = places.learn(
                (&mut memory(), &mut LookBudget::default()),
                handle.address(),
                name,
                Source::Driver,
            );
        }
        (places, sure)
    }

    fn name_of(places: &mut NamePlaces, handle: u64) -> Option<String> {
        places
            .name((&mut memory(), &mut LookBudget::default()), handle)
            .name
    }

    #[test]
    fn three_handles_of_a_kind_tell_of_a_fourth() {
        let [a, b, c] = ["_Z1av", "b", "_Z1cILi3EEvPf"].map(|name| Handle::new(FUNCTION, name));
        let unknown = Handle::new(FUNCTION, "_Z11regular_fft");
        let (mut places, sure) = taught(&[(&a, "_Z1av"), (&b, "b")]);
        assert!(!sure);
        assert_eq!(name_of(&mut places, unknown.address()), None);
        let (mut places, sure) = taught(&[(&a, "_Z1av"), (&b, "b"), (&c, "_Z1cILi3EEvPf")]);
        assert!(sure);
        let name = name_of(&mut places, unknown.address());
        assert_eq!(name.as_deref(), Some("_Z11regular_fft"));
        let long = Handle::new(FUNCTION, &"n".repeat(3000));
        let name = name_of(&mut places, long.address());
        assert_eq!(name.map(|name| name.len()), Some(3000));
    }

    #[test]
    fn one_name_three_times_proves_nothing() {
        let handles = [(); 3].map(|()| Handle::new(FUNCTION, "same"));
        let lessons = handles.each_ref().map(|handle| (handle, "same"));
        let (mut places, sure) = taught(&lessons);
        assert!(!sure);
        assert_eq!(name_of(&mut places, handles[0].address()), None);
    }

    #[test]
    fn another_kind_is_not_judged_by_the_first() {
        let [a, b, c] = ["a", "b", "c"].map(|name| Handle::new(KERNEL, name));
        let (mut places, _) = taught(&[(&a, "a"), (&b, "b"), (&c, "c")]);
        let other = Handle::new(FUNCTION, "other");
        assert_eq!(name_of(&mut places, other.address()), None);
    }

    #[test]
    fn one_handle_of_another_kind_is_enough_if_it_agrees() {
        let [a, b, c] = ["a", "b", "c"].map(|name| Handle::new(KERNEL, name));
        let first = Handle::new(FUNCTION, "first");
        let second = Handle::new(FUNCTION, "second");
        let lessons = [(&a, "a"), (&b, "b"), (&c, "c"), (&first, "first")];
        let (mut places, sure) = taught(&lessons);
        assert!(sure);
        let name = name_of(&mut places, second.address());
        assert_eq!(name.as_deref(), Some("second"));
        let first = Handle::with_name_at(FUNCTION, "first", 7);
        let (mut places, sure) = taught(&[(&a, "a"), (&b, "b"), (&c, "c"), (&first, "first")]);
        assert!(!sure);
        assert_eq!(name_of(&mut places, first.address()), None);
    }

    /// As where all were looked up before tracing began.
    #[test]
    fn handles_of_unknown_name_tell_if_they_are_many_and_alike() {
        let name = |index: usize| format!("_Z9kernel_{index:02}PfS_");
        let handles: Vec<Handle> = (0..9)
            .map(|index| Handle::new(KERNEL, &name(index)))
            .collect();
        let again = Handle::new(KERNEL, &name(0));
        let mut places = NamePlaces::default();
        for handle in handles[..7].iter().chain([&again]) {
            let found = places.name(
                (&mut memory(), &mut LookBudget::default()),
                handle.address(),
            );
            assert_eq!(found, Sight::default());
            // The same once more proves no more.
            assert_eq!(
                places.name(
                    (&mut memory(), &mut LookBudget::default()),
                    handle.address()
                ),
                Sight::default()
            );
        }
        let eighth = places.name(
            (&mut memory(), &mut LookBudget::default()),
            handles[7].address(),
        );
        let expected = Sight {
            name: Some(name(7)),
            surer: true,
        };
        assert_eq!(eighth, expected);
        let first = Sight {
            name: Some(name(0)),
            surer: false,
        };
        assert_eq!(
            places.name(
                (&mut memory(), &mut LookBudget::default()),
                handles[0].address()
            ),
            first
        );
        // One that was told, and is called otherwise, ends it.
        places.learn(
            (&mut memory(), &mut LookBudget::default()),
            handles[0].address(),
            "other",
            Source::Driver,
        );
        assert_eq!(name_of(&mut places, handles[1].address()), None);
    }

    #[test]
    fn two_are_enough_where_another_kind_has_its_names() {
        let [a, b, c] = ["a", "b", "c"].map(|name| Handle::new(KERNEL, name));
        let (mut places, _) = taught(&[(&a, "a"), (&b, "b"), (&c, "c")]);
        let handles = ["_Z1av", "_Z1bv"].map(|name| Handle::new(FUNCTION, name));
        let found = handles
            .each_ref()
            .map(|handle| name_of(&mut places, handle.address()));
        assert_eq!(found, [None, Some("_Z1bv".to_owned())]);
    }

    #[test]
    fn what_is_alike_in_all_of_them_is_no_name() {
        let mut handles = Vec::new();
        let shared = CString::new("_Z10same_in_allv").expect("no NUL in it");
        for index in 0..12 {
            // A word of which it is not clear whether it is the name: both differ from handle to handle.
            let mut handle = Handle::new(KERNEL, &format!("_Z3a{index:02}v"));
            let other = CString::new(format!("_Z3b{index:02}v")).expect("no NUL in it");
            handle.words[5] = shared.as_ptr() as u64;
            handle.words[9] = other.as_ptr() as u64;
            handles.push((handle, other));
        }
        let mut places = NamePlaces::default();
        for (handle, _) in &handles {
            assert_eq!(name_of(&mut places, handle.address()), None);
        }
    }

    /// The two compilers number lambdas differently.
    #[test]
    fn a_name_by_the_hosts_compiler_that_is_not_there_means_nothing() {
        let [a, b, c] = ["a", "b", "c"].map(|name| Handle::new(KERNEL, name));
        let mut places = NamePlaces::default();
        let mut sure = Vec::new();
        for (handle, name) in [(&a, "a"), (&b, "B"), (&b, "b"), (&c, "c"), (&c, "C")] {
            let address = handle.address();
            sure.push(places.learn(
                (&mut memory(), &mut LookBudget::default()),
                address,
                name,
                Source::HostStub,
            ));
        }
        assert_eq!(sure, [false, false, false, true, false]);
        assert_eq!(name_of(&mut places, a.address()).as_deref(), Some("a"));
    }

    #[test]
    fn a_handle_that_contradicts_ends_the_trust_in_few() {
        let [a, b, c] = ["a", "b", "c"].map(|name| Handle::new(KERNEL, name));
        let elsewhere = Handle::with_name_at(KERNEL, "d", 9);
        let lessons = [(&a, "a"), (&b, "b"), (&c, "c"), (&elsewhere, "d")];
        let (mut places, _) = taught(&lessons);
        assert_eq!(name_of(&mut places, a.address()), None);
        // One of five may have been gone before it was read.
        let d = Handle::new(KERNEL, "d");
        places.learn(
            (&mut memory(), &mut LookBudget::default()),
            d.address(),
            "d",
            Source::Driver,
        );
        assert_eq!(name_of(&mut places, a.address()).as_deref(), Some("a"));
    }

    #[test]
    fn what_is_no_name_is_not_taken_for_one() {
        let [a, b, c] = ["a", "b", "c"].map(|name| Handle::new(KERNEL, name));
        let (mut places, _) = taught(&[(&a, "a"), (&b, "b"), (&c, "c")]);
        for text in [
            "",
            "two words",
            "9lives",
            "tab\t",
            "\u{e9}t\u{e9}",
            &"n".repeat(5000),
        ] {
            let handle = Handle::new(KERNEL, text);
            assert_eq!(name_of(&mut places, handle.address()), None, "{text}");
        }
        let mut nowhere = Handle::new(KERNEL, "x");
        for pointer in [0, 8, u64::MAX, 1 << 47] {
            nowhere.words[1] = pointer;
            assert_eq!(name_of(&mut places, nowhere.address()), None);
        }
        for handle in [0, 8, u64::MAX, u64::MAX - 7] {
            assert_eq!(name_of(&mut places, handle), None);
        }
    }

    proptest! {
        /// Structures full of anything, pointers into themselves too.
        #[test]
        fn any_structure_is_survived(
            words in prop::collection::vec(any::<u64>(), WORDS),
            inward in prop::collection::vec((0..WORDS, 0..WORDS * 8), 0..32),
        ) {
            let mut handle = Handle::new(KERNEL, "x");
            handle.words.copy_from_slice(&words);
            let address = handle.address();
            for (index, offset) in inward {
                handle.words[index] = address + offset as u64;
            }
            let mut places = NamePlaces::default();
            for name in ["a", "b", "c", "d"] {
                places.learn((&mut memory(), &mut LookBudget::default()), address, name, Source::Driver);
            }
            name_of(&mut places, address);
        }
    }
}
