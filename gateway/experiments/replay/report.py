"""The report of a run: the win rate of the pairs that count, and what it cost.

Only the first pairs in the fixed order count, up to the first that is not decided, and of them
whole units alone: answers that are slow or dear must not select which pairs are compared.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile

from msgspec import Struct

from strowger_gateway.gateway.experiments.replay.rows import (
    Pair,
    ReplayRows,
    ReplayRun,
    Step,
    StoredCall,
)
from strowger_gateway.gateway.experiments.replay.spending import NANOS
from strowger_gateway.gateway.experiments.replay.votes import VoteRows
from strowger_gateway.gateway.statistics.win_rate import JudgedPair, WinRate, win_rate


class ReplayedArm(Struct, frozen=True, kw_only=True):
    """Of all pairs, also those that do not count yet.

    answers: with text. failed: without an answer. cut: at their limit of tokens. ms: mean until the
    answer was whole. tokens: mean of an answer's. usd: of answers and failed attempts.
    passed: of the checked answers. backends: which have answered, and how often.
    """

    name: str
    model: str
    answers: int
    failed: int
    cut: int
    ms: float | None
    tokens: float | None
    usd: float
    checked: int
    passed: int
    backends: Mapping[str, int]


class ReplayReport(Struct, frozen=True, kw_only=True):
    """ended: why the last command stopped; "" while one works.

    pairs: of the run. decided: of them; counted: those that the win rate is of.
    by: counted pairs by what decided about them. unjudged: orders without a verdict, of the decided
    pairs. cut: questions in which the judge did not see everything. judgements: all of them.
    usd, tokens: spent, with what is reserved. usd_judge: of it, for the judge.
    left_out: prompts of the source by reason.
    """

    run: str
    control: str
    treatment: str
    source: str
    judge: str
    ended: str
    working: bool
    pairs: int
    decided: int
    counted: int
    by: Mapping[str, int]
    win_rate: WinRate
    arms: tuple[ReplayedArm, ReplayedArm]
    judgements: int
    unjudged: int
    cut: int
    votes: int
    usd: float
    usd_judge: float
    tokens: int
    left_out: Mapping[str, int]


def report_of(rows: ReplayRows, votes: VoteRows, run: ReplayRun, now: float) -> ReplayReport:
    """Build the report. now: Unix seconds. Raises StoreUnavailable."""
    pairs = rows.pairs(run.name)
    calls = rows.all_calls(run.name)
    people = votes.scores(run.name)
    counted = counted_pairs(pairs)
    control, treatment = run.definition.control, run.definition.treatment
    judged = [one for one in calls if one.step in ("first", "second") and one.state != "asked"]
    by: dict[str, int] = {}
    for pair in counted:
        by[pair.how] = by.get(pair.how, 0) + 1
    spent = sum(one.nanos for one in calls)
    return ReplayReport(
        run=run.name,
        control=control.name,
        treatment=treatment.name,
        source=run.definition.source,
        judge=run.definition.judge,
        ended=run.ended,
        working=bool(run.holder) and now < run.held_until,
        pairs=len(pairs),
        decided=sum(pair.score is not None for pair in pairs),
        counted=len(counted),
        by=by,
        win_rate=win_rate(
            judged_pairs(counted, people),
            control=control.name,
            treatment=treatment.name,
            alpha=run.definition.alpha,
        ),
        arms=(
            _arm(control.name, control.model, "control", calls),
            _arm(treatment.name, treatment.model, "treatment", calls),
        ),
        judgements=len(judged),
        unjudged=sum(not one.verdict for one in judged),
        cut=sum(one.cut for one in judged),
        votes=sum(1 for pair in counted if pair.place in people),
        usd=spent / NANOS,
        usd_judge=sum(one.nanos for one in calls if one.step in ("first", "second")) / NANOS,
        tokens=sum(one.tokens for one in calls),
        left_out=run.left_out,
    )


def counted_pairs(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the decided pairs before the first undecided one, of whole units."""
    found = list(takewhile(lambda pair: pair.score is not None, pairs))
    if len(found) < len(pairs):
        cut = pairs[len(found)].unit
        return [pair for pair in found if pair.unit != cut]
    return found


def judged_pairs(pairs: Iterable[Pair], people: Mapping[int, float]) -> list[JudgedPair]:
    """people: the mean of people's scores by place."""
    return [
        JudgedPair(
            unit=pair.unit,
            place=pair.place,
            score=0.5 if pair.score is None else pair.score,
            first=pair.first,
            second=pair.second,
            length=pair.length,
            human=people.get(pair.place),
        )
        for pair in pairs
    ]


def _arm(name: str, model: str, step: Step, calls: Iterable[StoredCall]) -> ReplayedArm:
    own = [one for one in calls if one.step == step]
    done = [one for one in own if one.state == "done"]
    checked = [one for one in done if one.passed is not None]
    backends: dict[str, int] = {}
    for one in done:
        backends[one.backend] = backends.get(one.backend, 0) + 1
    return ReplayedArm(
        name=name,
        model=model,
        answers=len(done),
        failed=sum(one.state == "failed" for one in own),
        cut=sum(one.cut for one in done),
        ms=sum(one.ms for one in done) / len(done) if done else None,
        tokens=sum(one.completion_tokens for one in done) / len(done) if done else None,
        usd=sum(one.nanos for one in own) / NANOS,
        checked=len(checked),
        passed=sum(bool(one.passed) for one in checked),
        backends=backends,
    )
