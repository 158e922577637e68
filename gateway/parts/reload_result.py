"""What has become of a configuration that the gateway has read while it runs."""

from typing import Literal

from msgspec import Struct

from strowger_gateway.gateway.audit.event import Change

Outcome = Literal["applied", "unchanged", "rejected", "failed"]
"""rejected: it has faults. failed: by an internal error. Both keep the one before in effect."""


class ReloadResult(Struct, frozen=True, kw_only=True):
    """Texts are without secrets.

    time: Unix seconds. trigger: what made the gateway read the file, such as a signal.
    digest: of the configuration in effect afterwards; see `gateway/config/digest.py`.
    problems: why it is not in effect. changes: what it changes, or would change.
    """

    time: float
    trigger: str
    outcome: Outcome
    digest: str
    problems: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()

    @property
    def rejected(self) -> bool:
        """Whether the file is not in effect."""
        return self.outcome in ("rejected", "failed")
