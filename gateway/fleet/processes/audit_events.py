"""Audit events of the gateway as a whole: its start and stop, and reloads of its configuration."""

import os
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from strowger_gateway.gateway.audit.event import AuditEvent, Outcome
from strowger_gateway.gateway.audit.log import AuditLog
from strowger_gateway.gateway.config.changes import config_changes, without_secrets
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.text_files import LARGEST
from strowger_gateway.gateway.observability.telemetry.logs import readable
from strowger_gateway.gateway.parts.reload_result import ReloadResult

_MOST_PROBLEMS: Final = 20
_DISTRIBUTION: Final = "strowger-gateway"


@contextmanager
def recorded_run(log: AuditLog, config: Config, source: Path) -> Generator[None]:
    """Record the start of the gateway, and its end when the block ends.

    A start without a stop before it means that the gateway was killed.
    """
    facts = {"version": _version(), "workers": str(config.server.workers), "pid": str(os.getpid())}
    digest = {"file_sha256": file_digest(source)}
    event = AuditEvent(action="gateway.start", actor_kind="gateway", target=readable(str(source)))
    log.record(replace(event, facts={**facts, **digest}))
    try:
        yield
    except BaseException as exc:
        log.record(_stopped(source, facts, outcome="failed", reason=type(exc).__name__))
        raise
    log.record(_stopped(source, facts))


def _stopped(
    source: Path, facts: dict[str, str], outcome: Outcome = "done", reason: str = ""
) -> AuditEvent:
    return AuditEvent(
        action="gateway.stop",
        outcome=outcome,
        actor_kind="gateway",
        target=readable(str(source)),
        reason=reason,
        facts=facts,
    )


def _version() -> str:
    try:
        return version(_DISTRIBUTION)
    except PackageNotFoundError:
        return "not installed"


class ReloadAudit:
    """Records the reloads of one file. Its methods read the file, so call them in a thread."""

    def __init__(self, log: AuditLog, source: Path) -> None:
        self._log = log
        self._source = source

    def applied(self, old: Config, new: Config, by: str) -> ReloadResult:
        """by: what triggered the reload."""
        changes = config_changes(old, new)
        sections = dict.fromkeys(one.field.partition("[")[0].partition(".")[0] for one in changes)
        self._log.record(
            AuditEvent(
                action="config.reload",
                actor_kind="config",
                target=readable(str(self._source)),
                facts={**self._facts(by), "sections": ", ".join(sections)},
                changes=changes,
            )
        )
        return ReloadResult(
            time=time.time(), trigger=by, outcome="applied", digest=new.digest, changes=changes
        )

    def rejected(
        self,
        old: Config,
        new: Config | None,
        by: str,
        problems: Sequence[str],
        outcome: Outcome = "refused",
    ) -> ReloadResult:
        """new: `None` if the file could not be read. outcome: failed for an internal error."""
        configs = (old,) if new is None else (old, new)
        changes = () if new is None else config_changes(old, new)
        shown = "; ".join(problems[:_MOST_PROBLEMS])
        more = len(problems) - _MOST_PROBLEMS
        if more > 0:
            shown += f"; and {more} more problems"
        self._log.record(
            AuditEvent(
                action="config.reload",
                outcome=outcome,
                actor_kind="config",
                target=readable(str(self._source)),
                reason=readable(without_secrets(shown, *configs)),
                facts=self._facts(by),
                changes=changes,
            )
        )
        return ReloadResult(
            time=time.time(),
            trigger=by,
            outcome="rejected" if outcome == "refused" else "failed",
            digest=old.digest,
            problems=tuple(readable(without_secrets(one, *configs)) for one in problems),
            changes=changes,
        )

    def _facts(self, by: str) -> dict[str, str]:
        return {"trigger": by, "file_sha256": file_digest(self._source)}


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal; "" if it cannot be read, or is too large."""
    try:
        if not path.is_file():  # opening a pipe would wait for ever
            return ""
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except OSError:
        return ""
    return sha256(content).hexdigest() if len(content) <= LARGEST else ""
