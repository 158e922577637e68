"""The engine on one large GPU: batch 1, and nano-vllm's benchmark.

    python -m benchmarks.engine.gpu [--requests 256] [--seed 0]

The model has Qwen3-0.6B's shape and random bfloat16 weights. Batch 1: milliseconds per token after
a prompt of 128. nano-vllm's benchmark (https://github.com/GeeeekExplorer/nano-vllm): 256 concurrent
requests, prompts and answers uniform in 100 … 1024 tokens; tokens generated per second, with the
prompts included in the time. The targets are for an H200. On another GPU they are scaled by memory
bandwidth; without a GPU nothing is measured.
"""

import argparse
import random
import sys

import torch

from benchmarks.engine import table
from benchmarks.engine.ours import Ours
from benchmarks.engine.shapes import SHAPES, prompts
from benchmarks.engine.timing import Stopwatch

SHAPE = SHAPES["0.6b"]
BANDWIDTHS = {"H200": 4.8e12, "H100": 3.35e12, "A100": 2.0e12}
"""Bytes per second, from the manufacturer's data sheets."""
LATENCY_MS, THROUGHPUT = 1.5, 25_000
TOKENS = 128


def main() -> int:
    options = _options()
    if not torch.cuda.is_available():
        print(
            "skipped: torch sees no CUDA device, and the targets are for an H200", file=sys.stderr
        )
        return 0
    name = torch.cuda.get_device_name()
    bandwidth = next((rate for key, rate in BANDWIDTHS.items() if key in name), 0.0)
    if not bandwidth:
        print(f"skipped: {name} is not one of {', '.join(BANDWIDTHS)}", file=sys.stderr)
        return 0
    scale = bandwidth / BANDWIDTHS["H200"]
    print(f"torch {torch.__version__}, {name}, memory {bandwidth / 1e12:.2f} TB/s, bfloat16\n")
    table.head("case", "ours", "target here", "bandwidth's limit")
    engine = Ours(SHAPE, torch.bfloat16, options.requests, device="cuda")
    took = _latency(engine)
    least = engine.step_bytes(1, TOKENS) / bandwidth * 1e3
    table.row(
        "batch 1, ms per token", f"{took:.2f}", f"≤ {LATENCY_MS / scale:.2f}", f"{least:.2f} ms"
    )
    speed, limit = _throughput(engine, options, bandwidth)
    table.row(
        f"{options.requests} requests, tokens/s",
        f"{speed:,.0f}",
        f"≥ {THROUGHPUT * scale:,.0f}",
        f"{limit:,.0f}",
    )
    return 0


def _latency(engine: Ours) -> float:
    rows = prompts(SHAPE, 1, TOKENS)
    engine.generate(rows, TOKENS)
    run = engine.generate(rows, TOKENS)
    return run.decode.wall / (TOKENS - 1) * 1e3


def _throughput(engine: Ours, options: "Options", bandwidth: float) -> tuple[float, float]:
    """Tokens per second, and the limit set by reading weights and cache."""
    source = random.Random(options.seed)
    rows = [
        [source.randrange(SHAPE.vocab_size) for _ in range(source.randint(100, 1024))]
        for _ in range(options.requests)
    ]
    counts = [source.randint(100, 1024) for _ in rows]
    engine.generate_each(rows[:8], [16] * 8)
    watch = Stopwatch()
    engine.generate_each(rows, counts)
    seconds = watch.read().wall
    steps = max(counts)
    context = sum(len(p) + n / 2 for p, n in zip(rows, counts, strict=True)) / len(rows)
    busy = sum(counts) / steps
    least = steps * engine.step_bytes(1, int(busy * context)) / bandwidth
    return sum(counts) / seconds, sum(counts) / least


class Options(argparse.Namespace):
    requests: int
    seed: int


def _options() -> Options:
    parser = argparse.ArgumentParser(description="the engine on a large GPU")
    parser.add_argument("--requests", type=int, default=256)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(namespace=Options())


if __name__ == "__main__":
    sys.exit(main())
