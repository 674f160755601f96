"""An eager training step: kernels of PyTorch itself, of cuDNN, cuBLAS and cuFFT."""

import torch
from torch import nn
from torch.nn import functional
from truth import profiled, write

STEPS = 20

torch.manual_seed(0)
torch.backends.cudnn.benchmark = False


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 16, 3, padding=1)
        self.normalization = nn.BatchNorm2d(16)
        self.attention = nn.MultiheadAttention(64, 4, batch_first=True)
        self.layer_norm = nn.LayerNorm(64)
        self.linear = nn.Linear(64, 10)
        self.embedding = nn.Embedding(100, 64)

    def forward(self, images, tokens):
        features = functional.relu(self.normalization(self.convolution(images)))
        features = functional.max_pool2d(features, 4).flatten(2)
        attended, _ = self.attention(*[self.embedding(tokens)] * 3, need_weights=False)
        hidden = functional.gelu(self.layer_norm(functional.dropout(attended, 0.1) + features.mean(1, keepdim=True)))
        return self.linear(hidden.mean(1))


def other_kernels(values, half):
    """Kernels that a training step does not reach: sorting, scans, gathers, attention, FFT."""
    order = values.sort(dim=-1).indices
    values.topk(5, dim=-1)
    values.cumsum(dim=-1)
    values.gather(-1, order)
    values.scatter_add(-1, order, values)
    values.softmax(dim=-1)
    values.std(dim=-1)
    torch.fft.fft(values)
    torch.cat([values, values.t().contiguous()], dim=1)
    functional.scaled_dot_product_attention(half, half, half, is_causal=True)
    functional.interpolate(values[None, None], scale_factor=2, mode="bilinear")


def main():
    model = Model().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    images = torch.randn(8, 3, 32, 32, device="cuda")
    tokens = torch.randint(0, 100, (8, 16), device="cuda")
    labels = torch.randint(0, 10, (8,), device="cuda")
    values = torch.randn(64, 64, device="cuda")
    half = torch.randn(2, 4, 64, 64, device="cuda", dtype=torch.bfloat16)

    def steps(number):
        for _ in range(number):
            optimizer.zero_grad(set_to_none=True)
            functional.cross_entropy(model(images, tokens), labels).backward()
            optimizer.step()
            other_kernels(values, half)

    steps(3)
    write({"profile": profiled(lambda: steps(STEPS))})


main()
