"""Whole requests: the engine compared with `generate()`, sampled in a batch, and eight concurrent
requests compared with eight in sequence.

    python -m benchmarks.engine.requests [--shape 0.5b] [--threads 2]

sampled: vocabulary 151,936, temperature 0.8, top_k 50, top_p 0.9, batch 8; without the first token.
eight in sequence: as a server without batching handles eight concurrent requests; total time,
prompts included.
"""

import argparse
import sys
from functools import partial

import torch

from benchmarks.engine import table, timing
from benchmarks.engine.ours import Ours
from benchmarks.engine.shapes import SHAPES, peer, prompts
from benchmarks.engine.theirs import generate, one_after_the_other
from benchmarks.engine.timing import Side, conditions, take_turns
from strowger_gateway.local_engine.device import choose_dtype, probe
from strowger_gateway.local_engine.sampling.sampling_params import RowParams

BATCH = 8
SAMPLED = {"temperature": 0.8, "top_k": 50, "top_p": 0.9}


def main() -> int:
    options = _options()
    torch.set_num_threads(options.threads)
    dtype = choose_dtype("auto", "cpu", probe())
    print(f"{conditions()}; {dtype}, prompts of {options.context}, {options.tokens} new tokens\n")
    table.head("shape", "case", "wanted", *table.COMPARED)
    shape, tokens = SHAPES[options.shape], options.tokens
    engine = Ours(shape, dtype, BATCH)
    model = peer(shape, dtype)
    rows = prompts(shape, BATCH, options.context)
    seeded = [RowParams(temperature=0.8, top_k=50, top_p=0.9, seed=seed) for seed in range(BATCH)]
    cases = (
        (
            f"sampled, V = {shape.vocab_size:,}, batch {BATCH}",
            "1.5x",
            BATCH * (tokens - 1),
            Side(partial(generate, model, rows, tokens, **SAMPLED), timing.decode),
            Side(partial(engine.generate, rows, tokens, seeded), timing.decode),
        ),
        (
            f"{BATCH} concurrent, theirs in sequence",
            "6x",
            BATCH * tokens,
            Side(partial(one_after_the_other, model, rows, tokens), timing.whole),
            Side(partial(engine.generate, rows, tokens), timing.whole),
        ),
    )
    for name, wanted, count, theirs, ours in cases:
        slow, fast = take_turns(
            [theirs, ours], rounds=options.rounds, seconds=options.seconds / len(cases)
        )
        table.row(shape.name, name, wanted, *table.compared(count, slow, fast))
    return 0


class Options(argparse.Namespace):
    shape: str
    context: int
    tokens: int
    rounds: int
    seconds: float
    threads: int


def _options() -> Options:
    parser = argparse.ArgumentParser(description="whole requests compared with generate()")
    parser.add_argument("--shape", choices=list(SHAPES), default="0.5b")
    parser.add_argument("--context", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args(namespace=Options())


if __name__ == "__main__":
    sys.exit(main())
