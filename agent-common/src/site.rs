//! Attach points: what a probe knows about where it stands.

use crate::{
    ApiId, ProbeClass,
    table::TASKS,
    value::{MAX_VALUES, Place, PlaceKind, SizeFactors, size_factors},
};

/// The per-thread-default-stream form of a function is separate code with this suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Twin {
    /// The plain function.
    Plain = 0,
    /// `NAME_ptsz` (asynchronous) or `NAME_ptds` (synchronous): stream 0 means the
    /// thread's own stream.
    PerThread = 1,
}

impl Twin {
    /// Which one `symbol` is.
    pub fn of_symbol(symbol: &str) -> Self {
        if symbol.ends_with("_ptsz") || symbol.ends_with("_ptds") {
            Self::PerThread
        } else {
            Self::Plain
        }
    }
}

/// One attach point: one symbol of one file. The kernel keeps an array of them, and a
/// probe's [`Cookie`] holds its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Site {
    /// The function.
    pub api: u16,
    /// Its [`crate::Shape`], as a number.
    pub shape: u8,
    /// Its [`crate::Effect`], as a number.
    pub effect: u8,
    /// Its [`crate::Layer`], as a number.
    pub layer: u8,
    /// Its [`crate::Probe`], as a number; `Entry` functions become `Return` under
    /// `--launch-returns`, and all become `Entry` where returns are not probed.
    pub probe: u8,
    /// A [`Twin`].
    pub twin: u8,
    /// 1 for a hot function ([`crate::Api::is_hot`]).
    pub hot: u8,
    /// How many `places` there are.
    pub values: u8,
    /// 1 if any of them is read at return.
    pub has_out: u8,
    /// Bytes a unit of the size ([`crate::SizeFactors`]).
    pub size_unit: u8,
    /// Its [`crate::ProbeClass`], as a number.
    pub class: u8,
    /// Which values make up the size ([`crate::SizeFactors`]).
    pub size_mask: u16,
    /// 1 if the places are those of [`crate::Api::values_before_13`].
    pub before_13: u16,
    /// Where the function's arguments are, in the order of [`crate::Api::values`].
    pub places: [Place; MAX_VALUES],
    /// Bytes of the file's executable segment before the symbol.
    pub text_before: u64,
    /// Bytes of the file's executable segment from the symbol on. Together they tell, from
    /// the address of one probe hit, whether another address lies in the same library.
    pub text_after: u64,
}

/// What a file says of the symbol that a site is for.
#[derive(Clone, Copy, Debug)]
pub struct SiteFile {
    /// Bytes of the executable segment before the symbol.
    pub text_before: u64,
    /// Bytes of it from the symbol on.
    pub text_after: u64,
    /// The file is a runtime of CUDA 12 or older.
    pub before_13: bool,
}

impl Site {
    /// A site that is not about calls.
    pub const fn of_no_function() -> Self {
        Self {
            api: TASKS.0,
            shape: 0,
            effect: 0,
            layer: 0,
            probe: 0,
            twin: 0,
            hot: 0,
            values: 0,
            has_out: 0,
            size_unit: 1,
            class: ProbeClass::Steady as u8,
            size_mask: 0,
            before_13: 0,
            places: [NO_PLACE; MAX_VALUES],
            text_before: 0,
            text_after: 0,
        }
    }

    /// The site of `symbol` in a file. `None` for an id outside the table.
    pub fn new(id: ApiId, symbol: &str, file: SiteFile) -> Option<Self> {
        let SiteFile {
            text_before,
            text_after,
            before_13,
        } = file;
        let api = id.api()?;
        let older = api.values_before_13.filter(|_| before_13);
        let values = older.unwrap_or(api.values);
        let mut places = [NO_PLACE; MAX_VALUES];
        for (place, value) in places.iter_mut().zip(values) {
            *place = value.place;
        }
        let SizeFactors { mask, unit } = size_factors(values);
        Some(Self {
            api: id.0,
            shape: api.shape as u8,
            effect: api.effect as u8,
            layer: api.layer as u8,
            probe: api.probe as u8,
            twin: Twin::of_symbol(symbol) as u8,
            hot: u8::from(api.is_hot()),
            values: u8::try_from(values.len()).ok()?,
            has_out: u8::from(values.iter().any(|value| value.place.kind.is_out())),
            size_unit: unit,
            class: api.class() as u8,
            size_mask: mask,
            before_13: u16::from(older.is_some()),
            places,
            text_before,
            text_after,
        })
    }
}

const NO_PLACE: Place = Place {
    kind: PlaceKind::Constant,
    argument: 0,
    offset: 0,
};

/// The bit beside a process id in the kernel's sets of traced processes that says: the calls of
/// this one are caught by links of its own, so those on all processes pass it over.
pub const OWN_LINKS: u32 = 1 << 31;

/// The 64 bits that the kernel hands to a probe: which site, and whose link it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cookie {
    /// Index of the [`Site`].
    pub site: u32,
    /// The process that the link is scoped to, in the agent's pid namespace; 0 for a link on
    /// all processes, whose members the kernel looks up.
    pub pid: u32,
}

impl Cookie {
    /// As the kernel keeps it.
    pub const fn to_bits(self) -> u64 {
        self.site as u64 | (self.pid as u64) << 32
    }

    /// From what the kernel hands over.
    pub const fn from_bits(bits: u64) -> Self {
        Self {
            site: (bits & 0xffff_ffff) as u32,
            pid: (bits >> 32) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookie_survives() {
        let cookie = Cookie {
            site: 77,
            pid: u32::MAX,
        };
        assert_eq!(Cookie::from_bits(cookie.to_bits()), cookie);
    }

    #[test]
    fn twins_are_told_by_suffix() {
        assert_eq!(Twin::of_symbol("cudaMemcpyAsync_ptsz"), Twin::PerThread);
        assert_eq!(Twin::of_symbol("cuMemcpyHtoD_v2_ptds"), Twin::PerThread);
        assert_eq!(Twin::of_symbol("cuMemcpyHtoD_v2"), Twin::Plain);
    }
}
