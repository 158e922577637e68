"""Audit events of requests to /admin: sign-outs, and everything that was refused.

What a request changes is recorded where it is changed. This is called with every answer of /admin,
when its access line is written.
"""

from typing import Final

from litestar.types import HTTPScope
from msgspec import Struct
from msgspec.structs import replace

from strowger_gateway.gateway.audit.event import Action, Actor, AuditEvent
from strowger_gateway.gateway.audit.log import AuditLog

_SIGN_INS: Final = (("POST", "/admin/sign-in"), ("GET", "/admin/sign-in/callback"))
"""Those that succeed are recorded where the session is opened."""

_SIGN_OUT: Final = "/admin/sign-out"
_READING: Final = ("GET", "HEAD")
_DENIED: Final = (401, 403, 429)
"""Statuses that refuse also a request which only reads."""


class AdminAnswer(Struct, frozen=True, kw_only=True):
    """The end of a request to /admin.

    by: who sent it. denied: why it was refused, "" if it was not. error: the code in the answer.
    """

    status: int
    by: Actor
    denied: str
    error: str


def record_answer(log: AuditLog, scope: HTTPScope, answer: AdminAnswer) -> None:
    """Record a request to /admin, unless it only read, or `gateway/audit` has what it changed."""
    method, path = scope["method"], scope["path"].rstrip("/")
    failed = answer.status >= 400
    if (method, path) in _SIGN_INS:
        if failed:
            log.record(_event("session.sign_in", answer))
    elif method == "POST" and path == _SIGN_OUT:
        if failed or answer.by.kind != "unknown":
            log.record(_event("session.sign_out", answer))
    elif _refused(scope, answer):
        log.record(_event("admin.access", answer, f"{method} {path}"))


def _refused(scope: HTTPScope, answer: AdminAnswer) -> bool:
    """A browser without a session has done nothing wrong: it is sent to the form."""
    if scope["method"] not in _READING:
        return answer.status >= 400
    headers = scope["headers"]
    sent = answer.by.kind != "unknown" or any(name == b"authorization" for name, _ in headers)
    return answer.status in _DENIED and sent


def _event(action: Action, answer: AdminAnswer, target: str = "") -> AuditEvent:
    event = AuditEvent.by(answer.by, action, target=target)
    if answer.status < 400:
        return event
    return replace(
        event,
        outcome="failed" if answer.status >= 500 else "refused",
        reason=answer.denied or answer.error,
        facts={"status": str(answer.status)},
    )
