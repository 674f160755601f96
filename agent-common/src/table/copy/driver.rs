//! The driver's copies.

use super::super::{driver, ptds, ptsz};
use crate::{
    api::{Api, Effect, Family, Shape},
    value::{Field, arg, behind, behind_int, constant, copy_end, stack},
};

pub(in super::super) const ROWS: [Api; 30] = [
    driver(
        ptds!("cuMemcpy"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(0, Field::Address),
            arg(1, Field::Source),
            arg(2, Field::Size),
            constant(4, Field::CopyKind),
        ],
    )
    .core()
    .doc("Copies, direction by address"),
    driver(
        ptsz!("cuMemcpyAsync"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(0, Field::Address),
            arg(1, Field::Source),
            arg(2, Field::Size),
            constant(4, Field::CopyKind),
            arg(3, Field::Stream),
        ],
    )
    .core()
    .doc("Copies in a stream, direction by address"),
    driver(
        ptds!("cuMemcpyPeer"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(0, Field::Address),
            arg(2, Field::Source),
            arg(4, Field::Size),
            constant(3, Field::CopyKind),
            arg(1, Field::Context),
            arg(3, Field::SourceContext),
        ],
    )
    .doc("Copies between devices"),
    driver(
        ptsz!("cuMemcpyPeerAsync"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(0, Field::Address),
            arg(2, Field::Source),
            arg(4, Field::Size),
            constant(3, Field::CopyKind),
            arg(5, Field::Stream),
            arg(1, Field::Context),
            arg(3, Field::SourceContext),
        ],
    )
    .doc("Copies between devices in a stream"),
    driver(
        ptds!("cuMemcpyHtoD_v2"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(0, Field::Address),
            arg(1, Field::Source),
            arg(2, Field::Size),
            constant(1, Field::CopyKind),
        ],
    )
    .core()
    .doc("Copies from host to device"),
    driver(
        ptsz!("cuMemcpyHtoDAsync_v2"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(0, Field::Address),
            arg(1, Field::Source),
            arg(2, Field::Size),
            constant(1, Field::CopyKind),
            arg(3, Field::Stream),
        ],
    )
    .core()
    .doc("Copies from host to device in a stream"),
    driver(
        ptds!("cuMemcpyDtoH_v2"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(0, Field::Address),
            arg(1, Field::Source),
            arg(2, Field::Size),
            constant(2, Field::CopyKind),
        ],
    )
    .core()
    .doc("Copies from device to host"),
    driver(
        ptsz!("cuMemcpyDtoHAsync_v2"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(0, Field::Address),
            arg(1, Field::Source),
            arg(2, Field::Size),
            constant(2, Field::CopyKind),
            arg(3, Field::Stream),
        ],
    )
    .core()
    .doc("Copies from device to host in a stream"),
    driver(
        ptds!("cuMemcpyDtoD_v2"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(0, Field::Address),
            arg(1, Field::Source),
            arg(2, Field::Size),
            constant(3, Field::CopyKind),
        ],
    )
    .core()
    .doc("Copies from device to device"),
    driver(
        ptsz!("cuMemcpyDtoDAsync_v2"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(0, Field::Address),
            arg(1, Field::Source),
            arg(2, Field::Size),
            constant(3, Field::CopyKind),
            arg(3, Field::Stream),
        ],
    )
    .core()
    .doc("Copies from device to device in a stream"),
    driver(
        ptds!("cuMemcpyDtoA_v2"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(0, Field::Handle),
            arg(2, Field::Source),
            arg(3, Field::Size),
            constant(3, Field::CopyKind),
        ],
    )
    .doc("Copies from device to array"),
    driver(
        ptds!("cuMemcpyAtoD_v2"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(0, Field::Address),
            arg(1, Field::Related),
            arg(3, Field::Size),
            constant(3, Field::CopyKind),
        ],
    )
    .doc("Copies from array to device"),
    driver(
        ptds!("cuMemcpyHtoA_v2"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(0, Field::Handle),
            arg(2, Field::Source),
            arg(3, Field::Size),
            constant(1, Field::CopyKind),
        ],
    )
    .doc("Copies from host to array"),
    driver(
        ptsz!("cuMemcpyHtoAAsync_v2"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(0, Field::Handle),
            arg(2, Field::Source),
            arg(3, Field::Size),
            constant(1, Field::CopyKind),
            arg(4, Field::Stream),
        ],
    )
    .doc("Copies from host to array in a stream"),
    driver(
        ptds!("cuMemcpyAtoH_v2"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(0, Field::Address),
            arg(1, Field::Related),
            arg(3, Field::Size),
            constant(2, Field::CopyKind),
        ],
    )
    .doc("Copies from array to host"),
    driver(
        ptsz!("cuMemcpyAtoHAsync_v2"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(0, Field::Address),
            arg(1, Field::Related),
            arg(3, Field::Size),
            constant(2, Field::CopyKind),
            arg(4, Field::Stream),
        ],
    )
    .doc("Copies from array to host in a stream"),
    driver(
        ptds!("cuMemcpyAtoA_v2"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(0, Field::Handle),
            arg(2, Field::Related),
            arg(4, Field::Size),
            constant(3, Field::CopyKind),
        ],
    )
    .doc("Copies between arrays"),
    driver(
        ptds!("cuMemcpy2D_v2"),
        Family::Copy,
        Effect::Copy,
        &[
            copy_end(0, 72, Field::Address),
            copy_end(0, 16, Field::Source),
            behind_int(0, 72, Field::DestinationMemory),
            behind_int(0, 16, Field::SourceMemory),
            behind(0, 112, Field::Width),
            behind(0, 120, Field::Height),
        ],
    )
    .doc("Copies rows"),
    driver(
        ptds!("cuMemcpy2DUnaligned_v2"),
        Family::Copy,
        Effect::Copy,
        &[
            copy_end(0, 72, Field::Address),
            copy_end(0, 16, Field::Source),
            behind_int(0, 72, Field::DestinationMemory),
            behind_int(0, 16, Field::SourceMemory),
            behind(0, 112, Field::Width),
            behind(0, 120, Field::Height),
        ],
    )
    .doc("Copies rows of any alignment"),
    driver(
        ptsz!("cuMemcpy2DAsync_v2"),
        Family::Copy,
        Effect::Copy,
        &[
            copy_end(0, 72, Field::Address),
            copy_end(0, 16, Field::Source),
            behind_int(0, 72, Field::DestinationMemory),
            behind_int(0, 16, Field::SourceMemory),
            behind(0, 112, Field::Width),
            behind(0, 120, Field::Height),
            arg(1, Field::Stream),
        ],
    )
    .doc("Copies rows in a stream"),
    driver(
        ptds!("cuMemcpy3D_v2"),
        Family::Copy,
        Effect::Copy,
        &[
            copy_end(0, 120, Field::Address),
            copy_end(0, 32, Field::Source),
            behind_int(0, 120, Field::DestinationMemory),
            behind_int(0, 32, Field::SourceMemory),
            behind(0, 176, Field::Width),
            behind(0, 184, Field::Height),
            behind(0, 192, Field::Depth),
        ],
    )
    .doc("Copies rows and layers"),
    driver(
        ptsz!("cuMemcpy3DAsync_v2"),
        Family::Copy,
        Effect::Copy,
        &[
            copy_end(0, 120, Field::Address),
            copy_end(0, 32, Field::Source),
            behind_int(0, 120, Field::DestinationMemory),
            behind_int(0, 32, Field::SourceMemory),
            behind(0, 176, Field::Width),
            behind(0, 184, Field::Height),
            behind(0, 192, Field::Depth),
            arg(1, Field::Stream),
        ],
    )
    .doc("Copies rows and layers in a stream"),
    driver(
        ptds!("cuMemcpy3DPeer"),
        Family::Copy,
        Effect::Copy,
        &[
            copy_end(0, 120, Field::Address),
            copy_end(0, 32, Field::Source),
            behind_int(0, 120, Field::DestinationMemory),
            behind_int(0, 32, Field::SourceMemory),
            behind(0, 176, Field::Width),
            behind(0, 184, Field::Height),
            behind(0, 192, Field::Depth),
            behind(0, 152, Field::Context),
            behind(0, 64, Field::SourceContext),
        ],
    )
    .doc("Copies rows and layers between devices"),
    driver(
        ptsz!("cuMemcpy3DPeerAsync"),
        Family::Copy,
        Effect::Copy,
        &[
            copy_end(0, 120, Field::Address),
            copy_end(0, 32, Field::Source),
            behind_int(0, 120, Field::DestinationMemory),
            behind_int(0, 32, Field::SourceMemory),
            behind(0, 176, Field::Width),
            behind(0, 184, Field::Height),
            behind(0, 192, Field::Depth),
            behind(0, 152, Field::Context),
            behind(0, 64, Field::SourceContext),
            arg(1, Field::Stream),
        ],
    )
    .doc("Copies rows and layers between devices in a stream"),
    driver(
        ptsz!("cuMemcpyBatchAsync"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(2, Field::Size),
            arg(3, Field::Count),
            stack(2, Field::Stream),
        ],
    )
    .shape(Shape::CopyBatch)
    .since(12080)
    .doc("Copies many blocks in a stream, as CUDA 12 does"),
    driver(
        ptsz!("cuMemcpyBatchAsync_v2"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(2, Field::Size),
            arg(3, Field::Count),
            stack(1, Field::Stream),
        ],
    )
    .shape(Shape::CopyBatch)
    .since(13000)
    .doc("Copies many blocks in a stream"),
    driver(
        ptsz!("cuMemcpy3DBatchAsync"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(1, Field::Size),
            arg(0, Field::Count),
            arg(4, Field::Stream),
        ],
    )
    .shape(Shape::CopyBatch3D)
    .since(12080)
    .doc("Copies many blocks of rows and layers in a stream, as CUDA 12 does"),
    driver(
        ptsz!("cuMemcpy3DBatchAsync_v2"),
        Family::Copy,
        Effect::Copy,
        &[
            arg(1, Field::Size),
            arg(0, Field::Count),
            arg(3, Field::Stream),
        ],
    )
    .shape(Shape::CopyBatch3D)
    .since(13000)
    .doc("Copies many blocks of rows and layers in a stream"),
    driver(
        ptsz!("cuMemcpyWithAttributesAsync"),
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
    .since(13020)
    .doc("Copies in a stream, with hints"),
    driver(
        ptsz!("cuMemcpy3DWithAttributesAsync"),
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
    .since(13020)
    .doc("Copies rows and layers in a stream, with hints"),
];
