"""The outcome of each request of a chaos run, and whether it is correct."""

import time
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct, field

from benchmarks.chaos.fleet import Outcome

MOST_REFUSED = 0.001
KILL_S = 1.0
"""A connection that is lost within this many seconds of a worker's kill counts as lost with the
worker. Records of up to one second before the kill are lost, as docs/operations.md says."""

ATTEMPTS = 5
DEADLINE_S = 20.0
WRONG = ("hung", "corrupt", "mixed", "falsely complete")


class Timeline:
    """When each upstream served, and the faults. Times in monotonic seconds."""

    def __init__(self, places: int) -> None:
        self.changes: list[list[tuple[float, bool]]] = [[] for _ in range(places)]
        self.kills: list[float] = []
        self.upstreams_killed = self.reloads = 0
        self.term = float("inf")

    def note(self, place: int, *, serves: bool) -> None:
        self.changes[place].append((time.monotonic(), serves))

    def one_served(self, begun: float, ended: float) -> bool:
        """True if one upstream served during the whole interval."""
        return any(_all_along(changes, begun, ended) for changes in self.changes)

    def killed_at(self, begun: float, ended: float) -> bool:
        """True if a worker was killed during the interval, or shortly before or after it."""
        return any(begun - KILL_S <= kill <= ended + KILL_S for kill in self.kills)


def _all_along(changes: Sequence[tuple[float, bool]], begun: float, ended: float) -> bool:
    before = [serves for at, serves in changes if at <= begun]
    during = [serves for at, serves in changes if begun < at <= ended]
    return bool(before) and before[-1] and all(during)


class Found(Struct, frozen=True, kw_only=True):
    """kinds: number of each outcome. unrecorded: requests whose record is missing."""

    requests: int
    kinds: dict[str, int]
    refusals: dict[str, int] = field(default_factory=dict)
    unrecorded: int
    longest_s: float
    ended_s: float
    timeline: str

    @classmethod
    def of(
        cls,
        outcomes: Sequence[Outcome],
        timeline: Timeline,
        recorded: set[str],
        ended_s: float,
    ) -> "Found":
        """recorded: the ids of requests in the database. ended_s: from SIGTERM to the exit."""
        kinds: Counter[str] = Counter()
        refusals: Counter[str] = Counter()
        for one in outcomes:
            kind = _kind(one, timeline)
            kinds[kind] += 1
            if kind in REFUSED:
                refusals[f"{kind}: {one.status} {one.code}, {one.attempts} attempts"] += 1
        unrecorded = sum(
            bool(one.request_id)
            and one.request_id not in recorded
            and not timeline.killed_at(one.begun, one.ended)
            and one.ended < timeline.term
            for one in outcomes
        )
        return cls(
            requests=len(outcomes),
            kinds=dict(kinds.most_common()),
            refusals=dict(refusals.most_common()),
            unrecorded=unrecorded,
            longest_s=max((one.ended - one.begun for one in outcomes), default=0.0),
            ended_s=ended_s,
            timeline=f"{len(timeline.kills)} workers and {timeline.upstreams_killed} upstreams "
            f"killed, {timeline.reloads - 1} reloads",
        )

    @property
    def refused(self) -> float:
        """Share of the requests that were rejected while an upstream served."""
        return sum(self.kinds.get(kind, 0) for kind in REFUSED) / max(self.requests, 1)

    @property
    def passed(self) -> bool:
        wrong = any(self.kinds.get(kind) for kind in (*WRONG, LOST))
        return not wrong and not self.unrecorded and self.refused <= MOST_REFUSED


EARLY, SPENT = "refused while one served", "attempts or deadline used up while one served"
LOST = "connection lost otherwise"
REFUSED = (EARLY, SPENT)


def _kind(one: Outcome, timeline: Timeline) -> str:
    if one.ended >= timeline.term and one.kind in ("refused", "connection lost"):
        return "while shutting down"
    if one.kind == "connection lost":
        killed = timeline.killed_at(one.begun, one.ended)
        return "lost with a killed worker" if killed else LOST
    if one.kind != "refused":
        return one.kind
    if not timeline.one_served(one.begun, one.ended):
        return "refused while none served all along"
    spent = one.attempts >= ATTEMPTS or one.ended - one.begun >= DEADLINE_S
    return SPENT if spent else EARLY


def shown(found: Found) -> str:
    """The result as text for a terminal."""
    lines = [f"{found.requests:,} requests, {found.timeline}"]
    lines += [f"{count:8,}  {kind}" for kind, count in found.kinds.items()]
    lines += [f"          {count:,} x {what}" for what, count in found.refusals.items()]
    lines.append(f"{found.refused:8.3%}  refused while an upstream served (at most 0.1 %)")
    lines.append(f"{found.unrecorded:8,}  requests without a record")
    lines.append(
        f"longest request {found.longest_s:.1f} s, ended {found.ended_s:.1f} s after SIGTERM"
    )
    return "\n".join([*lines, "passed" if found.passed else "FAILED"])
