"""A small Llama with made-up weights, for vLLM: nothing is fetched. Import it before vLLM."""

import os
import tempfile
from contextlib import contextmanager

os.environ.update(
    HF_HUB_OFFLINE="1",
    VLLM_NO_USAGE_STATS="1",
    DO_NOT_TRACK="1",
    TOKENIZERS_PARALLELISM="false",
    VLLM_USE_FLASHINFER_SAMPLER="0",
    # collective_rpc with a function of ours needs it.
    VLLM_ALLOW_INSECURE_SERIALIZATION="1",
)

REQUESTS, TOKENS = 16, 64


@contextmanager
def engine(**options):
    """The engine; `options` are those of `vllm.LLM`."""
    from transformers import LlamaConfig
    from vllm import LLM

    with tempfile.TemporaryDirectory() as folder:
        LlamaConfig(
            architectures=["LlamaForCausalLM"],
            hidden_size=2048,
            intermediate_size=5632,
            num_hidden_layers=16,
            num_attention_heads=16,
            num_key_value_heads=4,
            head_dim=128,
            vocab_size=32000,
            max_position_embeddings=4096,
            dtype="bfloat16",
        ).save_pretrained(folder)
        yield LLM(
            model=folder,
            load_format="dummy",
            skip_tokenizer_init=True,
            dtype="bfloat16",
            gpu_memory_utilization=0.5,
            max_model_len=2048,
            **options,
        )


def generate(llm):
    """One round of requests; how many tokens came of it."""
    from vllm import SamplingParams

    prompts = [{"prompt_token_ids": [1, *range(100, 200)]} for _ in range(REQUESTS)]
    sampling = SamplingParams(max_tokens=TOKENS, ignore_eos=True, detokenize=False)
    outputs = llm.generate(prompts, sampling, use_tqdm=False)
    return sum(len(output.outputs[0].token_ids) for output in outputs)
