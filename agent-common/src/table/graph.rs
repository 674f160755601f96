//! CUDA graphs, and the capture of streams into them.

use super::{driver, ptsz, runtime};
use crate::{
    api::{Api, Effect, Family, Probe, Shape},
    value::{Field, arg, behind, int, out, out_at},
};

pub(super) const ROWS: [Api; 33] = [
    runtime(
        ptsz!("cudaStreamBeginCapture"),
        Family::Graph,
        Effect::CaptureBegin,
        &[arg(0, Field::Stream), int(1, Field::Option)],
    )
    .core()
    .doc("Begins to capture a stream into a graph"),
    runtime(
        ptsz!("cudaStreamBeginCaptureToGraph"),
        Family::Graph,
        Effect::CaptureBegin,
        &[
            arg(0, Field::Stream),
            arg(1, Field::Related),
            int(5, Field::Option),
        ],
    )
    .since(12030)
    .doc("Begins to capture a stream into a graph that is there already"),
    runtime(
        ptsz!("cudaStreamEndCapture"),
        Family::Graph,
        Effect::CaptureEnd,
        &[arg(0, Field::Stream), out(1, Field::Handle)],
    )
    .core()
    .doc("Ends the capture of a stream"),
    runtime(
        ptsz!("cudaEventRecord"),
        Family::Graph,
        Effect::EventRecord,
        &[arg(0, Field::Handle), arg(1, Field::Stream)],
    )
    .shape(Shape::InCapture)
    .doc("Records an event in a stream; seen only while a capture is open"),
    runtime(
        ptsz!("cudaEventRecordWithFlags"),
        Family::Graph,
        Effect::EventRecord,
        &[
            arg(0, Field::Handle),
            arg(1, Field::Stream),
            int(2, Field::Option),
        ],
    )
    .shape(Shape::InCapture)
    .since(11010)
    .doc("Records an event in a stream; seen only while a capture is open"),
    runtime(
        &["cudaGraphInstantiate"],
        Family::Graph,
        Effect::GraphInstantiate,
        &[out(0, Field::Handle), arg(1, Field::Related)],
    )
    .doc("Makes a graph ready to launch"),
    runtime(
        &["cudaGraphInstantiateWithFlags"],
        Family::Graph,
        Effect::GraphInstantiate,
        &[
            out(0, Field::Handle),
            arg(1, Field::Related),
            arg(2, Field::Option),
        ],
    )
    .since(11040)
    .doc("Makes a graph ready to launch"),
    runtime(
        ptsz!("cudaGraphInstantiateWithParams"),
        Family::Graph,
        Effect::GraphInstantiate,
        &[out(0, Field::Handle), arg(1, Field::Related)],
    )
    .since(12000)
    .doc("Makes a graph ready to launch"),
    runtime(
        ptsz!("cudaGraphLaunch"),
        Family::Graph,
        Effect::GraphLaunch,
        &[arg(0, Field::Handle), arg(1, Field::Stream)],
    )
    .core()
    .doc("Launches a graph; the kernels inside it make no calls of their own"),
    runtime(
        ptsz!("cudaGraphUpload"),
        Family::Graph,
        Effect::GraphUpload,
        &[arg(0, Field::Handle), arg(1, Field::Stream)],
    )
    .doc("Moves a graph to the device ahead of its launch"),
    runtime(
        &["cudaGraphExecUpdate"],
        Family::Graph,
        Effect::GraphUpdate,
        &[arg(0, Field::Handle), arg(1, Field::Related)],
    )
    .doc("Changes a ready graph"),
    runtime(
        &["cudaGraphDestroy"],
        Family::Graph,
        Effect::GraphDestroy,
        &[arg(0, Field::Handle)],
    )
    .doc("Ends a graph"),
    runtime(
        &["cudaGraphExecDestroy"],
        Family::Graph,
        Effect::GraphExecDestroy,
        &[arg(0, Field::Handle)],
    )
    .probe(Probe::EntryAndReturn)
    .doc("Ends a ready graph and frees what it holds"),
    runtime(
        &["cudaGraphGetNodes"],
        Family::Graph,
        Effect::GraphNodes,
        &[arg(0, Field::Handle), out(2, Field::Count)],
    )
    .doc("Asks for the nodes of a graph: how many it has"),
    runtime(
        &["cudaGraphAddMemAllocNode"],
        Family::Graph,
        Effect::GraphAlloc,
        &[
            out_at(4, 112, Field::Address),
            behind(4, 104, Field::Size),
            arg(1, Field::Related),
        ],
    )
    .since(11040)
    .doc("Makes an allocation part of a graph"),
    runtime(
        &["cudaGraphAddMemFreeNode"],
        Family::Graph,
        Effect::GraphFree,
        &[arg(4, Field::Address), arg(1, Field::Related)],
    )
    .since(11040)
    .doc("Makes a free part of a graph"),
    driver(
        ptsz!("cuStreamBeginCapture_v2"),
        Family::Graph,
        Effect::CaptureBegin,
        &[arg(0, Field::Stream), int(1, Field::Option)],
    )
    .core()
    .doc("Begins to capture a stream into a graph"),
    driver(
        ptsz!("cuStreamBeginCaptureToGraph"),
        Family::Graph,
        Effect::CaptureBegin,
        &[
            arg(0, Field::Stream),
            arg(1, Field::Related),
            int(5, Field::Option),
        ],
    )
    .since(12030)
    .doc("Begins to capture a stream into a graph that is there already"),
    driver(
        ptsz!("cuStreamEndCapture"),
        Family::Graph,
        Effect::CaptureEnd,
        &[arg(0, Field::Stream), out(1, Field::Handle)],
    )
    .core()
    .doc("Ends the capture of a stream"),
    driver(
        ptsz!("cuEventRecord"),
        Family::Graph,
        Effect::EventRecord,
        &[arg(0, Field::Handle), arg(1, Field::Stream)],
    )
    .shape(Shape::InCapture)
    .doc("Records an event in a stream; seen only while a capture is open"),
    driver(
        ptsz!("cuEventRecordWithFlags"),
        Family::Graph,
        Effect::EventRecord,
        &[
            arg(0, Field::Handle),
            arg(1, Field::Stream),
            int(2, Field::Option),
        ],
    )
    .shape(Shape::InCapture)
    .since(11010)
    .doc("Records an event in a stream; seen only while a capture is open"),
    driver(
        &["cuGraphInstantiate_v2"],
        Family::Graph,
        Effect::GraphInstantiate,
        &[out(0, Field::Handle), arg(1, Field::Related)],
    )
    .doc("Makes a graph ready to launch"),
    driver(
        &["cuGraphInstantiateWithFlags"],
        Family::Graph,
        Effect::GraphInstantiate,
        &[
            out(0, Field::Handle),
            arg(1, Field::Related),
            arg(2, Field::Option),
        ],
    )
    .since(11040)
    .doc("Makes a graph ready to launch"),
    driver(
        ptsz!("cuGraphInstantiateWithParams"),
        Family::Graph,
        Effect::GraphInstantiate,
        &[out(0, Field::Handle), arg(1, Field::Related)],
    )
    .since(12000)
    .doc("Makes a graph ready to launch"),
    driver(
        ptsz!("cuGraphLaunch"),
        Family::Graph,
        Effect::GraphLaunch,
        &[arg(0, Field::Handle), arg(1, Field::Stream)],
    )
    .core()
    .doc("Launches a graph; the kernels inside it make no calls of their own"),
    driver(
        ptsz!("cuGraphUpload"),
        Family::Graph,
        Effect::GraphUpload,
        &[arg(0, Field::Handle), arg(1, Field::Stream)],
    )
    .doc("Moves a graph to the device ahead of its launch"),
    driver(
        &["cuGraphExecUpdate_v2"],
        Family::Graph,
        Effect::GraphUpdate,
        &[arg(0, Field::Handle), arg(1, Field::Related)],
    )
    .since(12000)
    .doc("Changes a ready graph"),
    driver(
        &["cuGraphExecUpdate"],
        Family::Graph,
        Effect::GraphUpdate,
        &[arg(0, Field::Handle), arg(1, Field::Related)],
    )
    .doc("Changes a ready graph, as CUDA 11 does"),
    driver(
        &["cuGraphDestroy"],
        Family::Graph,
        Effect::GraphDestroy,
        &[arg(0, Field::Handle)],
    )
    .doc("Ends a graph"),
    driver(
        &["cuGraphExecDestroy"],
        Family::Graph,
        Effect::GraphExecDestroy,
        &[arg(0, Field::Handle)],
    )
    .probe(Probe::EntryAndReturn)
    .doc("Ends a ready graph and frees what it holds"),
    driver(
        &["cuGraphGetNodes"],
        Family::Graph,
        Effect::GraphNodes,
        &[arg(0, Field::Handle), out(2, Field::Count)],
    )
    .doc("Asks for the nodes of a graph: how many it has"),
    driver(
        &["cuGraphAddMemAllocNode"],
        Family::Graph,
        Effect::GraphAlloc,
        &[
            out_at(4, 112, Field::Address),
            behind(4, 104, Field::Size),
            arg(1, Field::Related),
        ],
    )
    .since(11040)
    .doc("Makes an allocation part of a graph"),
    driver(
        &["cuGraphAddMemFreeNode"],
        Family::Graph,
        Effect::GraphFree,
        &[arg(4, Field::Address), arg(1, Field::Related)],
    )
    .since(11040)
    .doc("Makes a free part of a graph"),
];
