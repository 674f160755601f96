"""A CUDA graph: captured once, replayed many times."""

import torch
from torch import nn
from truth import now, profiled, write

REPLAYS = 50


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.LayerNorm(512), nn.Linear(512, 256)).cuda()
    rows = torch.randn(64, 256, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad():
        # Libraries make their workspaces at the first call on a stream: outside of the capture.
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                model(rows)
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=side):
            begin = now()
            result = model(rows)
            end = now()
        graph.replay()

        def replays():
            for _ in range(REPLAYS):
                graph.replay()
                result.add(1)

        result.add(1)
        write({"replays": REPLAYS, "capture": [begin, end], "profile": profiled(replays)})


main()
