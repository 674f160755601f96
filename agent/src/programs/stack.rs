//! Whether older kernels load the programs: what they need of the stack is looked up in the object.
//!
//! Before Linux 6.13, a program and the functions that it calls share 512 bytes, each rounded up to 32
//! (`check_max_stack_depth`, kernel/bpf/verifier.c); since then uprobe programs have 512 bytes for each.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use object::{Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget, SymbolKind};

use super::OBJECT;

const LIMIT: u32 = 512;
const ROUNDED_TO: u32 = 32;

/// Bytes of an instruction; `BPF_LD | BPF_DW | BPF_IMM` has two of them.
const INSTRUCTION: usize = 8;
const LOAD_WORDS: u8 = 0x18;
const CALL: u8 = 0x85;
const MOVE: u8 = 0xbf;
const MOVE_NUMBER: u8 = 0xb7;
const ADD_NUMBER: u8 = 0x07;
/// `BPF_PSEUDO_CALL`: of a function of the object, not of a helper.
const OWN: u8 = 1;
const FRAME_POINTER: u8 = 10;

/// Where a function is: its section's index, and the offset in it.
type Place = (usize, u64);

#[derive(Debug, Default)]
struct Function {
    name: String,
    is_program: bool,
    stack: u32,
    calls: BTreeSet<Place>,
}

struct Instruction {
    code: u8,
    destination: u8,
    source: u8,
    offset: i16,
    number: i32,
}

impl Instruction {
    fn read(bytes: &[u8]) -> Self {
        Self {
            code: bytes[0],
            destination: bytes[1] & 15,
            source: bytes[1] >> 4,
            offset: i16::from_le_bytes([bytes[2], bytes[3]]),
            number: i32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
        }
    }
}

fn functions() -> BTreeMap<Place, Function> {
    let file = object::File::parse(OBJECT).expect("an object");
    let mut functions = BTreeMap::new();
    for symbol in file
        .symbols()
        .filter(|symbol| symbol.kind() == SymbolKind::Text)
    {
        let section = symbol.section_index().expect("defined");
        let code = file.section_by_index(section).expect("there");
        // Where calls and addresses of functions lead to.
        let targets: HashMap<u64, Place> = code
            .relocations()
            .filter_map(|(at, relocation)| {
                let RelocationTarget::Symbol(index) = relocation.target() else {
                    return None;
                };
                let target = file.symbol_by_index(index).expect("there");
                Some((
                    at,
                    (target.section_index()?.0, target.address(), target.kind()),
                ))
            })
            .map(|(at, (section, address, kind))| {
                let bytes = code.data().expect("bytes");
                let at_place = usize::try_from(at).expect("small");
                let found = Instruction::read(&bytes[at_place..]);
                let number = i64::from(found.number);
                let more = match (kind, found.code) {
                    (SymbolKind::Section, CALL) => (number + 1) * 8,
                    (SymbolKind::Section, _) => number,
                    _ => 0,
                };
                (at, (section, address.wrapping_add_signed(more)))
            })
            .collect();
        let mut function = Function {
            name: symbol.name().expect("a name").to_owned(),
            is_program: code.name().expect("a name") != ".text",
            ..Function::default()
        };
        let bytes = code.data().expect("bytes");
        let from = usize::try_from(symbol.address()).expect("small");
        let to = from + usize::try_from(symbol.size()).expect("small");
        // Copies of the frame pointer, to which an offset is added next.
        let mut copies = BTreeSet::new();
        let mut at = from;
        while at < to {
            let found = Instruction::read(&bytes[at..]);
            let Instruction {
                code,
                destination,
                source,
                offset,
                number,
            } = found;
            let place = at as u64;
            let reaches = match code & 7 {
                1 if source == FRAME_POINTER => i32::from(offset),
                2 | 3 if destination == FRAME_POINTER => i32::from(offset),
                _ if code == ADD_NUMBER && copies.remove(&destination) => number,
                _ => 0,
            };
            function.stack = function.stack.max(reaches.min(0).unsigned_abs());
            match code {
                MOVE if source == FRAME_POINTER => {
                    copies.insert(destination);
                }
                MOVE | MOVE_NUMBER | LOAD_WORDS => {
                    copies.remove(&destination);
                }
                _ => {}
            }
            if code == CALL && source == OWN {
                let near = place.wrapping_add_signed(8 + i64::from(number) * 8);
                let target = targets.get(&place).copied().unwrap_or((section.0, near));
                function.calls.insert(target);
            } else if code == LOAD_WORDS {
                // A function that a helper calls back.
                function.calls.extend(targets.get(&place));
                at += INSTRUCTION;
            }
            at += INSTRUCTION;
        }
        functions.insert((section.0, symbol.address()), function);
    }
    functions
}

/// The most that a function and those below it need, and who they are.
fn deepest(functions: &BTreeMap<Place, Function>, place: Place) -> (u32, Vec<&str>) {
    let function = &functions[&place];
    let own = function.stack.next_multiple_of(ROUNDED_TO).max(ROUNDED_TO);
    let below = function
        .calls
        .iter()
        // What is loaded may be a map, too.
        .filter(|place| functions.contains_key(place))
        .map(|place| deepest(functions, *place))
        .max_by_key(|(bytes, _)| *bytes)
        .unwrap_or_default();
    let (bytes, mut chain) = below;
    chain.insert(0, &function.name);
    (own + bytes, chain)
}

#[test]
fn programs_fit_the_stack_of_older_kernels() {
    let functions = functions();
    let programs: Vec<_> = functions.iter().filter(|(_, one)| one.is_program).collect();
    assert!(programs.len() > 20, "{} programs", programs.len());
    let mut most = 0;
    for (place, _) in programs {
        let (bytes, chain) = deepest(&functions, *place);
        assert!(bytes <= LIMIT, "{bytes} bytes: {}", chain.join(" -> "));
        most = most.max(bytes);
    }
    assert!(most > LIMIT / 2, "calls are followed: {most}");
}
