"""Makes CUDA calls as a C program would, and keeps of each what the recording should have."""

import ctypes
import glob
import os
import sys

MASK = (1 << 64) - 1
# An answer that the program does not rely on.
ANY = None


class Failed(Exception):
    """A call without which a family cannot go on."""


class Calls:
    """All calls of this process, in order.

    `made`: {api, result, and what was told of the call}; `surprises`: calls whose result was not
    the expected one; `absent`: functions that the library does not export; `features`: what the
    device or driver may lack, with what it says of it; `broken`: families that ended early.
    """

    def __init__(self):
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.runtime = ctypes.CDLL(runtime_path())
        self.made, self.surprises, self.absent, self.features, self.broken = [], [], [], [], []

    def function(self, api):
        return getattr(self.runtime if api.startswith("cuda") else self.driver, api, None)

    def __call__(self, api, *arguments, expect=(0,), **told):
        """Makes a traced call and returns its result, None where the library lacks it.

        What is told as a ctypes object is read once the call has succeeded: an answer. All else
        are arguments, which a failed call has too.
        """
        function = self.function(api)
        if function is None:
            self.absent.append(api)
            return None
        result = function(*map(_passed, arguments))
        if expect is not ANY and result not in expect:
            self.surprises.append({"api": api, "result": result, "expected": list(expect), "number": len(self.made)})
        told = {key: _told(value, result) for key, value in told.items()}
        self.made.append({"api": api, "result": result, **told})
        return result

    def must(self, api, *arguments, **told):
        """A traced call without which the rest makes no sense."""
        result = self(api, *arguments, **told)
        if result != 0:
            raise Failed(f"{api} returned {result}")

    def plain(self, api, *arguments):
        """A call that is not traced."""
        function = self.function(api)
        if function is None:
            raise Failed(f"{api} is not exported")
        result = function(*map(_passed, arguments))
        if result:
            raise Failed(f"{api} returned {result}")

    def attribute(self, number, device=0):
        """A CUdevice_attribute."""
        value = ctypes.c_int()
        self.plain("cuDeviceGetAttribute", ctypes.byref(value), number, device)
        return value.value

    def feature(self, name, supported, result):
        """Something that a device may lack: whether it says that it has it, and what the call returned."""
        self.features.append({"name": name, "supported": bool(supported), "result": result})

    def stream(self):
        """A new stream that does not wait for the default one."""
        stream = ctypes.c_void_p()
        self.plain("cudaStreamCreateWithFlags", ctypes.byref(stream), 1)
        return stream

    def event(self):
        event = ctypes.c_void_p()
        self.plain("cudaEventCreateWithFlags", ctypes.byref(event), 2)
        return event

    def truth(self):
        keys = "made", "surprises", "absent", "features", "broken"
        return {"pid": os.getpid(), **{key: getattr(self, key) for key in keys}}


def runtime_path():
    """libcudart.so.13 of PyTorch's wheel, or whichever the loader finds."""
    for folder in sys.path:
        for pattern in ("nvidia/cu13/lib/libcudart.so.13", "nvidia/*/lib/libcudart.so.13", "torch/lib/libcudart.so.13"):
            if found := sorted(glob.glob(os.path.join(folder, pattern))):
                return found[0]
    return "libcudart.so.13"


def _passed(argument):
    """An argument as the ABI has it: integers of any width in a whole register or stack slot."""
    if isinstance(argument, int):
        return ctypes.c_uint64(argument & MASK)
    if isinstance(argument, bytes):
        return ctypes.c_char_p(argument)
    return argument


def _told(value, result):
    if callable(value):
        return value() if result == 0 else None
    if isinstance(value, ctypes._SimpleCData):
        return (value.value or 0) if result == 0 else None
    return value


def pointer():
    """A place for an address or handle."""
    return ctypes.c_void_p()


def to(value):
    """Where a call puts its answer."""
    return ctypes.byref(value)
