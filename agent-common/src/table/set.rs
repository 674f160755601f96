//! Sets: device memory filled with one value.

use super::{driver, ptds, ptsz, runtime};
use crate::{
    api::{Api, Effect, Family},
    value::{Field, arg, stack},
};

pub(super) const ROWS: [Api; 18] = [
    runtime(
        ptds!("cudaMemset"),
        Family::Copy,
        Effect::Set,
        &[arg(0, Field::Address), arg(2, Field::Size)],
    )
    .doc("Sets bytes"),
    runtime(
        ptsz!("cudaMemsetAsync"),
        Family::Copy,
        Effect::Set,
        &[
            arg(0, Field::Address),
            arg(2, Field::Size),
            arg(3, Field::Stream),
        ],
    )
    .doc("Sets bytes in a stream"),
    runtime(
        ptds!("cudaMemset2D"),
        Family::Copy,
        Effect::Set,
        &[
            arg(0, Field::Address),
            arg(3, Field::Width),
            arg(4, Field::Height),
        ],
    )
    .doc("Sets bytes of rows"),
    runtime(
        ptsz!("cudaMemset2DAsync"),
        Family::Copy,
        Effect::Set,
        &[
            arg(0, Field::Address),
            arg(3, Field::Width),
            arg(4, Field::Height),
            arg(5, Field::Stream),
        ],
    )
    .doc("Sets bytes of rows in a stream"),
    runtime(
        ptds!("cudaMemset3D"),
        Family::Copy,
        Effect::Set,
        &[
            stack(0, Field::Address),
            stack(4, Field::Width),
            stack(5, Field::Height),
            stack(6, Field::Depth),
        ],
    )
    .doc("Sets bytes of rows and layers"),
    runtime(
        ptsz!("cudaMemset3DAsync"),
        Family::Copy,
        Effect::Set,
        &[
            stack(0, Field::Address),
            stack(4, Field::Width),
            stack(5, Field::Height),
            stack(6, Field::Depth),
            arg(1, Field::Stream),
        ],
    )
    .doc("Sets bytes of rows and layers in a stream"),
    driver(
        ptds!("cuMemsetD8_v2"),
        Family::Copy,
        Effect::Set,
        &[arg(0, Field::Address), arg(2, Field::Size)],
    )
    .doc("Sets bytes"),
    driver(
        ptsz!("cuMemsetD8Async"),
        Family::Copy,
        Effect::Set,
        &[
            arg(0, Field::Address),
            arg(2, Field::Size),
            arg(3, Field::Stream),
        ],
    )
    .doc("Sets bytes in a stream"),
    driver(
        ptds!("cuMemsetD2D8_v2"),
        Family::Copy,
        Effect::Set,
        &[
            arg(0, Field::Address),
            arg(3, Field::Width),
            arg(4, Field::Height),
        ],
    )
    .doc("Sets bytes of rows"),
    driver(
        ptsz!("cuMemsetD2D8Async"),
        Family::Copy,
        Effect::Set,
        &[
            arg(0, Field::Address),
            arg(3, Field::Width),
            arg(4, Field::Height),
            arg(5, Field::Stream),
        ],
    )
    .doc("Sets bytes of rows in a stream"),
    driver(
        ptds!("cuMemsetD16_v2"),
        Family::Copy,
        Effect::Set,
        &[arg(0, Field::Address), arg(2, Field::Halves)],
    )
    .doc("Sets 16-bit words"),
    driver(
        ptsz!("cuMemsetD16Async"),
        Family::Copy,
        Effect::Set,
        &[
            arg(0, Field::Address),
            arg(2, Field::Halves),
            arg(3, Field::Stream),
        ],
    )
    .doc("Sets 16-bit words in a stream"),
    driver(
        ptds!("cuMemsetD2D16_v2"),
        Family::Copy,
        Effect::Set,
        &[
            arg(0, Field::Address),
            arg(3, Field::Halves),
            arg(4, Field::Height),
        ],
    )
    .doc("Sets 16-bit words of rows"),
    driver(
        ptsz!("cuMemsetD2D16Async"),
        Family::Copy,
        Effect::Set,
        &[
            arg(0, Field::Address),
            arg(3, Field::Halves),
            arg(4, Field::Height),
            arg(5, Field::Stream),
        ],
    )
    .doc("Sets 16-bit words of rows in a stream"),
    driver(
        ptds!("cuMemsetD32_v2"),
        Family::Copy,
        Effect::Set,
        &[arg(0, Field::Address), arg(2, Field::Words)],
    )
    .doc("Sets 32-bit words"),
    driver(
        ptsz!("cuMemsetD32Async"),
        Family::Copy,
        Effect::Set,
        &[
            arg(0, Field::Address),
            arg(2, Field::Words),
            arg(3, Field::Stream),
        ],
    )
    .doc("Sets 32-bit words in a stream"),
    driver(
        ptds!("cuMemsetD2D32_v2"),
        Family::Copy,
        Effect::Set,
        &[
            arg(0, Field::Address),
            arg(3, Field::Words),
            arg(4, Field::Height),
        ],
    )
    .doc("Sets 32-bit words of rows"),
    driver(
        ptsz!("cuMemsetD2D32Async"),
        Family::Copy,
        Effect::Set,
        &[
            arg(0, Field::Address),
            arg(3, Field::Words),
            arg(4, Field::Height),
            arg(5, Field::Stream),
        ],
    )
    .doc("Sets 32-bit words of rows in a stream"),
];
