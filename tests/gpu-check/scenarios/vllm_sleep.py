"""A vLLM engine that sleeps and wakes: its weights and its KV cache are virtual memory.

One process, no graphs, sleep level 1. At each of three moments: what vLLM's own allocator keeps
in its books, and what the device has free.
"""

import os
import sys

import tiny_llama

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"


def main():
    from truth import now, write

    with tiny_llama.engine(enforce_eager=True, enable_sleep_mode=True) as llm:
        import torch
        from vllm.device_allocator.cumem import CuMemAllocator

        allocator = CuMemAllocator.get_instance()

        def moment(state):
            torch.cuda.synchronize()
            free, total = torch.cuda.mem_get_info()
            # The handle of a block: device, size, address, place of the physical memory.
            sizes = [data.handle[1] for data in allocator.pointer_to_data.values()]
            weights = [data.handle[1] for data in allocator.pointer_to_data.values() if data.tag == "weights"]
            print(f"{state}: {free} of {total} bytes free, {len(sizes)} blocks", file=sys.stderr, flush=True)
            return {
                "state": state, "blocks": len(sizes), "bytes": sum(sizes),
                "weights": [len(weights), sum(weights)], "free": free, "total": total,
                "reserved": torch.cuda.memory_reserved(), "at": now(),
            }

        tokens = tiny_llama.generate(llm)
        moments = [moment("awake")]
        llm.sleep(level=1)
        moments.append(moment("asleep"))
        llm.wake_up()
        moments.append(moment("awake again"))
        tokens += tiny_llama.generate(llm)
        write({"pid": os.getpid(), "tokens": tokens, "moments": moments})


if __name__ == "__main__":
    main()
