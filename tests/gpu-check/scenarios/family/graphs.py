"""Stream capture, graphs, their launches and their end."""

import ctypes

from .calls import pointer, to
from .kernels import host_functions
from .structures import DEVICE, AllocationNode, InstantiateParameters, Location, PoolProperties

MIB = 1 << 20
GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2  # cudaStreamCaptureMode

RUNTIME = {
    "begin": "cudaStreamBeginCapture", "begin to": "cudaStreamBeginCaptureToGraph", "end": "cudaStreamEndCapture",
    "record": "cudaEventRecord", "record with": "cudaEventRecordWithFlags", "wait": "cudaStreamWaitEvent",
    "set": "cudaMemsetAsync", "nodes": "cudaGraphGetNodes", "with flags": "cudaGraphInstantiateWithFlags",
    "with parameters": "cudaGraphInstantiateWithParams", "upload": "cudaGraphUpload", "launch": "cudaGraphLaunch",
    "update": "cudaGraphExecUpdate", "exec destroy": "cudaGraphExecDestroy", "destroy": "cudaGraphDestroy",
    "alloc": "cudaMallocAsync", "free": "cudaFreeAsync", "add alloc": "cudaGraphAddMemAllocNode",
    "add free": "cudaGraphAddMemFreeNode", "trim": "cudaDeviceGraphMemTrim", "create": "cudaGraphCreate",
    "synchronize": "cudaStreamSynchronize",
}
DRIVER = {
    "begin": "cuStreamBeginCapture_v2", "begin to": "cuStreamBeginCaptureToGraph", "end": "cuStreamEndCapture",
    "record": "cuEventRecord", "record with": "cuEventRecordWithFlags", "wait": "cuStreamWaitEvent",
    "set": "cuMemsetD8Async", "nodes": "cuGraphGetNodes", "with flags": "cuGraphInstantiateWithFlags",
    "with parameters": "cuGraphInstantiateWithParams", "upload": "cuGraphUpload", "launch": "cuGraphLaunch",
    "update": "cuGraphExecUpdate_v2", "exec destroy": "cuGraphExecDestroy", "destroy": "cuGraphDestroy",
    "alloc": "cuMemAllocAsync", "free": "cuMemFreeAsync", "add alloc": "cuGraphAddMemAllocNode",
    "add free": "cuGraphAddMemFreeNode", "trim": "cuDeviceGraphMemTrim", "create": "cuGraphCreate",
    "synchronize": "cuStreamSynchronize",
}


def graphs(calls, kernel):
    for names, replays in ((RUNTIME, 9), (DRIVER, 5)):
        Capture(calls, kernel, names).run(replays)
        allocation_nodes(calls, names)


