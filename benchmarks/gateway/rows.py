"""What is measured: rows of one or more figures, each with a target."""

import statistics
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from benchmarks.gateway.contenders import ALL_CORES, Contender, Mocks, running
from benchmarks.gateway.load import Answered, Load, answers
from benchmarks.gateway.mock import EVENTS
from benchmarks.gateway.processes import cpu_s, resident_mb, used_s
from benchmarks.gateway.requests import Halves, mixed, plain

_READ_APART_S = 0.005
"""Longer than most turns of a busy contender's loop, which then reads the head without the body."""
_SPREAD_S = 0.5
_REPEATED = 4
"""Times that each measurement of first tokens begins 64 streams."""
_BURST_PAUSE_S = 0.05
_LATENCY_S = 1.0


class Setting(Struct, frozen=True, kw_only=True):
    """seconds: of load per measurement."""

    mocks: Mocks
    seconds: float


class Sample(Struct, frozen=True, kw_only=True):
    """One measurement. figures: in the row's order. details: shown by --verbose."""

    figures: tuple[float, ...]
    details: Mapping[str, float] = {}


class Row(Struct, frozen=True, kw_only=True):
    """titles: of its figures; the target is that of the first. at_end: measured only once, after
    all rounds.
    """

    name: str
    titles: tuple[str, ...]
    target: str
    measure: Callable[[Contender, Setting], Sample]
    at_end: bool = False


class _Used(Struct, frozen=True, kw_only=True):
    """A load, and CPU seconds of the contender's processes in it, the worker's first."""

    answered: Answered
    cpu_s: list[float]

    def each_us(self, *, parts: int = 1) -> float:
        """CPU per answer; parts: into which an answer is divided."""
        return sum(self.cpu_s) / len(self.answered.latencies_s) / parts * 1e6

    def sample(self, *figures: float) -> Sample:
        wall_s = self.answered.wall_s
        details = {
            "contender busy %": sum(self.cpu_s) / wall_s * 100,
            "of its CPU the worker %": self.cpu_s[0] / sum(self.cpu_s) * 100,
            "load busy %": self.answered.own_cpu_s / wall_s * 100,
            "answers": float(len(self.answered.latencies_s)),
        }
        return Sample(figures=figures, details=details)


def _one_write(subject: Contender, setting: Setting) -> Sample:
    return _whole(subject, setting, plain(stream=False), None)


def _two_writes(subject: Contender, setting: Setting) -> Sample:
    return _whole(subject, setting, plain(stream=False), 0)


def _two_reads(subject: Contender, setting: Setting) -> Sample:
    return _whole(subject, setting, plain(stream=False), _READ_APART_S)


def _mixed(subject: Contender, setting: Setting) -> Sample:
    return _whole(subject, setting, mixed(), None)


def _whole(
    subject: Contender, setting: Setting, requests: Iterator[Halves], gap_s: float | None
) -> Sample:
    before = cpu_s(subject.pid)
    answered = answers(
        subject.port, requests, lambda load: load.closed_loop(setting.seconds), gap_s=gap_s
    )
    used = _Used(answered=answered, cpu_s=used_s(before, cpu_s(subject.pid)))
    return used.sample(used.each_us())


def _events(subject: Contender, setting: Setting) -> Sample:
    before = cpu_s(subject.pid)
    answered = answers(
        subject.port, plain(stream=True), lambda load: load.closed_loop(setting.seconds)
    )
    used = _Used(answered=answered, cpu_s=used_s(before, cpu_s(subject.pid)))
    return used.sample(used.each_us(parts=EVENTS))


def _added_latency(subject: Contender, setting: Setting) -> Sample:
    """Without the contender, the latency is measured immediately before."""
    direct, through = (
        statistics.median(
            answers(
                port, plain(stream=False), lambda load: load.closed_loop(_LATENCY_S), connections=1
            ).latencies_s
        )
        for port in (setting.mocks.whole, subject.port)
    )
    return Sample(figures=((through - direct) * 1e6,), details={"without it µs": direct * 1e6})


