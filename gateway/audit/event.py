"""One entry of the audit log, before it has its place in the chain. It never holds a secret."""

import os
import re
import socket
import time
from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct, field

Action = Literal[
    "gateway.start",
    "gateway.stop",
    "config.reload",
    "key.create",
    "key.change",
    "key.disable",
    "key.enable",
    "key.rotate",
    "key.revoke",
    "experiment.pause",
    "experiment.resume",
    "experiment.exclude",
    "experiment.include",
    "feedback.remove",
    "backend.drain",
    "backend.disable",
    "backend.enable",
    "session.sign_in",
    "session.sign_out",
    "session.end",
    "payload.read",
    "payload.remove",
    "admin.change",
    "admin.access",
    "audit.prune",
    "store.copy",
]
"""What was done, or tried. docs/audit.md describes each; a test compares.

session.end: an operator ended another session. admin.change: another request to /admin that changed
something; `facts` say what. admin.access: a request to /admin that was refused.
"""

ActorKind = Literal[
    "admin_key",
    "session",
    "key",
    "jwt",
    "config",
    "cli",
    "harm_limit",
    "gateway",
    "unknown",
]
"""What `AuditEvent.actor` is the name of.

admin_key: "". session: the person who signed in at /admin. key: an API key.
jwt: the subject of a token. config: the configuration file, which was edited. cli: the user of the
operating system who ran a command. harm_limit: the experiment's. gateway: the host.
unknown: a client that did not prove who it is; `actor` is what it claims, "" for nothing.
"""

Outcome = Literal["done", "refused", "failed"]
"""refused: by a rule, such as a wrong key. failed: by a fault, such as an unreachable store."""

LONGEST: Final = 256
"""Characters of each text; `clean` cuts longer ones."""

LONGEST_REASON: Final = 2_000
_HOST: Final = socket.gethostname()


def _now_id() -> str:
    return os.urandom(12).hex()


class Change(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A setting that has changed, as text; `None`: it was, or is, not there.

    field: its path, such as `limits[chat].requests`. A secret is `***` before and after.
    """

    field: str
    old: str | None = None
    new: str | None = None


class Actor(Struct, frozen=True, kw_only=True):
    """Who does something, and from which address.

    label: as logs and `created_by` show it; the address is hidden there if the operator wants that.
    """

    kind: ActorKind
    name: str = ""
    session: str = ""
    address: str = ""
    label: str = ""


class AuditEvent(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="audit"):
    """Who did what, from where, when, and how it ended.

    session: an id of the session that appears in no cookie, "" for none.
    address: the client's, behind `server.trusted_proxies`; "" for what came from no client.
    target:  what it was done to: the name of a key or an experiment, or a path.
    reason:  why it was refused or failed, or why it was done.
    facts:   further short texts by name. changes: of settings.
    count:   how many equal events this one stands for.
    time:    Unix seconds. id: unique. host: of the gateway or the command.
    """

    action: Action
    outcome: Outcome = "done"
    actor_kind: ActorKind
    actor: str = ""
    session: str = ""
    address: str = ""
    target: str = ""
    reason: str = ""
    facts: Mapping[str, str] = {}
    changes: tuple[Change, ...] = ()
    count: int = 1
    time: float = field(default_factory=time.time)
    id: str = field(default_factory=_now_id)
    host: str = _HOST

    @staticmethod
    def by(
        actor: Actor,
        action: Action,
        *,
        target: str,
        reason: str = "",
        facts: Mapping[str, str] | None = None,
        changes: tuple[Change, ...] = (),
    ) -> "AuditEvent":
        """Return the event of what an actor has done."""
        return AuditEvent(
            action=action,
            actor_kind=actor.kind,
            actor=actor.name,
            session=actor.session,
            address=actor.address,
            target=target,
            reason=reason,
            facts=facts or {},
            changes=changes,
        )


_KEY: Final = re.compile(r"sk-strw-[0-9A-Za-z]{16,}|\bsk-[0-9A-Za-z_-]{16,}")
"""What looks like an API key, for example after a mistake in a path."""


def clean(text: str, longest: int = LONGEST) -> str:
    """Return the text on one line, cut, without API keys and what no database can store."""
    text = _KEY.sub("sk-***", text)[: longest + 1]
    if not text.isprintable():
        text = "".join(one if one.isprintable() else "\ufffd" for one in text)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
