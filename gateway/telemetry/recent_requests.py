"""The most recent requests of this process with their routing decisions, in memory."""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice

from msgspec import Struct

from gateway.routing.exclusion import Exclusion
from gateway.telemetry.access_log import AccessLine

CAPACITY = 1000
"""Requests; about 2 MB. They include no prompts or responses."""

MAX_MESSAGE_CHARS = 500
"""Characters of a rejection message, at most: it may quote what the client sent."""


class RecentRequest(Struct, frozen=True, kw_only=True, gc=False):
    """The outcome of one request, and why it was routed as it was.

    rule:       index of the `when` rule that matched, from 0; `None` if none did.
    candidates: backends in order of preference, tried or not.
    ruled_out:  the other backends, each with the reason.
    refused:    the gateway's error message if the request reached no backend, else "".
    excluded:   why it does not count in its model's experiment; `None`: it does, or there is none.
    """

    line: AccessLine
    rule: int | None = None
    candidates: tuple[str, ...] = ()
    ruled_out: tuple[tuple[str, str], ...] = ()
    refused: str = ""
    excluded: Exclusion | None = None


class RecentRequests:
    """A ring buffer of the newest requests."""

    def __init__(self, kept: int = CAPACITY) -> None:
        self._ring: deque[RecentRequest] = deque(maxlen=kept)

    def add(self, decisions: Iterable[RecentRequest]) -> None:
        """Add requests in the order in which they ended."""
        self._ring.extend(decisions)

    def recent(self, limit: int, request_id: str = "") -> list[RecentRequest]:
        """Newest first. request_id: only requests with this id, the gateway's or the client's."""
        found = reversed(self._ring) if not request_id else self._of(request_id)
        return list(islice(found, limit))

    def _of(self, request_id: str) -> Iterator[RecentRequest]:
        for decision in reversed(self._ring):
            if request_id in (decision.line.request_id, decision.line.client_request_id):
                yield decision
