"""Runs as operators see them: reports, and pairs whose answers are shown without names."""

import time
from typing import Literal

from msgspec import Struct

from strowger_gateway.gateway.experiments.replay.judge import conversation
from strowger_gateway.gateway.experiments.replay.report import ReplayReport, report_of
from strowger_gateway.gateway.experiments.replay.rows import ReplayRows, ReplayRun, StoredCall
from strowger_gateway.gateway.experiments.replay.summary import ListedRun, listed_run
from strowger_gateway.gateway.experiments.replay.votes import (
    Side,
    VoteRows,
    score_of,
    treatment_left,
)
from strowger_gateway.gateway.parts.process_side import ProcessSide
from strowger_gateway.gateway.storage.sql.base import Store
from strowger_gateway.gateway.storage.store_access import StoreAccess
from strowger_gateway.schemas.errors import Conflict, RouteNotFound

Winner = Literal["control", "treatment", "tie"]


class BlindPair(Struct, frozen=True, kw_only=True):
    """A pair as a voter gets it: nothing says which arm is on which side."""

    run: str
    place: int
    prompt: str
    left: str
    right: str


class RevealedPair(Struct, frozen=True, kw_only=True):
    """A pair after the vote. control, treatment: names of the arms; left_arm, right_arm: whose
    answer is on which side. vote: of this person. verdict: of what decided, see `How`.

    reasons: of the judge, in the order of its questions; they name A and B.
    """

    run: str
    place: int
    control: str
    treatment: str
    prompt: str
    left: str
    left_arm: str
    right: str
    right_arm: str
    vote: Winner
    verdict: Winner
    how: str
    reasons: tuple[str, ...]


class ReplaySide(ProcessSide[None, None]):
    """Raises StoreUnavailable everywhere; RouteNotFound for an unknown run or pair."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access

    async def runs(self) -> list[ListedRun]:
        """Return all runs, the newest first."""

        def read(store: Store) -> list[ListedRun]:
            now = time.time()
            return [listed_run(one, now) for one in ReplayRows(store.database).runs()]

        return await self._access.call(read)

    async def report(self, run: str) -> ReplayReport:
        def read(store: Store) -> ReplayReport:
            rows = ReplayRows(store.database)
            return report_of(rows, VoteRows(store.database), _found(rows, run), time.time())

        return await self._access.call(read)

    async def vote(self, run: str, place: int, side: Side, voter: str) -> None:
        """Store a vote. Raises Conflict for a second one of this person on the pair."""

        def write(store: Store) -> bool:
            rows = ReplayRows(store.database)
            found = _found(rows, run)
            if found.redacted:
                raise RouteNotFound(f"the texts of {run} are deleted", code="unknown_replay")
            _answers(rows, found, place)
            score = score_of(side, treatment_on_left=treatment_left(found, place))
            votes = VoteRows(store.database)
            return votes.add(run, place, voter, score, time.time())

        if not await self._access.call(write):
            raise Conflict(f"{voter} has voted on pair {place} of {run}; the first vote counts")

    async def next_pair(self, run: str, voter: str, after: int = -1) -> BlindPair | None:
        """Return the first pair after a place that this person has not voted on."""

        def read(store: Store) -> BlindPair | None:
            rows = ReplayRows(store.database)
            found = _found(rows, run)
            place = VoteRows(store.database).next_place(run, voter, after)
            return None if place is None else _blind(rows, found, place)

        return await self._access.call(read)

    async def last_vote(self, voter: str) -> RevealedPair | None:
        """Return the pair of a person's last vote; `None` if its texts are deleted, too."""

        def read(store: Store) -> RevealedPair | None:
            rows = ReplayRows(store.database)
            last = VoteRows(store.database).last(voter)
            if last is None:
                return None
            found = rows.run(last[0])
            if found is None or found.redacted:
                return None
            return _revealed(rows, found, last[1], last[2])

        return await self._access.call(read)


def _found(rows: ReplayRows, name: str) -> ReplayRun:
    run = rows.run(name)
    if run is None:
        raise RouteNotFound(f"no replay is named {name!r}", code="unknown_replay")
    return run


def _answers(rows: ReplayRows, run: ReplayRun, place: int) -> tuple[StoredCall, StoredCall]:
    """Return control's and treatment's answer to a prompt."""
    calls = rows.calls(run.name, place)
    control, treatment = calls.get("control"), calls.get("treatment")
    if control is None or treatment is None or {control.state, treatment.state} != {"done"}:
        raise RouteNotFound(
            f"{run.name} has no pair {place} with two answers", code="unknown_replay"
        )
    return control, treatment


def _blind(rows: ReplayRows, run: ReplayRun, place: int) -> BlindPair:
    control, treatment = _answers(rows, run, place)
    sides = (treatment, control) if treatment_left(run, place) else (control, treatment)
    return BlindPair(
        run=run.name,
        place=place,
        prompt=conversation(rows.prompt(run.name, place)),
        left=sides[0].text,
        right=sides[1].text,
    )


def _revealed(rows: ReplayRows, run: ReplayRun, place: int, score: float) -> RevealedPair:
    blind = _blind(rows, run, place)
    pair = rows.pair(run.name, place)
    calls = rows.calls(run.name, place)
    arms = run.definition.control.name, run.definition.treatment.name
    names = arms[::-1] if treatment_left(run, place) else arms
    told = [calls[step].text for step in ("first", "second") if step in calls]
    return RevealedPair(
        run=run.name,
        place=place,
        control=arms[0],
        treatment=arms[1],
        prompt=blind.prompt,
        left=blind.left,
        left_arm=names[0],
        right=blind.right,
        right_arm=names[1],
        vote=_winner(score),
        verdict=_winner(0.5 if pair.score is None else pair.score),
        how=pair.how,
        reasons=tuple(filter(None, told)),
    )


def _winner(score: float) -> Winner:
    return "treatment" if score > 0.5 else "control" if score < 0.5 else "tie"
