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
/// Handles of unknown name that a kind is judged by.
const MEETINGS: u32 = 128;

/// Handles whose structures begin with the same word.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) first_word: u64,
    told: Told,
    met: Vec<Met>,
    meetings: u32,
}

/// Handles of known name.
#[derive(Debug)]
struct Told {
    /// A bit for each word that pointed to the name, of every one of them that had it anywhere in these.
    places: u64,
    /// Different names, up to [`TOLD`].
    names: Vec<String>,
    agreeing: u32,
    contradicting: u32,
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
                agreeing: 0,
                contradicting: 0,
            },
            met: Vec::new(),
            meetings: 0,
        }
    }

    /// Whether no more handles of known name are wanted.
    pub(super) fn was_told_enough(&self) -> bool {
        self.told.agreeing + self.told.contradicting >= LESSONS
    }

    /// A handle is called `name`, which the words of these bits point to.
    pub(super) fn told(&mut self, name: &str, places: u64) {
        let told = &mut self.told;
        if told.places & places == 0 {
            told.contradicting += 1;
            return;
        }
        told.places &= places;
        told.agreeing += 1;
        if told.names.len() < TOLD && told.names.iter().all(|known| known != name) {
            told.names.push(name.to_owned());
        }
    }

    /// Whether no more handles of unknown name are wanted.
    pub(super) fn met_enough(&self) -> bool {
        self.met.len() >= MET || self.meetings >= MEETINGS
    }

    /// A handle of unknown name has these symbols. The same kernel once more, of a module that was loaded
    /// again, shows nothing.
    pub(super) fn met(&mut self, handle: u64, symbols: Vec<(usize, String)>) {
        self.meetings += 1;
        let is_new = |met: &Met| met.handle != handle && met.symbols != symbols;
        if !symbols.is_empty() && self.met.iter().all(is_new) {
            self.met.push(Met { handle, symbols });
        }
    }

    /// Whether handles of known name are where the others say. A structure is read some time after
    /// its handle was looked up, and may be gone by then: one in five may contradict.
    fn is_trusted(&self) -> bool {
        self.told.contradicting == 0 || self.told.contradicting * 4 <= self.told.agreeing
    }

    /// A bit for each word that points to the name for sure, by handles of this kind alone.
    pub(super) fn own_places(&self) -> u64 {
        if !self.is_trusted() {
            return 0;
        }
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

    /// A bit for each word that points to the name; none while that is not sure. `elsewhere` has the
    /// bits that are sure for other kinds.
    pub(super) fn places(&self, elsewhere: u64) -> u64 {
        let own = self.own_places();
        let backed = self.told.places & elsewhere;
        if own != 0 || !self.is_trusted() {
            own
        } else if !self.told.names.is_empty() {
            backed
        } else if self.met.len() >= MET_AND_BACKED {
            self.alike() & backed
        } else {
            0
        }
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
