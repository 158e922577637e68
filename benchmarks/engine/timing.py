"""Contenders take turns, so that other load slows all of them; ratios are within one round."""

import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence

import torch
from msgspec import Struct

MIN_ROUNDS = 3
STREAM_BYTES = 1 << 29


class Took(Struct, frozen=True, kw_only=True):
    """Wall seconds, and CPU seconds of all threads that worked on it."""

    wall: float
    cpu: float


class Run(Struct, frozen=True, kw_only=True):
    """The answers to a list of prompts.

    tokens: the new tokens of each prompt. whole: from the prompts to the last token.
    decode: from the moment when all had their first token to the end.
    """

    tokens: list[list[int]]
    whole: Took
    decode: Took

    @property
    def prefill(self) -> Took:
        return Took(wall=self.whole.wall - self.decode.wall, cpu=self.whole.cpu - self.decode.cpu)


class Side:
    """One contender: runs when called, and keeps its last tokens."""

    def __init__(self, run: Callable[[], Run], part: Callable[[Run], Took]) -> None:
        self._run, self._part = run, part
        self.tokens: list[list[int]] = []

    def __call__(self) -> Took:
        run = self._run()
        self.tokens = run.tokens
        return self._part(run)


def decode(run: Run) -> Took:
    return run.decode


def prefill(run: Run) -> Took:
    return run.prefill


def whole(run: Run) -> Took:
    return run.whole


class Stopwatch:
    """Starts when made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def read(self) -> Took:
        return Took(
            wall=time.perf_counter() - self._wall,
            cpu=time.process_time() - self._cpu,
        )


class Spread(Struct, frozen=True, kw_only=True):
    """Median and quartiles."""

    low: float
    middle: float
    high: float

    def __format__(self, spec: str) -> str:
        return f"{self.middle:{spec}} ({self.low:{spec}}-{self.high:{spec}})"


def spread(numbers: Sequence[float]) -> Spread:
    if len(numbers) < 2:
        return Spread(low=numbers[0], middle=numbers[0], high=numbers[0])
    low, middle, high = statistics.quantiles(numbers, n=4, method="inclusive")
    return Spread(low=low, middle=middle, high=high)


def take_turns(
    contenders: Sequence[Callable[[], Took]], *, rounds: int, seconds: float
) -> list[list[Took]]:
    """The times of each contender per round, after one warm-up round that is not counted.

    Ends after `rounds`, or when the next one would end after `seconds` and there are MIN_ROUNDS.
    """
    begin = time.perf_counter()
    for contender in contenders:
        contender()
    took: list[list[Took]] = [[] for _ in contenders]
    for round in range(rounds):
        past = time.perf_counter() - begin
        if round >= MIN_ROUNDS and past * (round + 2) / (round + 1) > seconds:
            break
        for place, contender in enumerate(contenders):
            took[place].append(contender())
    return took


def wall_ratio(theirs: Sequence[Took], ours: Sequence[Took]) -> Spread:
    """Speed of ours relative to theirs, by wall time."""
    return spread([a.wall / b.wall for a, b in zip(theirs, ours, strict=True)])


def cpu_ratio(theirs: Sequence[Took], ours: Sequence[Took]) -> Spread:
    """The same by CPU time, which other load on the machine affects less."""
    return spread([a.cpu / b.cpu for a, b in zip(theirs, ours, strict=True)])


def median_wall(took: Sequence[Took]) -> float:
    return statistics.median(one.wall for one in took)


def bandwidth() -> float:
    """Bytes per second that the CPU reads from memory with torch's threads; best of several."""
    numbers = torch.zeros(STREAM_BYTES // 4)
    best = float("inf")
    for _ in range(6):
        watch = Stopwatch()
        numbers.sum()
        best = min(best, watch.read().wall)
    return STREAM_BYTES / best


def conditions() -> str:
    """Describes the machine in one line; print it above every table."""
    kind = f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
    threads, load = torch.get_num_threads(), os.getloadavg()[0]
    return f"torch {torch.__version__}, {kind}, {threads} thread(s), load {load:.1f}"
