"""The seam of the audit log: call `record` wherever an operator's action takes effect or fails."""

from typing import Protocol

from strowger_gateway.gateway.audit.event import AuditEvent


class AuditLog(Protocol):
    """Where events are recorded; `AuditSide.log` in a serving process."""

    def record(self, event: AuditEvent) -> None:
        """Record an event. From any thread; never blocks, and never raises.

        Refused and failed requests to /admin, sign-ins among them, are counted together by actor,
        address and reason, so that an attacker cannot fill the disk. `gateway/http/admin_audit.py`
        records them with every answer of /admin; only what succeeds is recorded where it happens.
        """
        ...


class NoAudit:
    """Without a store, or with `audit.log: off`, nothing is recorded."""

    def record(self, event: AuditEvent) -> None:
        """Drop the event."""
