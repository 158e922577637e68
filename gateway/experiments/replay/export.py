"""The rows that a run's report is computed from, as CSV: one of each pair."""

import csv
from collections.abc import Iterable, Mapping
from typing import Final, TextIO

from strowger_gateway.gateway.experiments.replay.report import counted_pairs
from strowger_gateway.gateway.experiments.replay.rows import Pair, ReplayRows, Step, StoredCall
from strowger_gateway.gateway.experiments.replay.votes import VoteRows

_PAIR: Final = (
    "run", "place", "unit", "counted", "how", "score", "first", "second", "length", "human",
)  # fmt: skip
_CALL: Final = (
    "state", "attempts", "ms", "prompt_tokens", "completion_tokens", "nanos", "tokens", "backend",
    "passed", "verdict", "cut",
)  # fmt: skip
_STEPS: Final[tuple[Step, ...]] = ("control", "treatment", "first", "second")
COLUMNS: Final = (*_PAIR, *(f"{step}_{name}" for step in _STEPS for name in _CALL))


def write_pairs(rows: ReplayRows, votes: VoteRows, run: str, file: TextIO) -> int:
    """Write all pairs with a header; return their number. Raises StoreUnavailable."""
    pairs = rows.pairs(run)
    people = votes.scores(run)
    counted = {pair.place for pair in counted_pairs(pairs)}
    calls: dict[int, dict[Step, StoredCall]] = {}
    for call in rows.all_calls(run):
        calls.setdefault(call.place, {})[call.step] = call
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    for pair in pairs:
        own = _pair(run, pair, pair.place in counted, people)
        writer.writerow([*own, *_calls(calls.get(pair.place, {}))])
    return len(pairs)


def _pair(
    run: str, pair: Pair, counted: bool, people: Mapping[int, float]
) -> Iterable[str | int | float | None]:
    return (
        run,
        pair.place,
        pair.unit,
        int(counted),
        pair.how,
        pair.score,
        pair.first,
        pair.second,
        pair.length,
        people.get(pair.place),
    )


def _calls(calls: Mapping[Step, StoredCall]) -> Iterable[object]:
    for step in _STEPS:
        call = calls.get(step)
        for name in _CALL:
            value = None if call is None else getattr(call, name)
            yield int(value) if isinstance(value, bool) else value
