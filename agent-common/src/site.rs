//! Attach points: what a probe knows about where it stands.

use crate::ApiId;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// `--launch-returns`.
    pub probe: u8,
    /// A [`Twin`].
    pub twin: u8,
    /// 1 for a hot function ([`crate::Api::is_hot`]).
    pub hot: u8,
    /// For copies whose name states the direction, the `cudaMemcpyKind`; else 0xff.
    pub copy_kind: u8,
    /// Zero.
    pub reserved: [u8; 7],
    /// Bytes of the file's executable segment before the symbol.
    pub text_before: u64,
    /// Bytes of the file's executable segment from the symbol on. Together they tell, from
    /// the address of one probe hit, whether another address lies in the same library.
    pub text_after: u64,
}

impl Site {
    /// The site of `symbol`, whose executable segment spans `text_before` and `text_after`
    /// bytes around it. `None` for an id outside the table.
    pub fn new(id: ApiId, symbol: &str, text_before: u64, text_after: u64) -> Option<Self> {
        let api = id.api()?;
        Some(Self {
            api: id.0,
            shape: api.shape as u8,
            effect: api.effect as u8,
            layer: api.layer as u8,
            probe: api.probe as u8,
            twin: Twin::of_symbol(symbol) as u8,
            hot: u8::from(api.is_hot()),
            copy_kind: api.copy_kind().unwrap_or(u8::MAX),
            reserved: [0; 7],
            text_before,
            text_after,
        })
    }
}

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
