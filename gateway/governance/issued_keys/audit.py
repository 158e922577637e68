"""The audit events of issued keys: what a change of a key changed, without its secrets."""

from collections.abc import Iterator, Sequence

import msgspec

from strowger_gateway.gateway.audit.chain import timestamp
from strowger_gateway.gateway.audit.event import Action, Actor, AuditEvent, Change
from strowger_gateway.gateway.config.schema.budgets import OwnBudget
from strowger_gateway.gateway.config.schema.limits import OwnLimit
from strowger_gateway.gateway.governance.issued_keys.rule_text import rule_text
from strowger_gateway.gateway.storage.sql.key_rows import IssuedKey

_SETTINGS = (
    *("team", "user", "models", "max_priority", "tags", "expires", "not_before"),
    *("allowed_networks", "disabled"),
)
_TIMES = ("expires", "not_before")


def key_event(by: Actor, overlap_s: float, old: IssuedKey | None, new: IssuedKey) -> AuditEvent:
    """Return the event of a change. overlap_s: of a rotation, seconds. old: `None` if it is new."""
    before = IssuedKey(name=new.name) if old is None else old
    changes = tuple(
        Change(field=name, old=_text(before, name), new=_text(new, name))
        for name in _SETTINGS
        if getattr(before, name) != getattr(new, name)
    )
    changes += tuple(_rules("limits", before.limits, new.limits))
    changes += tuple(_rules("budgets", before.budgets, new.budgets))
    facts: dict[str, str] = {}
    if new.secrets and (old is None or new.secrets != old.secrets):
        facts["secret_ends_in"] = new.secrets[0].last4
    if old is not None and facts:
        facts["overlap_s"] = f"{overlap_s:g}"
    return AuditEvent.by(by, _action(old, new), target=new.name, facts=facts, changes=changes)


def _rules(
    field: str, old: Sequence[OwnLimit | OwnBudget], new: Sequence[OwnLimit | OwnBudget]
) -> Iterator[Change]:
    """One change for each limit or budget that differs, by its name."""
    before = {one.name or one.per: rule_text(one) for one in old}
    after = {one.name or one.per: rule_text(one) for one in new}
    for name in {**before, **after}:
        if before.get(name) != after.get(name):
            yield Change(field=f"{field}[{name}]", old=before.get(name), new=after.get(name))


def _action(old: IssuedKey | None, new: IssuedKey) -> Action:
    if old is None:
        return "key.create"
    if new.revoked is not None:
        return "key.revoke"
    if new.secrets != old.secrets:
        return "key.rotate"
    if new.disabled != old.disabled:
        return "key.disable" if new.disabled else "key.enable"
    return "key.change"


def _text(key: IssuedKey, name: str) -> str | None:
    value: object = getattr(key, name)
    if value is None or value == "":
        return None
    if name in _TIMES and isinstance(value, float):
        return timestamp(value)
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
