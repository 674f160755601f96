//! Copies between host and device, with host ranges that are really borrowed.

/// What is copied where.
#[derive(Debug)]
pub enum Transfer<'a> {
    /// As many bytes as the shorter range has.
    HostToHost {
        /// Destination.
        to: &'a mut [u8],
        /// Source.
        from: &'a [u8],
    },
    /// The whole host range.
    HostToDevice {
        /// Destination address.
        to: u64,
        /// Source.
        from: &'a [u8],
    },
    /// The whole host range.
    DeviceToHost {
        /// Destination.
        to: &'a mut [u8],
        /// Source address.
        from: u64,
    },
    /// Within or between devices.
    DeviceToDevice {
        /// Destination address.
        to: u64,
        /// Source address.
        from: u64,
        /// Bytes.
        size: usize,
    },
    /// From the host to a device, which CUDA is left to find out.
    ByAddress {
        /// Destination address.
        to: u64,
        /// Source.
        from: &'a [u8],
    },
}

/// `cudaMemcpyHostToHost` and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Direction {
    /// Host to host.
    HostToHost = 0,
    /// Host to device.
    HostToDevice = 1,
    /// Device to host.
    DeviceToHost = 2,
    /// Device to device.
    DeviceToDevice = 3,
    /// By address.
    Default = 4,
}

/// A transfer's arguments, as CUDA takes them.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) to: u64,
    pub(crate) from: u64,
    pub(crate) size: usize,
    pub(crate) direction: Direction,
}

impl Transfer<'_> {
    pub(crate) fn parts(self) -> Parts {
        let (to, from, size, direction) = match self {
            Self::HostToHost { to, from } => (
                to.as_mut_ptr() as u64,
                from.as_ptr() as u64,
                to.len().min(from.len()),
                Direction::HostToHost,
            ),
            Self::HostToDevice { to, from } => (
                to,
                from.as_ptr() as u64,
                from.len(),
                Direction::HostToDevice,
            ),
            Self::DeviceToHost { to, from } => (
                to.as_mut_ptr() as u64,
                from,
                to.len(),
                Direction::DeviceToHost,
            ),
            Self::DeviceToDevice { to, from, size } => (to, from, size, Direction::DeviceToDevice),
            Self::ByAddress { to, from } => {
                (to, from.as_ptr() as u64, from.len(), Direction::Default)
            }
        };
        Parts {
            to,
            from,
            size,
            direction,
        }
    }
}
