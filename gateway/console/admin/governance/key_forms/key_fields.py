"""What the forms of a key send, as its fields, or with an error for each wrong one."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec
from msgspec import UNSET, Struct

from strowger_gateway.gateway.config.schema.units import MOST_URGENT
from strowger_gateway.gateway.console.admin.governance.forms import listed
from strowger_gateway.gateway.console.admin.governance.key_forms.rule_rows import (
    Kind,
    filled,
    plainly,
    read_rules,
)
from strowger_gateway.gateway.governance.issued_keys.authority import KeyFields
from strowger_gateway.gateway.governance.issued_keys.view import KeyView

_MODEL: Final = re.compile(r"models(\.[0-9]{1,3})?")
_RULE: Final = re.compile(r"(?P<kind>limits|budgets)\[(?P<place>[0-9]+)\](\.(?P<field>[a-z_.]+))?")
_TIMES: Final = ("expires", "not_before")
_LISTS: Final = ("tags", "allowed_networks")


class ReadKey(Struct, frozen=True, kw_only=True):
    """What a form has sent.

    fields: of the key; those with an error are missing. errors: by the name of a form's field.
    places: the rows that limits and budgets come from, by which `error_at` finds them again.
    """

    fields: KeyFields
    errors: Mapping[str, str]
    places: Mapping[Kind, Sequence[int]]

    def error_at(self, param: str | None) -> str:
        """Return the field of the form that an error is about; "" if it has none."""
        rule = _RULE.match(param or "")
        if rule is None:
            name = param or ""
            return f"{name}.0" if name == "models" else name
        places = self.places.get("limits" if rule["kind"] == "limits" else "budgets", ())
        place = int(rule["place"])
        if place >= len(places):
            return ""
        field = (rule["field"] or "").split(".")[-1]
        usual = "requests" if rule["kind"] == "limits" else "usd"
        return f"{rule['kind']}.{places[place]}.{field or usual}"


def read_key(sent: Mapping[str, str]) -> ReadKey:
    """Return all fields that a form has."""
    rules = read_rules(sent)
    errors = dict(rules.errors)
    given: dict[str, object] = {
        "team": sent.get("team", ""),
        "user": sent.get("user", ""),
        "disabled": sent.get("disabled") == "yes",
        "models": models_in(sent) or ("*",),
        "max_priority": sent.get("max_priority") or str(MOST_URGENT),
        **{name: listed(sent.get(name, "")) for name in _LISTS},
    }
    for name in _TIMES:
        try:
            given[name] = _instant(sent.get(name, ""))
        except ValueError:
            errors[name] = "expected a day, or a day and a time in UTC"
    known: dict[str, object] = {}
    for name, value in given.items():
        try:
            one = msgspec.convert({name: value}, KeyFields, strict=False)
        except msgspec.ValidationError as exc:
            message = plainly(str(exc).partition(" - at `$.")[0])
            errors["models.0" if name == "models" else name] = message
        else:
            known[name] = getattr(one, name)
    fields = msgspec.structs.replace(KeyFields(limits=rules.limits, budgets=rules.budgets), **known)
    return ReadKey(fields=fields, errors=errors, places=rules.places)


def models_in(sent: Mapping[str, str]) -> tuple[str, ...]:
    """Return the models of a form, each once; a field may have several, separated by commas."""
    found = (one for name, text in sent.items() if _MODEL.fullmatch(name) for one in listed(text))
    return tuple(dict.fromkeys(found))


def changed_fields(wanted: KeyFields, key: KeyView) -> KeyFields:
    """Return those that differ from the key's; times to the second, as forms have them."""
    values = {
        name: UNSET
        for name in KeyFields.__struct_fields__
        if _to_the_second(getattr(wanted, name)) == _to_the_second(getattr(key, name))
    }
    return msgspec.structs.replace(wanted, **values)


def fields_of(key: KeyView) -> dict[str, str]:
    """Return the fields of a form that shows a key as it is."""
    return {
        "team": key.team,
        "user": key.user,
        **{f"models.{place}": name for place, name in enumerate(key.models)},
        "max_priority": str(key.max_priority),
        "tags": ", ".join(key.tags),
        "allowed_networks": ", ".join(key.allowed_networks),
        "expires": _time_text(key.expires),
        "not_before": _time_text(key.not_before),
        "disabled": "yes" if key.disabled else "",
        **filled("limits", key.limits),
        **filled("budgets", key.budgets),
    }


def _to_the_second(value: object) -> object:
    return value.replace(microsecond=0) if isinstance(value, datetime) else value


def _instant(text: str) -> datetime | None:
    """Raises ValueError."""
    if not text:
        return None
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _time_text(at: datetime | None) -> str:
    return "" if at is None else at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
