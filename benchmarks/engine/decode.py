"""Greedy decoding: the engine compared with `generate()`, same weights, same process.

    python -m benchmarks.engine.decode [--shapes 125m] [--batches 1,8] [--contexts 128,384]
        [--threads 2] [--dtype auto] [--peer-dtype float32] [--seconds 200]

The models (`shapes.py`) have random weights in bfloat16, as most checkpoints. Both sides take
turns; ratios are medians of the rounds' ratios, with quartiles, by wall time and by CPU time. The
first token is not timed. "Bandwidth used" is the minimum that one of our steps must read, divided
by the memory bandwidth measured in this run and by the time that the step took.
"""

import argparse
import sys
from functools import partial

import torch

from benchmarks.engine import table, timing
from benchmarks.engine.ours import Ours
from benchmarks.engine.shapes import DTYPES, SHAPES, Shape, peer, prompts
from benchmarks.engine.theirs import generate
from benchmarks.engine.timing import Side, bandwidth, conditions, take_turns
from strowger_gateway.local_engine.config import DTypeName
from strowger_gateway.local_engine.device import choose_dtype, probe

TARGET = "1.35x, 1.8x with compiled steps"


def main() -> int:
    options = _options()
    torch.set_num_threads(options.threads)
    dtype = choose_dtype(options.dtype, "cpu", probe())
    theirs = DTYPES[options.peer_dtype] if options.peer_dtype else dtype
    speed = bandwidth()
    print(f"{conditions()}; memory {speed / 1e9:.1f} GB/s; {options.tokens} new tokens")
    print(f"generate() {theirs}, ours {dtype}; target: {TARGET}\n")
    table.head("shape", "batch", "context", *table.COMPARED, "bandwidth used", "same tokens")
    seconds = options.seconds / (len(options.shapes) * len(options.batches) * len(options.contexts))
    for name in options.shapes:
        _compare(SHAPES[name], dtype, theirs, options, speed, seconds)
    return 0


def _compare(
    shape: Shape,
    dtype: torch.dtype,
    peer_dtype: torch.dtype,
    options: "Options",
    speed: float,
    seconds: float,
) -> None:
    engine = Ours(shape, dtype, max(options.batches))
    model = peer(shape, peer_dtype)
    tokens = options.tokens
    for batch in options.batches:
        for context in options.contexts:
            rows = prompts(shape, batch, context)
            theirs = Side(partial(generate, model, rows, tokens), timing.decode)
            ours = Side(partial(engine.generate, rows, tokens), timing.decode)
            slow, fast = take_turns([theirs, ours], rounds=options.rounds, seconds=seconds)
            table.row(
                shape.name,
                batch,
                context,
                *table.compared(batch * (tokens - 1), slow, fast),
                table.limit(engine.step_bytes(batch, context), speed, fast, tokens - 1),
                "yes" if theirs.tokens == ours.tokens else "no",
            )


class Options(argparse.Namespace):
    shapes: list[str]
    batches: list[int]
    contexts: list[int]
    tokens: int
    rounds: int
    seconds: float
    threads: int
    dtype: DTypeName
    peer_dtype: str


def _options() -> Options:
    def numbers(text: str) -> list[int]:
        return [int(one) for one in text.split(",")]

    parser = argparse.ArgumentParser(description="decode speed compared with transformers")
    parser.add_argument("--shapes", type=lambda text: text.split(","), default=["125m"])
    parser.add_argument("--batches", type=numbers, default=[1, 8])
    parser.add_argument("--contexts", type=numbers, default=[128, 384])
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", choices=["auto", *DTYPES], default="auto")
    parser.add_argument("--peer-dtype", choices=["", *DTYPES], default="")
    return parser.parse_args(namespace=Options())


if __name__ == "__main__":
    sys.exit(main())
