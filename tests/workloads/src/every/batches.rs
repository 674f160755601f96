//! Many copies in one call. The bytes are the sum of up to 1,024 sizes; a longer batch is
//! recorded without them.

use super::{
    arguments::{Arguments, Memory, registers},
    expected::nothing,
    layers::{Layer, TWINS, Twin},
    memory,
    session::Session,
};

/// Lengths of batches: the third one is the longest whose bytes are known.
const COUNTS: [u64; 4] = [1, 3, 1024, 1025];
const LONGEST: u64 = 1024;

/// How a function takes the index of a copy that failed: CUDA 12 stores it, 13 does not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Twelve,
    Thirteen,
}

pub(super) fn call(session: &mut Session, layer: Layer) {
    let block = memory::block(session, layer, 0x10_0000);
    let host = Memory::from((0..256).map(|_| 0));
    let runtime_form = if session.major() == 12 {
        Form::Twelve
    } else {
        Form::Thirteen
    };
    let functions: &[(&str, &str, Form)] = match layer {
        Layer::Runtime => &[(
            "cudaMemcpyBatchAsync",
            "cudaMemcpy3DBatchAsync",
            runtime_form,
        )],
        Layer::Driver => &[
            ("cuMemcpyBatchAsync", "cuMemcpy3DBatchAsync", Form::Twelve),
            (
                "cuMemcpyBatchAsync_v2",
                "cuMemcpy3DBatchAsync_v2",
                Form::Thirteen,
            ),
        ],
    };
    for (plain, layered, form) in functions {
        for twin in TWINS {
            for count in COUNTS {
                copies(
                    session,
                    &twin.ptsz(plain),
                    *form,
                    count,
                    [block, host.at()],
                    twin,
                );
                copies_3d(
                    session,
                    &twin.ptsz(layered),
                    *form,
                    count,
                    [block, host.at()],
                    twin,
                );
            }
        }
    }
    memory::free(session, layer, block);
}

fn stream(twin: Twin) -> u64 {
    0x9001 + twin.extra()
}

fn copies(
    session: &mut Session,
    symbol: &str,
    form: Form,
    count: u64,
    [block, host]: [u64; 2],
    twin: Twin,
) {
    let to = Memory::from((0..count).map(|copy| block + 0x100 * copy));
    let from = Memory::from((0..count).map(|copy| host + copy % 64));
    let sizes = Memory::from(1..=count);
    let (attributes, indices, failed) = (Memory::of([0; 4]), Memory::of([0]), Memory::of([0]));
    let arguments = registers([
        to.at(),
        from.at(),
        sizes.at(),
        count,
        attributes.at(),
        indices.at(),
    ]);
    let arguments: Arguments = match form {
        Form::Twelve => arguments.stack([1, failed.at(), stream(twin)]),
        Form::Thirteen => arguments.stack([1, stream(twin)]),
    };
    let expected = nothing().count(count);
    let expected = if count > LONGEST {
        // The stream stands on the stack: it is as unknown as the bytes.
        expected.args_unread()
    } else {
        expected.size(sizes.words().sum()).stream(stream(twin))
    };
    session.call(symbol, &arguments, expected);
}

/// `cudaMemcpy3DBatchOp`: 14 words.
pub(super) fn layers(to: u64, from: u64, extent: [u64; 3]) -> Vec<u64> {
    // Kind (a pointer), pointer, row length, layer height, location.
    let end = |pointer| [1, pointer, 0, 0, 0];
    [&end(from)[..], &end(to), &extent, &[0]].concat()
}

fn copies_3d(
    session: &mut Session,
    symbol: &str,
    form: Form,
    count: u64,
    [block, host]: [u64; 2],
    twin: Twin,
) {
    let extent = |copy| [copy % 50 + 1, 3, 2];
    let copied = Memory::from((0..count).flat_map(|copy| layers(block, host, extent(copy))));
    let bytes: u64 = (0..count)
        .map(|copy| extent(copy).iter().product::<u64>())
        .sum();
    let failed = Memory::of([0]);
    let arguments = match form {
        Form::Twelve => registers([count, copied.at(), failed.at(), 0, stream(twin)]),
        Form::Thirteen => registers([count, copied.at(), 0, stream(twin)]),
    };
    let expected = nothing().count(count).stream(stream(twin));
    let expected = if count > LONGEST {
        expected.args_unread()
    } else {
        expected.size(bytes)
    };
    session.call(symbol, &arguments, expected);
    let nothing_to_do = match form {
        Form::Twelve => registers([0, copied.at(), failed.at(), 0, stream(twin)]),
        Form::Thirteen => registers([0, copied.at(), 0, stream(twin)]),
    };
    session.call_for(
        symbol,
        1,
        &nothing_to_do,
        nothing().count(0).size(0).stream(stream(twin)),
    );
}
