"""The engine's sampler compared with transformers' warpers, interleaved in one run.

    python benchmarks/engine/sampler.py [--rounds 40] [--threads 1]

One row is one token to draw: V = 151,936 logits in float32, temperature 0.8, top_k 50, top_p 0.9.
transformers: TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper, softmax, multinomial.
Ours: every row with its own parameters and seed. Both draw from the same distribution, which the
run checks before it measures. The sides take turns of a few draws each, so that both meet the same
cache state. Prints medians in microseconds per row, and the ratio; with one thread these are CPU
time, which other load on the machine affects less.
"""

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor
from transformers.generation.logits_process import (
    LogitsProcessorList,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from strowger_gateway.local_engine.ops.native_build import cpu_kernels
from strowger_gateway.local_engine.sampling.batch_params import SamplingRows
from strowger_gateway.local_engine.sampling.sampler import probabilities, sample
from strowger_gateway.local_engine.sampling.sampling_params import RowParams
from strowger_gateway.local_engine.sampling.top_candidates import use_finder

VOCABULARY = 151_936
TEMPERATURE, TOP_K, TOP_P = 0.8, 50, 0.9
TARGETS = {1: 40, 8: 80, 32: 100}
TURN = 10


def zipf_rows(batch: int) -> Tensor:
    """Logits whose probabilities follow a power law of the rank, as those of language models."""
    random = torch.Generator().manual_seed(0)
    ranks = torch.log(1.0 / (torch.arange(VOCABULARY) + 2.7)) * 1.4
    rows = [ranks[torch.randperm(VOCABULARY, generator=random)] for _ in range(batch)]
    return torch.stack(rows) + torch.randn(batch, VOCABULARY, generator=random) * 0.1


def warpers(logits: Tensor) -> Callable[[], Tensor]:
    """From logits to tokens with transformers."""
    chain = LogitsProcessorList(
        [TemperatureLogitsWarper(TEMPERATURE), TopKLogitsWarper(TOP_K), TopPLogitsWarper(TOP_P)]
    )
    none = torch.zeros((logits.size(0), 1), dtype=torch.int64)

    def draw() -> Tensor:
        scores = chain(none, logits)  # pyright: ignore[reportArgumentType]  # its own tensor alias
        return torch.multinomial(scores.softmax(-1), 1).squeeze(1)

    return draw


def ours(rows: SamplingRows, logits: Tensor) -> Callable[[], Tensor]:
    def draw() -> Tensor:
        ids = sample(logits, rows).ids
        rows.advance()
        return ids

    return draw


def seeded(batch: int) -> SamplingRows:
    params = [
        RowParams(temperature=TEMPERATURE, top_k=TOP_K, top_p=TOP_P, seed=seed)
        for seed in range(batch)
    ]
    return SamplingRows(params, [0] * batch, vocabulary=VOCABULARY, device=torch.device("cpu"))


def check(logits: Tensor, rows: SamplingRows) -> None:
    """Check that both sides draw from the same distribution."""
    chain = [TemperatureLogitsWarper(TEMPERATURE), TopKLogitsWarper(TOP_K), TopPLogitsWarper(TOP_P)]
    none = torch.zeros((logits.size(0), 1), dtype=torch.int64)
    scores = LogitsProcessorList(chain)(none, logits)  # pyright: ignore[reportArgumentType]  # alias
    torch.testing.assert_close(
        probabilities(logits, rows), scores.softmax(-1), rtol=1e-4, atol=1e-7
    )


def microseconds(draw: Callable[[], Tensor]) -> float:
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    begin = clock()
    draw()
    return (clock() - begin) * 1e6


def measure(batch: int, rounds: int) -> None:
    logits, rows = zipf_rows(batch), seeded(batch)
    check(logits, rows)
    theirs, mine = warpers(logits), ours(rows, logits)
    for _ in range(3):
        theirs()
        mine()
    slow: list[float] = []
    fast: list[float] = []
    for _ in range(rounds):
        slow.extend(microseconds(theirs) / batch for _ in range(TURN))
        fast.extend(microseconds(mine) / batch for _ in range(TURN))
    them, us = statistics.median(slow), statistics.median(fast)
    print(
        f"batch {batch:3}   transformers {them:9.0f}   ours {us:7.1f}   "
        f"ratio {them / us:6.1f}   target {TARGETS[batch]}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="the sampler compared with transformers' warpers")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    load = os.getloadavg()[0]
    print(
        f"torch {torch.__version__}, {platform.machine()}, {arguments.threads} thread(s), "
        f"load {load:.1f}; V = {VOCABULARY}, k = {TOP_K}, p = {TOP_P}; microseconds per row"
    )
    use_finder(cpu_kernels("auto", "cpu", torch.float32, print).best)
    with torch.inference_mode():
        for batch in TARGETS:
            measure(batch, max(3, arguments.rounds * 2 // (batch + 1)))


if __name__ == "__main__":
    main()
