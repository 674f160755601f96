//! The overhead budget of `serve`: when probes may be on.
//!
//! What probes cost a process is what they cost its busiest thread: hits by the price of a hit
//! ([`Prices`], measured at the start). [`Policy`] decides, from times and costs alone; control
//! (in [`crate::session`]) reads the hits and carries the decisions out.

mod calibrate;
mod history;
mod meter;
mod policy;
mod uses;

use std::{fmt, str::FromStr};

use thiserror::Error;

pub(crate) use calibrate::calibrate;
pub use meter::{Hits, Meter, Prices};
pub use policy::{Move, Policy};
pub use uses::Uses;

/// The share of a thread's time that probes may take, above 0 and below 1.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Share(f64);

impl Share {
    /// As a number.
    pub const fn ratio(self) -> f64 {
        self.0
    }
}

/// What `--max-overhead` says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MaxOverhead {
    /// All probes are on all the time.
    Off,
    /// At most this.
    Share(Share),
}

impl MaxOverhead {
    /// The budget, if there is one.
    pub const fn share(self) -> Option<Share> {
        match self {
            Self::Off => None,
            Self::Share(share) => Some(share),
        }
    }
}

/// Why a budget is none.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("a share from 0.01% to 50% is expected, as in 1% or 0.5%; or `off`")]
pub struct NoShare;

impl FromStr for MaxOverhead {
    type Err = NoShare;

    fn from_str(text: &str) -> Result<Self, NoShare> {
        if text == "off" {
            return Ok(Self::Off);
        }
        let percent = text.strip_suffix('%').ok_or(NoShare)?.trim_end();
        let percent: f64 = percent.parse().map_err(|_| NoShare)?;
        if (0.01..=50.0).contains(&percent) {
            Ok(Self::Share(Share(percent / 100.0)))
        } else {
            Err(NoShare)
        }
    }
}

impl fmt::Display for MaxOverhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Share(Share(ratio)) => write!(f, "{}%", ratio * 100.0),
        }
    }
}

/// How the budget does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// The budget.
    pub budget: f64,
    /// Estimated cost of the last minute, as a share of the busiest thread's time.
    pub overhead: f64,
    /// Share of the last minute in which launches, copies and waits were probed.
    pub window: f64,
    /// What a hit costs.
    pub prices: Prices,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_as_people_write_them() {
        let share = |text: &str| text.parse().map(MaxOverhead::share);
        assert_eq!(share("off"), Ok(None));
        assert_eq!(share("1%"), Ok(Some(Share(0.01))));
        assert_eq!(share("0.5 %"), Ok(Some(Share(0.005))));
        for wrong in ["1", "0%", "51%", "-1%", "NaN%", "inf%", "%", "", "on"] {
            assert_eq!(share(wrong), Err(NoShare), "{wrong}");
        }
    }
}
