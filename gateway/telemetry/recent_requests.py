"""The last requests of this process with what was decided about each, in memory."""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice

from msgspec import Struct

from gateway.routing.exclusion import LeftOut
from gateway.telemetry.access_log import AccessLine

CAPACITY = 1000
"""About two megabytes. No content of requests or answers is among it."""

MAX_MESSAGE_CHARS = 500
"""Characters of a refusal: some repeat what a client sent."""


class RecentRequest(Struct, frozen=True, kw_only=True, gc=False):
    """What became of one request, and why.

    rule:       the place of the `when` rule that matched, from 0; `None` where none did.
    candidates: backends in the order in which they would be asked, asked or not.
    ruled_out:  those that could not be, each with the reason.
    refused:    our own words where the request reached no backend, else "".
    excluded:   why it does not count in its model's experiment; `None`: it does, or there is none.
    """

    line: AccessLine
    rule: int | None = None
    candidates: tuple[str, ...] = ()
    ruled_out: tuple[tuple[str, str], ...] = ()
    refused: str = ""
    excluded: LeftOut | None = None


class RecentRequests:
    """A ring: the newest push the oldest out."""

    def __init__(self, kept: int = CAPACITY) -> None:
        self._ring: deque[RecentRequest] = deque(maxlen=kept)

    def add(self, decisions: Iterable[RecentRequest]) -> None:
        """In the order in which the requests ended."""
        self._ring.extend(decisions)

    def recent(self, limit: int, request_id: str = "") -> list[RecentRequest]:
        """The newest first; with an id, ours or the client's own, those that have it."""
        found = reversed(self._ring) if not request_id else self._of(request_id)
        return list(islice(found, limit))

    def _of(self, request_id: str) -> Iterator[RecentRequest]:
        for decision in reversed(self._ring):
            if request_id in (decision.line.request_id, decision.line.client_request_id):
                yield decision
