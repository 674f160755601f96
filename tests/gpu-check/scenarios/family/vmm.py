"""Virtual memory management: addresses, physical memory and mappings apart."""

import ctypes
import os

from .calls import ANY, Failed, pointer, to
from .memory import memory_info
from .structures import DEVICE, FD, HOST, HOST_NUMA, READ_WRITE, AccessDescription, AllocationProperties, Location

# CUdevice_attribute.
VMM, FD_HANDLES, NUMA_NODE, NUMA_VMM, HOST_VMM = 102, 103, 134, 141, 145
# More than any device has.
TOO_LARGE = 1 << 43


class Physical:
    """Creates, maps and releases, and knows what it should see."""

    def __init__(self, calls):
        self.calls = calls
        granularity = ctypes.c_size_t()
        properties = self.properties(DEVICE, 0)
        calls.plain("cuMemGetAllocationGranularity", to(granularity), to(properties), 0)
        self.granularity = granularity.value

    @staticmethod
    def properties(location, number, handle_types=FD):
        return AllocationProperties(type=1, handle_types=handle_types, location=Location(location, number))

    def reserve(self, size):
        address = pointer()
        self.calls.must("cuMemAddressReserve", to(address), size, 0, 0, 0, address=address, size=size)
        return address.value

    def create(self, size, location=DEVICE, number=0, handle_types=FD, expect=(0,)):
        handle, properties = ctypes.c_uint64(), self.properties(location, number, handle_types)
        result = self.calls(
            "cuMemCreate", to(handle), size, to(properties), 0, expect=expect,
            handle=handle, size=size, location=location, location_id=number, option=handle_types,
        )
        return handle.value if result == 0 else None, result

    def map(self, address, size, handle, expect=(0,)):
        return self.calls("cuMemMap", address, size, 0, handle, 0, expect=expect, address=address, size=size, offset=0,
                          handle=handle)

    def unmap(self, address, size, expect=(0,)):
        self.calls("cuMemUnmap", address, size, expect=expect, address=address, size=size)

    def release(self, handle, expect=(0,)):
        self.calls("cuMemRelease", handle, expect=expect, handle=handle)

    def allow(self, address, size):
        access = AccessDescription(Location(DEVICE, 0), READ_WRITE)
        self.calls("cuMemSetAccess", address, size, to(access), 1, address=address, size=size, location=DEVICE,
                   location_id=0, option=READ_WRITE, count=1)


def virtual_memory(calls):
    if not calls.attribute(VMM):
        calls.feature("virtual memory management", False, None)
        raise Failed("the device has no virtual memory management")
    physical = Physical(calls)
    unit = physical.granularity
    base = physical.reserve(32 * unit)
    handles, at = [], base
    for units in (1, 4, 10):
        handle, result = physical.create(units * unit)
        if result != 0:
            raise Failed(f"cuMemCreate returned {result}")
        physical.map(at, units * unit, handle)
        handles.append((handle, at, units * unit))
        at += units * unit
    physical.allow(base, at - base)
    calls("cuMemsetD8_v2", base, 1, at - base, address=base, size=at - base)
    memory_info(calls)
    # Far too large; not a multiple of the granularity; mapped already.
    for _ in range(3):
        physical.create(TOO_LARGE, expect=(2,))
    physical.create(unit + 1, expect=(1,))
    physical.map(base, unit, handles[0][0], expect=ANY)

    # A second reference keeps the memory when the first one goes.
    again = ctypes.c_uint64()
    calls("cuMemRetainAllocationHandle", to(again), base, handle=again, address=base)
    physical.release(handles[0][0])
    physical.release(again.value)
    shared_by_descriptor(calls, physical, handles[1], at)
    memory_info(calls)
    # A handle may go before its mapping, or after.
    physical.unmap(*handles[0][1:])
    physical.release(handles[1][0])
    physical.unmap(*handles[1][1:])
    physical.unmap(*handles[2][1:])
    physical.release(handles[2][0])
    # Nothing is mapped there any more: driver 580 calls that a success.
    physical.unmap(base, unit, expect=ANY)
    calls("cuMemAddressFree", base, 32 * unit, address=base, size=32 * unit)
    memory_info(calls)
    on_host(calls, physical)


def shared_by_descriptor(calls, physical, block, free_at):
    """A handle shown as a file descriptor, opened again and mapped a second time."""
    handle, _, size = block
    descriptor, opened = ctypes.c_int(), ctypes.c_uint64()
    result = calls("cuMemExportToShareableHandle", to(descriptor), handle, FD, 0, expect=ANY, handle=handle,
                   related=descriptor, option=FD)
    calls.feature("physical memory as a file descriptor", calls.attribute(FD_HANDLES), result)
    if result != 0:
        return
    number = descriptor.value
    calls("cuMemImportFromShareableHandle", to(opened), number, FD, handle=opened, related=number, option=FD)
    os.close(number)
    if opened.value:
        physical.map(free_at, size, opened.value)
        physical.unmap(free_at, size)
        physical.release(opened.value)


def on_host(calls, physical):
    """Physical memory that is the host's: no bytes of a device."""
    node = max(calls.attribute(NUMA_NODE), 0)
    for name, location, number, attribute in (
        ("physical memory on a host NUMA node", HOST_NUMA, node, NUMA_VMM),
        ("physical memory on the host", HOST, 0, HOST_VMM),
    ):
        size = physical.granularity
        handle, result = physical.create(size, location, number, handle_types=0, expect=ANY)
        calls.feature(name, calls.attribute(attribute), result)
        if handle is None:
            continue
        address = physical.reserve(size)
        physical.map(address, size, handle)
        physical.unmap(address, size)
        physical.release(handle)
        calls("cuMemAddressFree", address, size, address=address, size=size)
