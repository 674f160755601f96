"""A vLLM engine with default settings on a small Llama with made-up weights.

V1: the engine runs in a process of its own, compiles, captures CUDA graphs. Its own PyTorch is
asked for the truth, in that process, before it ends.
"""

import os
import sys
import tempfile

os.environ.update(
    HF_HUB_OFFLINE="1",
    VLLM_NO_USAGE_STATS="1",
    DO_NOT_TRACK="1",
    TOKENIZERS_PARALLELISM="false",
    VLLM_USE_FLASHINFER_SAMPLER="0",
    # collective_rpc with a function of ours needs it.
    VLLM_ALLOW_INSECURE_SERIALIZATION="1",
)

LAYERS, HIDDEN, REQUESTS, TOKENS, ROUNDS = 16, 2048, 16, 64, 2


def torch_totals(worker):
    """Runs in the engine's worker."""
    import os
    import time

    import torch

    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    return {
        "pid": os.getpid(),
        "at": time.monotonic_ns(),
        "allocated": stats["allocated_bytes.all.current"],
        "reserved": stats["reserved_bytes.all.current"],
        # Not "active": that has the freed blocks too that another stream may still use.
        "blocks": stats["allocation.all.current"],
        "segments": stats["num_device_alloc"],
        "segments_freed": stats["num_device_free"],
    }


def main():
    from transformers import LlamaConfig
    from truth import now, write
    from vllm import LLM, SamplingParams

    with tempfile.TemporaryDirectory() as folder:
        LlamaConfig(
            architectures=["LlamaForCausalLM"],
            hidden_size=HIDDEN,
            intermediate_size=5632,
            num_hidden_layers=LAYERS,
            num_attention_heads=16,
            num_key_value_heads=4,
            head_dim=128,
            vocab_size=32000,
            max_position_embeddings=4096,
            dtype="bfloat16",
        ).save_pretrained(folder)
        engine = LLM(
            model=folder,
            load_format="dummy",
            skip_tokenizer_init=True,
            dtype="bfloat16",
            gpu_memory_utilization=0.5,
            max_model_len=2048,
        )
        prompts = [{"prompt_token_ids": [1, *range(100, 200)]} for _ in range(REQUESTS)]
        sampling = SamplingParams(max_tokens=TOKENS, ignore_eos=True, detokenize=False)
        generated, windows = 0, []
        for _ in range(ROUNDS):
            begin = now()
            outputs = engine.generate(prompts, sampling, use_tqdm=False)
            windows.append([begin, now()])
            generated += sum(len(output.outputs[0].token_ids) for output in outputs)
        workers = engine.collective_rpc(torch_totals)
        write({"tokens": generated, "windows": windows, "workers": workers}, sys.argv[1])


if __name__ == "__main__":
    main()
