//! Names of the two layers, and of twins.

/// Whose functions are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layer {
    Runtime,
    Driver,
}

impl Layer {
    /// The name that the function has here.
    pub(super) fn name<'a>(self, runtime: &'a str, driver: &'a str) -> &'a str {
        match self {
            Self::Runtime => runtime,
            Self::Driver => driver,
        }
    }
}

/// Which default stream a function means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Twin {
    Plain,
    PerThread,
}

pub(super) const TWINS: [Twin; 2] = [Twin::Plain, Twin::PerThread];

impl Twin {
    fn suffixed(self, name: &str, suffix: &str) -> String {
        match self {
            Self::Plain => name.to_owned(),
            Self::PerThread => format!("{name}{suffix}"),
        }
    }

    /// An asynchronous function.
    pub(super) fn ptsz(self, name: &str) -> String {
        self.suffixed(name, "_ptsz")
    }

    /// A synchronous function.
    pub(super) fn ptds(self, name: &str) -> String {
        self.suffixed(name, "_ptds")
    }

    /// Differs between the twins, so that no two calls have the same arguments.
    pub(super) const fn extra(self) -> u64 {
        match self {
            Self::Plain => 0,
            Self::PerThread => 1,
        }
    }
}
