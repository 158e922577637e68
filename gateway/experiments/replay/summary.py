"""What weakens a report, in sentences, and runs in a list."""

from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.experiments.replay.report import ReplayReport
from strowger_gateway.gateway.experiments.replay.rows import ReplayRun

_MANY: Final = 0.05
"""The share from which failures and missing verdicts are worth a sentence."""


class ListedRun(Struct, frozen=True, kw_only=True):
    """created: as a date. state: working, or why it ended."""

    run: str
    control: str
    treatment: str
    source: str
    judge: str
    pairs: int
    created: str
    state: str


def listed_run(run: ReplayRun, now: float) -> ListedRun:
    """now: Unix seconds."""
    return ListedRun(
        run=run.name,
        control=run.definition.control.name,
        treatment=run.definition.treatment.name,
        source=run.definition.source,
        judge=run.definition.judge,
        pairs=run.pairs,
        created=datetime.fromtimestamp(run.created, UTC).strftime("%Y-%m-%d %H:%M UTC"),
        state="working" if run.holder and now < run.held_until else run.ended or "stopped",
    )


def notes(found: ReplayReport) -> tuple[str, ...]:
    """Return what a reader has to know before trusting the verdict; without full stops."""
    said: list[str] = []
    rate = found.win_rate
    if rate.order is not None:
        same = f"{100 * rate.order.consistent:.0f} %"
        said.append(f"the judge gives the same verdict in both orders for {same} of the pairs")
        if rate.order.shown:
            place = "first" if rate.order.first > 0.5 else "second"
            said.append(
                f"the judge prefers the answer shown {place}; both orders are asked, so this makes "
                "the interval wider and moves nothing"
            )
    if rate.length is not None and rate.length.shown:
        kind = "longer" if rate.length.longer > 0.5 else "shorter"
        equal = rate.length.equal
        told = f"; at equal lengths the win rate is {100 * equal:.1f} %" if equal else ""
        said.append(f"the judge prefers the {kind} answer{told}")
    if found.unjudged > _MANY * max(1, found.judgements):
        said.append(
            f"{found.unjudged:,} of {found.judgements:,} questions got no verdict and count as ties"
        )
    if found.cut:
        said.append(
            f"the judge has not seen everything in {found.cut:,} questions: long texts are cut, "
            "images and files left out"
        )
    said += [
        f"{arm.name} gave no answer to {arm.failed:,} prompts, and loses them unless the other arm "
        "gave none"
        for arm in found.arms
        if arm.failed
    ]
    said += [
        f"{arm.cut:,} of {arm.answers:,} answers of {arm.name} end at their limit of tokens"
        for arm in found.arms
        if arm.cut
    ]
    if rate.calibration is not None:
        people = rate.calibration
        agreed = people.agreement
        said.append(
            f"people voted on {people.pairs:,} pair{'s' if people.pairs > 1 else ''}"
            + ("" if agreed is None else f" and agree with the judge on {100 * agreed:.0f} %")
        )
    return tuple(said)
