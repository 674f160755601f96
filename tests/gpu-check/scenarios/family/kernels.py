"""Device code and launches. The kernel counts its own threads, on the GPU: the truth of truths."""

import ctypes
import os
import tempfile

from .calls import pointer, to
from .structures import Dim3, DriverLaunchConfiguration, LaunchConfiguration

NAME = "cudasnoop_count_up"
# Adds 1 to the counter, for each thread.
PTX = f"""
.version 7.0
.target sm_75
.address_size 64
.visible .entry {NAME}(.param .u64 counter)
{{
    .reg .b32 %r<2>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [counter];
    cvta.to.global.u64 %rd2, %rd1;
    atom.global.add.u32 %r1, [%rd2], 1;
    ret;
}}
""".encode("ascii")


class Kernel:
    """The kernel by its driver and its runtime handle, its counter, and every way to launch it."""

    def __init__(self, calls):
        self.calls = calls
        self.module, self.function, self.library, self.kernel = (pointer() for _ in range(4))
        calls.must("cuModuleLoadData", to(self.module), PTX, handle=self.module)
        calls.must("cuModuleGetFunction", to(self.function), self.module, NAME.encode(), handle=self.function,
                   related=self.module.value)
        result = calls("cudaLibraryLoadData", to(self.library), PTX, 0, 0, 0, 0, 0, 0, handle=self.library)
        if result == 0:
            calls("cudaLibraryGetKernel", to(self.kernel), self.library, NAME.encode(), handle=self.kernel,
                  related=self.library.value)
        self.counter = pointer()
        calls.must("cudaMalloc", to(self.counter), 4, address=self.counter, size=4)
        calls("cudaMemset", self.counter, 0, 4, address=self.counter.value, size=4)
        # For what else a graph does.
        self.spare = pointer()
        calls.must("cudaMalloc", to(self.spare), 4096, address=self.spare, size=4096)
        self.parameter = ctypes.c_void_p(self.counter.value)
        self.arguments = (ctypes.c_void_p * 1)(ctypes.addressof(self.parameter))

    def _told(self, handle, stream, grid, block, shared, captured):
        return {
            "handle": handle, "stream": stream.value or 0, "shared_memory": shared, "captured": captured,
            **{f"grid_{axis}": size for axis, size in zip("xyz", grid)},
            **{f"block_{axis}": size for axis, size in zip("xyz", block)},
        }

    def by_driver(self, stream, grid=(2, 1, 1), block=(32, 1, 1), shared=0, captured=False, cooperative=False):
        api = "cuLaunchCooperativeKernel" if cooperative else "cuLaunchKernel"
        # The cooperative one has no place for options at its end.
        end = () if cooperative else (0,)
        self.calls(api, self.function, *grid, *block, shared, stream, self.arguments, *end,
                   **self._told(self.function.value, stream, grid, block, shared, captured))

    def by_driver_extended(self, stream, grid=(1, 3, 1), block=(4, 2, 1), shared=64, captured=False):
        configuration = DriverLaunchConfiguration(Dim3(*grid), Dim3(*block), shared, stream.value, None, 0)
        self.calls("cuLaunchKernelEx", to(configuration), self.function, self.arguments, 0,
                   **self._told(self.function.value, stream, grid, block, shared, captured))

    def by_runtime(self, stream, grid=(3, 2, 1), block=(8, 1, 2), shared=128, captured=False, cooperative=False):
        api = "cudaLaunchCooperativeKernel" if cooperative else "cudaLaunchKernel"
        if self.kernel.value:
            self.calls(api, self.kernel, Dim3(*grid), Dim3(*block), self.arguments, shared, stream,
                       **self._told(self.kernel.value, stream, grid, block, shared, captured))

    def by_runtime_extended(self, stream, grid=(1, 1, 5), block=(16, 1, 1), shared=0, captured=False):
        configuration = LaunchConfiguration(Dim3(*grid), Dim3(*block), shared, stream.value, None, 0)
        if self.kernel.value:
            self.calls("cudaLaunchKernelExC", to(configuration), self.kernel, self.arguments,
                       **self._told(self.kernel.value, stream, grid, block, shared, captured))

    def every_way(self, stream, captured=False):
        self.by_driver(stream, captured=captured)
        self.by_driver_extended(stream, captured=captured)
        self.by_runtime(stream, captured=captured)
        self.by_runtime_extended(stream, captured=captured)

    def threads(self):
        """How many threads have run, by the GPU's own count."""
        count = ctypes.c_uint32()
        self.calls("cudaDeviceSynchronize")
        self.calls("cuMemcpyDtoH_v2", to(count), self.counter, 4, address=ctypes.addressof(count),
                   source=self.counter.value, size=4, copy_kind=2)
        return count.value

    def close(self):
        for block in (self.counter, self.spare):
            self.calls("cudaFree", block, address=block.value)
        if self.library.value:
            self.calls("cudaLibraryUnload", self.library, handle=self.library.value)
        self.calls("cuModuleUnload", self.module, handle=self.module.value)


