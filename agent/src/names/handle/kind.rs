//! What handles of one kind show of where their names are.

/// Different names that handles of known name must have at the same place before it is believed.
const TOLD: usize = 3;
/// Handles of known name that a kind is judged by.
const LESSONS: u32 = 32;
/// Handles of unknown name that must have different symbols of C++ at one place, and at that place
/// alone, before it is believed. In a process whose kernels were all looked up before we came, there are
/// no others.
const MET: usize = 8;
/// The same where handles of another kind are known to have their names there.
const MET_AND_BACKED: usize = 2;

/// Handles whose structures begin with the same word.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) first_word: u64,
    told: Told,
    met: Vec<Met>,
}

/// Handles of known name.
#[derive(Debug)]
struct Told {
    /// A bit for each word that pointed to the name, of every one of them.
    places: u64,
    /// Different names, up to [`TOLD`].
    names: Vec<String>,
    lessons: u32,
}

/// A handle of unknown name.
#[derive(Debug)]
struct Met {
    handle: u64,
    /// The words that point to symbols of C++, and those.
    symbols: Vec<(usize, String)>,
}

impl Kind {
    pub(super) fn new(first_word: u64) -> Self {
        Self {
            first_word,
            told: Told {
                places: u64::MAX,
                names: Vec::new(),
                lessons: 0,
            },
            met: Vec::new(),
        }
    }

    /// Whether no more handles of known name are wanted.
    pub(super) fn was_told_enough(&self) -> bool {
        self.told.lessons >= LESSONS
    }

    /// A handle is called `name`, which the words of these bits point to.
    pub(super) fn told(&mut self, name: &str, places: u64) {
        let told = &mut self.told;
        told.lessons += 1;
        told.places &= places;
        if told.names.len() < TOLD && told.names.iter().all(|known| known != name) {
            told.names.push(name.to_owned());
        }
    }

    /// A handle of unknown name has these symbols. The same kernel once more, of a module that was loaded
    /// again, shows nothing.
    pub(super) fn met(&mut self, handle: u64, symbols: impl FnOnce() -> Vec<(usize, String)>) {
        if self.met.len() >= MET || self.met.iter().any(|met| met.handle == handle) {
            return;
        }
        let symbols = symbols();
        if !symbols.is_empty() && self.met.iter().all(|met| met.symbols != symbols) {
            self.met.push(Met { handle, symbols });
        }
    }

    /// A bit for each word that points to the name for sure, by handles of this kind alone.
    pub(super) fn own_places(&self) -> u64 {
        if self.told.names.len() >= TOLD {
            return self.told.places;
        }
        let alike = self.alike() & self.told.places;
        if self.met.len() >= MET && alike.is_power_of_two() {
            alike
        } else {
            0
        }
    }

    /// The word that points to the name; `None` while that is not sure. `elsewhere` has the bits that
    /// are sure for other kinds.
    pub(super) fn place(&self, elsewhere: u64) -> Option<usize> {
        let own = self.own_places();
        let backed = self.told.places & elsewhere;
        let sure = if own != 0 {
            own
        } else if self.told.names.is_empty() {
            let alike = self.alike() & backed;
            if self.met.len() >= MET_AND_BACKED {
                alike
            } else {
                0
            }
        } else {
            backed
        };
        (sure != 0).then(|| sure.trailing_zeros() as usize)
    }

    /// A bit for each word at which all handles of unknown name have symbols, and different ones.
    fn alike(&self) -> u64 {
        let Some((first, others)) = self.met.split_first() else {
            return 0;
        };
        let places = first.symbols.iter().map(|(place, _)| *place);
        places
            .filter(|place| {
                let symbols = self.met.iter().map(|met| met.symbol_at(*place));
                let mut known: Vec<Option<&str>> = symbols.collect();
                known.sort_unstable();
                known.dedup();
                known.len() == others.len() + 1 && known.iter().all(Option::is_some)
            })
            .fold(0, |alike, place| alike | 1 << place)
    }
}

impl Met {
    fn symbol_at(&self, place: usize) -> Option<&str> {
        let found = self.symbols.iter().find(|(other, _)| *other == place);
        Some(found?.1.as_str())
    }
}