class Capture:
    """One graph of work in two streams, the second of which joins the capture by an event."""

    def __init__(self, calls, kernel, names):
        self.calls, self.kernel, self.names = calls, kernel, names
        self.first, self.second, self.outside = calls.stream(), calls.stream(), calls.stream()
        self.events = [calls.event() for _ in range(2)]
        self.graph = pointer()

    def run(self, replays):
        calls, names = self.calls, self.names
        self.capture()
        count, execs = ctypes.c_size_t(), []
        calls(names["nodes"], self.graph, 0, to(count), handle=self.graph.value, count=count)
        for make in (self.instantiate, self.instantiate_with_flags, self.instantiate_with_parameters):
            exec_ = pointer()
            if make(exec_) == 0:
                execs.append(exec_)
        for number, exec_ in enumerate(execs):
            told = {"handle": exec_.value, "stream": self.outside.value}
            calls(names["upload"], exec_, self.outside, **told)
            for _ in range(replays + number):
                calls(names["launch"], exec_, self.outside, **told)
            calls(names["synchronize"], self.outside, stream=self.outside.value)
        if execs:
            information = (ctypes.c_uint64 * 8)()
            calls(names["update"], execs[0], self.graph, information, handle=execs[0].value, related=self.graph.value)
            calls(names["launch"], execs[0], self.outside, handle=execs[0].value, stream=self.outside.value)
            calls(names["synchronize"], self.outside, stream=self.outside.value)
        for exec_ in execs:
            calls(names["exec destroy"], exec_, handle=exec_.value)
        calls(names["destroy"], self.graph, handle=self.graph.value)
        self.capture_to_graph()
        self.abandoned()
        for stream in (self.first, self.second, self.outside):
            calls.plain("cudaStreamDestroy", stream)
        for event in self.events:
            calls.plain("cudaEventDestroy", event)

    def capture(self):
        calls, kernel, names = self.calls, self.kernel, self.names
        first, second = self.first, self.second
        there, back = self.events
        calls.must(names["begin"], first, RELAXED, stream=first.value, option=RELAXED)
        kernel.every_way(first, captured=True)
        # Not of the capture, though it is open.
        kernel.every_way(self.outside)
        calls(names["record"], there, first, handle=there.value, stream=first.value)
        calls(names["wait"], second, there, 0, stream=second.value, handle=there.value)
        for _ in range(3):
            kernel.by_driver(second, captured=True)
            kernel.by_runtime(second, captured=True)
        counter = kernel.spare
        calls(names["set"], counter, 0, 64, second, address=counter.value, size=64, stream=second.value, captured=True)
        calls("cudaMemcpyAsync", counter.value + 64, counter, 64, 3, second, address=counter.value + 64,
              source=counter.value, size=64, copy_kind=3, stream=second.value, captured=True)
        host_functions(calls, second, captured=True)
        calls(names["record with"], back, second, 0, handle=back.value, stream=second.value, option=0)
        calls(names["wait"], first, back, 0, stream=first.value, handle=back.value)
        kernel.by_driver(first, captured=True)
        calls.must(names["end"], first, to(self.graph), stream=first.value, handle=self.graph)
        # The capture is over: both streams run again.
        kernel.by_driver(first)
        kernel.by_driver(second)

    def instantiate(self, exec_):
        told = {"handle": exec_, "related": self.graph.value}
        if self.names is RUNTIME:
            return self.calls("cudaGraphInstantiate", to(exec_), self.graph, 0, **told)
        return self.calls("cuGraphInstantiate_v2", to(exec_), self.graph, 0, 0, 0, **told)

    def instantiate_with_flags(self, exec_):
        told = {"handle": exec_, "related": self.graph.value}
        return self.calls(self.names["with flags"], to(exec_), self.graph, 0, option=0, **told)

    def instantiate_with_parameters(self, exec_):
        parameters = InstantiateParameters(0, None, None, 0)
        told = {"handle": exec_, "related": self.graph.value}
        return self.calls(self.names["with parameters"], to(exec_), self.graph, to(parameters), **told)

    def capture_to_graph(self):
        """A capture into a graph that is there already, which has one more launch then."""
        calls, names, first, graph, ended, exec_ = self.calls, self.names, self.first, pointer(), pointer(), pointer()
        calls.plain(names["create"], to(graph), 0)
        told = {"stream": first.value, "related": graph.value, "option": THREAD_LOCAL}
        if calls(names["begin to"], first, graph, 0, 0, 0, THREAD_LOCAL, **told) != 0:
            return
        self.kernel.by_driver(first, captured=True)
        calls(names["end"], first, to(ended), stream=first.value, handle=ended)
        if calls(names["with flags"], to(exec_), graph, 0, handle=exec_, related=graph.value, option=0) == 0:
            calls(names["launch"], exec_, first, handle=exec_.value, stream=first.value)
            calls(names["synchronize"], first, stream=first.value)
            calls(names["exec destroy"], exec_, handle=exec_.value)
        calls(names["destroy"], graph, handle=graph.value)

    def abandoned(self):
        """A wait spoils the capture; its end says so, and nothing of it ever runs."""
        calls, names, first, graph = self.calls, self.names, self.first, pointer()
        calls.must(names["begin"], first, THREAD_LOCAL, stream=first.value, option=THREAD_LOCAL)
        self.kernel.by_driver(first, captured=True)
        calls(names["synchronize"], first, expect=(900,), stream=first.value)
        calls(names["end"], first, to(graph), expect=(901,), stream=first.value, handle=graph)
        self.kernel.by_driver(first)


def allocation_nodes(calls, names):
    """Memory that belongs to a graph: by a capture, and node by node."""
    stream, graph, exec_, block = calls.stream(), pointer(), pointer(), pointer()
    in_stream = {"stream": stream.value, "captured": True}
    calls.must(names["begin"], stream, THREAD_LOCAL, stream=stream.value, option=THREAD_LOCAL)
    calls(names["alloc"], to(block), 2 * MIB, stream, address=block, size=2 * MIB, **in_stream)
    if block.value:
        calls(names["set"], block, 0, 2 * MIB, stream, address=block.value, size=2 * MIB, **in_stream)
        calls(names["free"], block, stream, address=block.value, **in_stream)
    calls.must(names["end"], stream, to(graph), stream=stream.value, handle=graph)
    launch_once(calls, names, graph, exec_, stream)

    node, free_node, graph = pointer(), pointer(), pointer()
    calls.plain(names["create"], to(graph), 0)
    parameters = AllocationNode(pool=PoolProperties(type=1, location=Location(DEVICE, 0)), size=4 * MIB)
    address = lambda: parameters.address
    calls(names["add alloc"], to(node), graph, 0, 0, to(parameters), address=address, size=4 * MIB, related=graph.value)
    before = (ctypes.c_void_p * 1)(node.value)
    calls(names["add free"], to(free_node), graph, before, 1, parameters.address or 0, address=parameters.address or 0,
          related=graph.value)
    launch_once(calls, names, graph, exec_, stream)
    calls(names["trim"], 0, device=0)
    calls.plain("cudaStreamDestroy", stream)


def launch_once(calls, names, graph, exec_, stream):
    count = ctypes.c_size_t()
    calls(names["nodes"], graph, 0, to(count), handle=graph.value, count=count)
    told = {"handle": exec_, "related": graph.value, "option": 0}
    if calls(names["with flags"], to(exec_), graph, 0, **told) == 0:
        calls(names["launch"], exec_, stream, handle=exec_.value, stream=stream.value)
        calls(names["synchronize"], stream, stream=stream.value)
        calls(names["exec destroy"], exec_, handle=exec_.value)
    calls(names["destroy"], graph, handle=graph.value)