def launches(calls, kernel):
    stream = calls.stream()
    for _ in range(7):
        kernel.every_way(stream)
    cooperative = calls.attribute(95)
    for _ in range(3):
        kernel.by_driver(stream, cooperative=True)
        kernel.by_runtime(stream, cooperative=True)
    calls.feature("cooperative launches", cooperative, 0 if cooperative else None)
    # The default stream, too.
    kernel.by_driver(ctypes.c_void_p(0))
    host_functions(calls, stream)
    waits(calls, stream)
    calls.plain("cudaStreamDestroy", stream)


ran = []


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def host_function(_):
    ran.append(None)


HOST_FUNCTION = ctypes.cast(host_function, ctypes.c_void_p)


def host_functions(calls, stream, captured=False):
    for api in ("cudaLaunchHostFunc", "cuLaunchHostFunc"):
        calls(api, stream, HOST_FUNCTION, 0, stream=stream.value, handle=HOST_FUNCTION.value, captured=captured)


def waits(calls, stream):
    """Every wait; events that are recorded outside of a capture have no row."""
    event = calls.event()
    for record, wait, stream_wait in (
        ("cudaEventRecord", "cudaEventSynchronize", "cudaStreamWaitEvent"),
        ("cuEventRecord", "cuEventSynchronize", "cuStreamWaitEvent"),
    ):
        calls(record, event, stream, recorded=False)
        calls(wait, event, handle=event.value)
        calls(stream_wait, stream, event, 0, stream=stream.value, handle=event.value)
    calls("cudaStreamSynchronize", stream, stream=stream.value)
    calls("cuStreamSynchronize", stream, stream=stream.value)
    calls("cudaDeviceSynchronize")
    calls("cuCtxSynchronize")
    calls.plain("cudaEventDestroy", event)


def modules(calls):
    """Every way to load device code and to look into it."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "count.ptx")
        with open(path, "wb") as file:
            file.write(PTX)
        for load, source, options in (
            ("cuModuleLoad", path.encode(), ()), ("cuModuleLoadData", PTX, ()), ("cuModuleLoadDataEx", PTX, (0, 0, 0)),
        ):
            module, function, listed, name = pointer(), pointer(), (ctypes.c_void_p * 1)(), ctypes.c_char_p()
            if calls(load, to(module), source, *options, handle=module) != 0:
                continue
            calls("cuModuleGetFunction", to(function), module, NAME.encode(), handle=function, related=module.value)
            calls("cuModuleGetFunction", to(pointer()), module, b"no_such_kernel", expect=(500,), handle=pointer(),
                  related=module.value)
            calls("cuModuleEnumerateFunctions", listed, 1, module, related=module.value, count=1)
            calls("cuFuncGetName", to(name), function, handle=function.value)
            calls("cuModuleUnload", module, handle=module.value)
        for load, source in (("cuLibraryLoadFromFile", path.encode()), ("cuLibraryLoadData", PTX)):
            library, kernel, function, module = (pointer() for _ in range(4))
            listed, name = (ctypes.c_void_p * 1)(), ctypes.c_char_p()
            if calls(load, to(library), source, 0, 0, 0, 0, 0, 0, handle=library) != 0:
                continue
            calls("cuLibraryGetKernel", to(kernel), library, NAME.encode(), handle=kernel, related=library.value)
            calls("cuLibraryEnumerateKernels", listed, 1, library, related=library.value, count=1)
            calls("cuKernelGetName", to(name), kernel, handle=kernel.value)
            calls("cuKernelGetFunction", to(function), kernel)
            calls("cuLibraryGetModule", to(module), library, handle=module, related=library.value)
            calls("cuLibraryUnload", library, handle=library.value)
        library, listed = pointer(), (ctypes.c_void_p * 1)()
        if calls("cudaLibraryLoadFromFile", to(library), path.encode(), 0, 0, 0, 0, 0, 0, handle=library) == 0:
            calls("cudaLibraryEnumerateKernels", listed, 1, library, related=library.value, count=1)
            calls("cudaLibraryUnload", library, handle=library.value)