def _first_at_once(subject: Contender, setting: Setting) -> Sample:
    return _first_tokens(subject, 0)


def _first_spread(subject: Contender, setting: Setting) -> Sample:
    return _first_tokens(subject, _SPREAD_S)


def _first_tokens(subject: Contender, over_s: float) -> Sample:
    async def begin(load: Load) -> None:
        for _ in range(_REPEATED):
            await load.spread(over_s)

    first_s = answers(subject.port, plain(stream=True), begin).first_s
    return Sample(figures=(statistics.median(first_s) * 1e3, p99(first_s) * 1e3))


def _bursts(subject: Contender, setting: Setting) -> Sample:
    before = cpu_s(subject.pid)
    answered = answers(
        subject.port,
        plain(stream=False),
        lambda load: load.bursts(setting.seconds, _BURST_PAUSE_S),
    )
    used = _Used(answered=answered, cpu_s=used_s(before, cpu_s(subject.pid)))
    return used.sample(used.each_us(), p99(answered.latencies_s) * 1e3)


def _two_workers(subject: Contender, setting: Setting) -> Sample:
    """Other processes of the same contender, started for this measurement only."""
    one, two = (_per_second(subject, setting, workers) for workers in (1, 2))
    return Sample(figures=(two / one, two, one))


def _per_second(subject: Contender, setting: Setting, workers: int) -> float:
    with (
        TemporaryDirectory() as name,
        running(
            subject.recipe, Path(name) / "files", setting.mocks, cores=ALL_CORES, workers=workers
        ) as unpinned,
    ):
        warm_up(unpinned)
        answered = answers(
            unpinned.port, plain(stream=False), lambda load: load.closed_loop(setting.seconds)
        )
    return len(answered.latencies_s) / answered.wall_s


def _resident(subject: Contender, setting: Setting) -> Sample:
    sizes = resident_mb(subject.pid)
    return Sample(figures=(sizes[0],), details={"all processes MB": sum(sizes)})


def warm_up(subject: Contender) -> None:
    """Whole answers for a second and one stream per connection: lazy imports, caches, pools."""
    answers(subject.port, plain(stream=False), lambda load: load.closed_loop(1))
    answers(subject.port, plain(stream=True), lambda load: load.at_once())


def p99(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.99)]


_CPU = "CPU µs per request, 64 connections"
ROWS = (
    Row(name="one-write", titles=(f"{_CPU}, one write",), target="≤ 8.5x", measure=_one_write),
    Row(name="two-writes", titles=(f"{_CPU}, two writes",), target="≤ 8.5x", measure=_two_writes),
    Row(name="two-reads", titles=(f"{_CPU}, body 5 ms later",), target="", measure=_two_reads),
    Row(name="mixed", titles=(f"{_CPU}, mixed",), target="≤ 9x", measure=_mixed),
    Row(
        name="event",
        titles=("CPU µs per SSE event, 64 streams",),
        target="≤ 1.9x",
        measure=_events,
    ),
    Row(
        name="p50",
        titles=("added p50 µs, 1 connection",),
        target="≤ 2x",
        measure=_added_latency,
    ),
    Row(
        name="first",
        titles=("first token ms, 64 streams begun at once", "p99"),
        target="≤ 15 ms",
        measure=_first_at_once,
    ),
    Row(
        name="first-spread",
        titles=("first token ms, 64 streams begun within 0.5 s", "p99"),
        target="",
        measure=_first_spread,
    ),
    Row(
        name="burst",
        titles=("CPU µs per request, bursts of 64", "p99 ms"),
        target="",
        measure=_bursts,
    ),
    Row(
        name="workers",
        titles=("throughput of 2 workers against 1", "requests/s, 2 workers", "1 worker"),
        target="reported",
        measure=_two_workers,
    ),
    Row(
        name="rss",
        titles=("resident MB per worker after the run",),
        target="≤ 62 MB",
        measure=_resident,
        at_end=True,
    ),
)
