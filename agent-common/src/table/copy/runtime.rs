//! The runtime's copies.

use super::super::{ptds, ptsz, runtime};
use crate::{
    api::{Api, Effect, Family, Shape},
    value::{Field, arg, behind, behind_int, constant, int, stack, stack_int},
};

pub(in super::super) const ROWS: [Api; 28] = [
    runtime(
        ptds!("cudaMemcpy"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(0, Field::Address),
            arg(1, Field::Source),
            arg(2, Field::Size),
            int(3, Field::CopyKind),
        ],
    )
    .core()
    .doc("Copies; returns when done"),
    runtime(
        ptsz!("cudaMemcpyAsync"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(0, Field::Address),
            arg(1, Field::Source),
            arg(2, Field::Size),
            int(3, Field::CopyKind),
            arg(4, Field::Stream),
        ],
    )
    .core()
    .doc("Copies in a stream; with pageable host memory it blocks all the same"),
    runtime(
        &["cudaMemcpyPeer"],
        Family::Copy,
        Effect::Copy,
        &[
            arg(0, Field::Address),
            arg(2, Field::Source),
            arg(4, Field::Size),
            constant(3, Field::CopyKind),
            int(1, Field::Device),
            int(3, Field::SourceDevice),
        ],
    )
    .doc("Copies between devices"),
    runtime(
        &["cudaMemcpyPeerAsync"],
        Family::Copy,
        Effect::Copy,
        &[
            arg(0, Field::Address),
            arg(2, Field::Source),
            arg(4, Field::Size),
            constant(3, Field::CopyKind),
            arg(5, Field::Stream),
            int(1, Field::Device),
            int(3, Field::SourceDevice),
        ],
    )
    .doc("Copies between devices in a stream"),
    runtime(
        ptds!("cudaMemcpy2D"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(0, Field::Address),
            arg(2, Field::Source),
            arg(4, Field::Width),
            arg(5, Field::Height),
            stack_int(0, Field::CopyKind),
        ],
    )
    .doc("Copies rows"),
    runtime(
        ptsz!("cudaMemcpy2DAsync"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(0, Field::Address),
            arg(2, Field::Source),
            arg(4, Field::Width),
            arg(5, Field::Height),
            stack_int(0, Field::CopyKind),
            stack(1, Field::Stream),
        ],
    )
    .doc("Copies rows in a stream"),
    runtime(
        ptds!("cudaMemcpy2DToArray"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(0, Field::Handle),
            arg(3, Field::Source),
            arg(5, Field::Width),
            stack(0, Field::Height),
            stack_int(1, Field::CopyKind),
        ],
    )
    .doc("Copies rows to an array"),
    runtime(
        ptsz!("cudaMemcpy2DToArrayAsync"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(0, Field::Handle),
            arg(3, Field::Source),
            arg(5, Field::Width),
            stack(0, Field::Height),
            stack_int(1, Field::CopyKind),
            stack(2, Field::Stream),
        ],
    )
    .doc("Copies rows to an array in a stream"),
    runtime(
        ptds!("cudaMemcpy2DFromArray"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(0, Field::Address),
            arg(2, Field::Related),
            arg(5, Field::Width),
            stack(0, Field::Height),
            stack_int(1, Field::CopyKind),
        ],
    )
    .doc("Copies rows from an array"),
    runtime(
        ptsz!("cudaMemcpy2DFromArrayAsync"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(0, Field::Address),
            arg(2, Field::Related),
            arg(5, Field::Width),
            stack(0, Field::Height),
            stack_int(1, Field::CopyKind),
            stack(2, Field::Stream),
        ],
    )
    .doc("Copies rows from an array in a stream"),
    runtime(
        ptds!("cudaMemcpy2DArrayToArray"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(0, Field::Handle),
            arg(3, Field::Related),
            stack(0, Field::Width),
            stack(1, Field::Height),
            stack_int(2, Field::CopyKind),
        ],
    )
    .doc("Copies rows between arrays"),
    runtime(
        ptds!("cudaMemcpyToArray"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(0, Field::Handle),
            arg(3, Field::Source),
            arg(4, Field::Size),
            int(5, Field::CopyKind),
        ],
    )
    .doc("Copies to an array"),
    runtime(
        ptsz!("cudaMemcpyToArrayAsync"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(0, Field::Handle),
            arg(3, Field::Source),
            arg(4, Field::Size),
            int(5, Field::CopyKind),
            stack(0, Field::Stream),
        ],
    )
    .doc("Copies to an array in a stream"),
    runtime(
        ptds!("cudaMemcpyFromArray"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(0, Field::Address),
            arg(1, Field::Related),
            arg(4, Field::Size),
            int(5, Field::CopyKind),
        ],
    )
    .doc("Copies from an array"),
    runtime(
        ptsz!("cudaMemcpyFromArrayAsync"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(0, Field::Address),
            arg(1, Field::Related),
            arg(4, Field::Size),
            int(5, Field::CopyKind),
            stack(0, Field::Stream),
        ],
    )
    .doc("Copies from an array in a stream"),
    runtime(
        ptds!("cudaMemcpyArrayToArray"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(0, Field::Handle),
            arg(3, Field::Related),
            stack(0, Field::Size),
            stack_int(1, Field::CopyKind),
        ],
    )
    .doc("Copies between arrays"),
    runtime(
        ptds!("cudaMemcpy3D"),
        Family::Copy,
        Effect::Copy,
        &[
            behind(0, 96, Field::Address),
            behind(0, 32, Field::Source),
            behind(0, 128, Field::Width),
            behind(0, 136, Field::Height),
            behind(0, 144, Field::Depth),
            behind_int(0, 152, Field::CopyKind),
            behind(0, 64, Field::DestinationArray),
            behind(0, 0, Field::SourceArray),
        ],
    )
    .doc("Copies rows and layers"),
    runtime(
        ptsz!("cudaMemcpy3DAsync"),
        Family::Copy,
        Effect::Copy,
        &[
            behind(0, 96, Field::Address),
            behind(0, 32, Field::Source),
            behind(0, 128, Field::Width),
            behind(0, 136, Field::Height),
            behind(0, 144, Field::Depth),
            behind_int(0, 152, Field::CopyKind),
            behind(0, 64, Field::DestinationArray),
            behind(0, 0, Field::SourceArray),
            arg(1, Field::Stream),
        ],
    )
    .doc("Copies rows and layers in a stream"),
    runtime(
        ptds!("cudaMemcpy3DPeer"),
        Family::Copy,
        Effect::Copy,
        &[
            behind(0, 104, Field::Address),
            behind(0, 32, Field::Source),
            behind(0, 144, Field::Width),
            behind(0, 152, Field::Height),
            behind(0, 160, Field::Depth),
            behind(0, 72, Field::DestinationArray),
            behind(0, 0, Field::SourceArray),
            behind_int(0, 136, Field::Device),
            behind_int(0, 64, Field::SourceDevice),
        ],
    )
    .doc("Copies rows and layers between devices"),
    runtime(
        ptsz!("cudaMemcpy3DPeerAsync"),
        Family::Copy,
        Effect::Copy,
        &[
            behind(0, 104, Field::Address),
            behind(0, 32, Field::Source),
            behind(0, 144, Field::Width),
            behind(0, 152, Field::Height),
            behind(0, 160, Field::Depth),
            behind(0, 72, Field::DestinationArray),
            behind(0, 0, Field::SourceArray),
            behind_int(0, 136, Field::Device),
            behind_int(0, 64, Field::SourceDevice),
            arg(1, Field::Stream),
        ],
    )
    .doc("Copies rows and layers between devices in a stream"),
    runtime(
        ptds!("cudaMemcpyToSymbol"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(0, Field::Handle),
            arg(1, Field::Source),
            arg(2, Field::Size),
            arg(3, Field::Offset),
            int(4, Field::CopyKind),
        ],
    )
    .doc("Copies to a variable of the device"),
    runtime(
        ptsz!("cudaMemcpyToSymbolAsync"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(0, Field::Handle),
            arg(1, Field::Source),
            arg(2, Field::Size),
            arg(3, Field::Offset),
            int(4, Field::CopyKind),
            arg(5, Field::Stream),
        ],
    )
    .doc("Copies to a variable of the device in a stream"),
    runtime(
        ptds!("cudaMemcpyFromSymbol"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(0, Field::Address),
            arg(1, Field::Related),
            arg(2, Field::Size),
            arg(3, Field::Offset),
            int(4, Field::CopyKind),
        ],
    )
    .doc("Copies from a variable of the device"),
    runtime(
        ptsz!("cudaMemcpyFromSymbolAsync"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(0, Field::Address),
            arg(1, Field::Related),
            arg(2, Field::Size),
            arg(3, Field::Offset),
            int(4, Field::CopyKind),
            arg(5, Field::Stream),
        ],
    )
    .doc("Copies from a variable of the device in a stream"),
    runtime(
        ptsz!("cudaMemcpyBatchAsync"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(2, Field::Size),
            arg(3, Field::Count),
            stack(1, Field::Stream),
        ],
    )
    .shape(Shape::CopyBatch)
    .before_13(&[
        arg(2, Field::Size),
        arg(3, Field::Count),
        stack(2, Field::Stream),
    ])
    .since(12080)
    .doc("Copies many blocks in a stream"),
    runtime(
        ptsz!("cudaMemcpy3DBatchAsync"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(1, Field::Size),
            arg(0, Field::Count),
            arg(3, Field::Stream),
        ],
    )
    .shape(Shape::CopyBatch3D)
    .before_13(&[
        arg(1, Field::Size),
        arg(0, Field::Count),
        arg(4, Field::Stream),
    ])
    .since(12080)
    .doc("Copies many blocks of rows and layers in a stream"),
    runtime(
        ptsz!("cudaMemcpyWithAttributesAsync"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(0, Field::Address),
            arg(1, Field::Source),
            arg(2, Field::Size),
            constant(4, Field::CopyKind),
            arg(4, Field::Stream),
        ],
    )
    .since(13040)
    .doc("Copies in a stream, with hints"),
    runtime(
        ptsz!("cudaMemcpy3DWithAttributesAsync"),
        Family::Copy,
        Effect::Copy,
        &[
            behind(0, 80, Field::Width),
            behind(0, 88, Field::Height),
            behind(0, 96, Field::Depth),
            constant(4, Field::CopyKind),
            arg(2, Field::Stream),
        ],
    )
    .since(13040)
    .doc("Copies rows and layers in a stream, with hints"),
];
