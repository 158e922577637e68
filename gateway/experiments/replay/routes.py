"""What operators get of replays: routes under /admin, and the view with pairs to vote on.

Prompts and answers are payloads, so they need the role that reads payloads; reading a pair is
recorded in the audit log as reading a payload is.
"""

from typing import Annotated, Final

from markupsafe import Markup
from msgspec import Meta, Struct

from strowger_gateway.gateway.audit.event import AuditEvent
from strowger_gateway.gateway.experiments.replay.page import page
from strowger_gateway.gateway.experiments.replay.process_side import (
    BlindPair,
    ReplaySide,
    RevealedPair,
)
from strowger_gateway.gateway.experiments.replay.report import ReplayReport
from strowger_gateway.gateway.experiments.replay.summary import ListedRun
from strowger_gateway.gateway.experiments.replay.votes import Side
from strowger_gateway.gateway.observability.recording.process_side import AuditSide
from strowger_gateway.gateway.parts.console import AdminCall, AdminRoute, Nothing, PageView
from strowger_gateway.gateway.platform.language import sentence, words_of

MOST_PLACES: Final = 1_000_000
"""More than a run has."""

RunName = Annotated[str, Meta(max_length=200, description="name of a run")]


class ReplayList(Struct, frozen=True, kw_only=True):
    """Newest first."""

    replays: list[ListedRun]


class OfRun(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    run: RunName


class ReplayView(Struct, frozen=True, kw_only=True):
    """run: "" for that of the person's last vote, or the newest. after: a place to skip to."""

    run: RunName = ""
    after: Annotated[int, Meta(ge=-1, le=MOST_PLACES)] = -1


class NextPair(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    run: RunName
    after: Annotated[
        int, Meta(ge=-1, le=MOST_PLACES, description="only pairs after this place")
    ] = -1


class PairToVote(Struct, frozen=True, kw_only=True):
    """pair: `None` if this person has voted on all."""

    pair: BlindPair | None


class ReplayVote(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """side: the better answer."""

    run: RunName
    place: Annotated[int, Meta(ge=0, le=MOST_PLACES)]
    side: Side


class VotedPair(Struct, frozen=True, kw_only=True):
    """pair: with its arms; `None` if its texts are deleted by now."""

    pair: RevealedPair | None


async def _runs(call: AdminCall[Nothing]) -> ReplayList:
    return ReplayList(replays=await call.side(ReplaySide).runs())


async def _report(call: AdminCall[OfRun]) -> ReplayReport:
    return await call.side(ReplaySide).report(call.given.run)


async def _next(call: AdminCall[NextPair]) -> PairToVote:
    given = call.given
    found = await call.side(ReplaySide).next_pair(given.run, call.who, given.after)
    _read(call, found)
    return PairToVote(pair=found)


async def _vote(call: AdminCall[ReplayVote]) -> VotedPair:
    given, side = call.given, call.side(ReplaySide)
    await side.vote(given.run, given.place, given.side, call.who)
    call.facts.update(replay=given.run, pair=str(given.place), vote=given.side)
    return VotedPair(pair=await side.last_vote(call.who))


async def _view(call: AdminCall[ReplayView]) -> Markup:
    side, given = call.side(ReplaySide), call.given
    runs = await side.runs()
    last = await side.last_vote(call.who)
    name = given.run or (last.run if last else runs[0].run if runs else "")
    if not name:
        return page(runs, None, None, None)
    report = await side.report(name)
    found = await side.next_pair(name, call.who, given.after)
    _read(call, found)
    return page(runs, report, last if last is not None and last.run == name else None, found)


def _read(call: "AdminCall[NextPair] | AdminCall[ReplayView]", pair: BlindPair | None) -> None:
    """Record that a person has read a prompt and its answers."""
    if pair is not None:
        event = AuditEvent.by(call.by, "payload.read", target=f"replay {pair.run} {pair.place}")
        call.side(AuditSide).log.record(event)


_VOTE: Final = AdminRoute(
    method="POST",
    path="/replay-votes",
    role="admin",
    summary="Vote on a pair of answers of a replay, blind; the answer reveals the arms",
    takes=ReplayVote,
    returns=VotedPair,
    answer=_vote,
)
ROUTES: Final = (
    AdminRoute(
        method="GET",
        path="/replays",
        role="viewer",
        summary="Runs of `strowger experiments replay`",
        takes=Nothing,
        returns=ReplayList,
        answer=_runs,
    ),
    AdminRoute(
        method="GET",
        path="/replay-report",
        role="viewer",
        summary="The report of a replay",
        takes=OfRun,
        returns=ReplayReport,
        answer=_report,
    ),
    AdminRoute(
        method="GET",
        path="/replay-pair",
        role="admin",
        summary="The next pair of answers of a replay to vote on; the audit log records the access",
        takes=NextPair,
        returns=PairToVote,
        answer=_next,
    ),
    _VOTE,
)
VIEW: Final = PageView(
    name="replay",
    title=sentence("Replay"),
    say=words_of(__file__),
    group="experiments",
    role="admin",
    takes=ReplayView,
    render=_view,
    forms={"vote": _VOTE},
)
