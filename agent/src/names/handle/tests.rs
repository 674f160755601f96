//! Structures of this process stand for those of a driver.

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

/// As in a program that launches many kernels of cuBLAS first.
#[test]
fn many_handles_with_names_of_c_do_not_stand_in_the_way() {
    let mut places = NamePlaces::default();
    let plain = Handle::new(KERNEL, "sm80_xmma_gemm");
    for _ in 0..200 {
        assert_eq!(name_of(&mut places, plain.address()), None);
    }
    let handles = ["a", "b", "c"].map(|name| (Handle::new(KERNEL, name), name));
    for (handle, name) in &handles {
        let reading = (&mut memory(), &mut LookBudget::default());
        places.learn(reading, handle.address(), name, Source::Driver);
    }
    let name = name_of(&mut places, plain.address());
    assert_eq!(name.as_deref(), Some("sm80_xmma_gemm"));
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
