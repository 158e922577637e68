"""The last requests with their routing reasons, as `/admin/requests` and the page show them."""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.observability.telemetry.access_log import AccessLine
from strowger_gateway.gateway.routing.exclusion import Exclusion

MAX_MESSAGE_CHARS = 500
"""Characters of a rejection message, at most: it may quote what the client sent."""

_lines = msgspec.json.Decoder(AccessLine)


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


class Reasons(Struct, frozen=True, gc=False):
    """What RecentRequest has besides the line."""

    rule: int | None
    candidates: tuple[str, ...]
    ruled_out: tuple[tuple[str, str], ...]
    refused: str
    excluded: Exclusion | None


class RecentRequests:
    """The last requests of one process, at least `most` of them if there were so many.

    Lines are kept as the access log encodes them, a third of their size as objects, and are decoded
    for each query.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._batches: deque[tuple[bytes, Sequence[Reasons]]] = deque()

    def add(self, lines: bytes, reasons: Sequence[Reasons]) -> None:
        """Add requests in the order in which they ended. lines: `as_json`, one per reason."""
        self._batches.append((lines, reasons))
        self._count += len(reasons)
        while self._count - len(self._batches[0][1]) >= self._most:
            self._count -= len(self._batches.popleft()[1])

    def newest(self, limit: int, request_id: str = "") -> list[RecentRequest]:
        """Return the last requests, the newest first.

        request_id: only those with this id, the gateway's or the client's.
        """
        found = (
            one
            for one in islice(self._newest(), self._most)
            if not request_id or request_id in (one.line.request_id, one.line.client_request_id)
        )
        return list(islice(found, limit))

    def _newest(self) -> Iterator[RecentRequest]:
        for lines, reasons in reversed(self._batches):
            pairs = zip(_lines.decode_lines(lines), reasons, strict=True)
            for line, one in reversed(list(pairs)):
                yield RecentRequest(
                    line=line,
                    rule=one.rule,
                    candidates=one.candidates,
                    ruled_out=one.ruled_out,
                    refused=one.refused,
                    excluded=one.excluded,
                )
