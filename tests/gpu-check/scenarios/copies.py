"""Copies whose number, bytes and direction are known, one kind after the other."""

import ctypes

import torch
from truth import Cudart, now, write

SIZE = 3 << 20


def main():
    device = torch.empty(SIZE, dtype=torch.uint8, device="cuda")
    other = torch.empty_like(device)
    pinned = torch.empty(SIZE, dtype=torch.uint8).pin_memory()
    pageable = torch.empty(SIZE, dtype=torch.uint8)
    buffer = (ctypes.c_uint8 * SIZE)()
    cudart = Cudart()
    here = ctypes.addressof(buffer)
    to_device, to_host = cudart.HOST_TO_DEVICE, cudart.DEVICE_TO_HOST
    within, by_address = cudart.DEVICE_TO_DEVICE, cudart.BY_ADDRESS
    kinds = [
        ("pinned to device, async", "host_to_device", 11, lambda: device.copy_(pinned, non_blocking=True)),
        ("pageable to device", "host_to_device", 7, lambda: device.copy_(pageable)),
        ("device to pinned, async", "device_to_host", 13, lambda: pinned.copy_(device, non_blocking=True)),
        ("device to pageable", "device_to_host", 5, lambda: pageable.copy_(device)),
        ("device to device", "device_to_device", 9, lambda: other.copy_(device)),
        ("cudaMemcpy to device", "host_to_device", 4, lambda: cudart.copy(device.data_ptr(), here, SIZE, to_device)),
        ("cudaMemcpy to host", "device_to_host", 3, lambda: cudart.copy(here, device.data_ptr(), SIZE, to_host)),
        ("cudaMemcpy in device", "device_to_device", 2,
         lambda: cudart.copy(other.data_ptr(), device.data_ptr(), SIZE, within)),
        ("cudaMemcpy by address", "default", 6,
         lambda: cudart.copy(device.data_ptr(), here, SIZE, by_address)),
    ]
    phases = []
    for name, direction, count, copy in kinds:
        # What the first copy of a kind sets up is no part of the claim.
        copy()
        torch.cuda.synchronize()
        begin = now()
        for _ in range(count):
            copy()
        torch.cuda.synchronize()
        phases.append({"name": name, "direction": direction, "count": count, "bytes": count * SIZE,
                       "window": [begin, now()]})
    write({"phases": phases})


main()
