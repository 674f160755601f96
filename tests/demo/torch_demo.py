"""A small PyTorch program with a bit of everything that cudasnoop records.

It trains a few layers, copies from pageable and pinned memory, replays a CUDA graph and keeps
some blocks alive between larger ones that it frees. `cargo xtask demo` records it where there is
a GPU; it runs for a few seconds, most of them the start of PyTorch.
"""

import torch

BATCH, WIDTH, TRAINING_STEPS, REPLAYS = 256, 1024, 30, 50


def main() -> None:
    device = torch.device("cuda")
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(WIDTH, WIDTH),
        torch.nn.GELU(),
        torch.nn.Linear(WIDTH, WIDTH),
        torch.nn.GELU(),
        torch.nn.Linear(WIDTH, 10),
    ).to(device)

    loss = train(model, device)
    replayed = replay_graph(model, device)
    kept = fragment(device)
    print(f"loss {loss:.3f}, graph output {replayed:.3f}, {kept} blocks kept")


def train(model: torch.nn.Module, device: torch.device) -> float:
    """Copies a batch each step, pinned and pageable in turn, and reads the loss back: a sync."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    pageable = torch.randn(BATCH, WIDTH)
    pinned = pageable.pin_memory()
    labels = torch.randint(10, (BATCH,), device=device)
    loss = 0.0
    for step in range(TRAINING_STEPS):
        batch = (pinned if step % 2 else pageable).to(device, non_blocking=True)
        optimizer.zero_grad()
        step_loss = torch.nn.functional.cross_entropy(model(batch), labels)
        step_loss.backward()
        optimizer.step()
        loss = step_loss.item()
    return loss


@torch.no_grad()
def replay_graph(model: torch.nn.Module, device: torch.device) -> float:
    """Captures one forward pass and replays it, so that one call launches all its kernels."""
    batch = torch.randn(BATCH, WIDTH, device=device)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        model(batch)  # Before the capture: cuBLAS allocates its workspace at its first use.
    torch.cuda.current_stream().wait_stream(stream)

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = model(batch)
    for _ in range(REPLAYS):
        graph.replay()
    torch.cuda.synchronize()
    return output.mean().item()


def fragment(device: torch.device) -> int:
    """Frees every other block and empties the cache, which can give no segment back."""
    blocks = [torch.empty(3 << 20, dtype=torch.uint8, device=device) for _ in range(64)]
    kept = blocks[::2]
    del blocks
    torch.cuda.empty_cache()
    return len(kept)


if __name__ == "__main__":
    main()
