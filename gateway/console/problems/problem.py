"""What is wrong now: one problem, its weight, and the view that shows more of it."""

from collections.abc import Iterable, Mapping
from typing import Final, Literal

from msgspec import Struct

Severity = Literal["critical", "warning", "notice"]

ORDER: Final[Mapping[Severity, int]] = {"critical": 0, "warning": 1, "notice": 2}
"""critical: clients get errors, or records are lost. notice: as an operator wants it."""


class GatewayProblem(Struct, frozen=True, kw_only=True):
    """One problem.

    kind:    such as `model_down` or `store_down`; see `words.py`.
    message: one sentence in English, without texts of clients and without keys.
    since:   Unix seconds; `None` if it is not known. `GET /admin/problems` is where it is first
             seen in that case, at the latest.
    model, backend: that it is about, "" for none. subject: another name, such as a budget's.
    cause:   what a vendor or a driver has said last; "" if nothing.
    gateway: the replica that has it, HOST (PID); "" if it is that of all that share the state.
    view:    the path in /admin where one looks.
    values:  of the message, for other languages.
    """

    kind: str
    severity: Severity
    message: str
    since: float | None = None
    model: str = ""
    backend: str = ""
    subject: str = ""
    cause: str = ""
    gateway: str = ""
    view: str = "/admin"
    values: Mapping[str, str] = {}

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What makes it the same problem as a moment ago."""
        return self.kind, self.model, self.backend, self.subject


def by_weight(problems: Iterable[GatewayProblem]) -> list[GatewayProblem]:
    """Sort the heaviest first, and of the same weight the oldest first."""
    return sorted(problems, key=lambda one: (ORDER[one.severity], one.since or 0.0, one.key))
