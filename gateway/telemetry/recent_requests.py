"""A finished request with its routing decision, as `/admin/requests` and the page show it."""

from msgspec import Struct

from gateway.routing.exclusion import Exclusion
from gateway.telemetry.access_log import AccessLine

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
