"""Limits and budgets of a key as one line of text each, for the command and for forms.

`requests=60,tokens=100000,per=minute`; a field with several values occurs several times. The same
as JSON is read, too.
"""

import re
from collections.abc import Iterator
from typing import Final, TypeVar, get_args, get_type_hints

import msgspec

from strowger_gateway.gateway.config.schema.budgets import CountUsd, OwnBudget, UseModel
from strowger_gateway.gateway.config.schema.limits import OwnLimit
from strowger_gateway.schemas.errors import InvalidRequest

_Rule = TypeVar("_Rule", OwnLimit, OwnBudget)
_LISTS: Final = frozenset({"models", "alerts"})
_SHORT: Final = {"use_model": "on_exceeded", "count_usd": "unknown_price"}
"""Fields that are written without the object around them."""
_NOT_A_CHOICE: Final = re.compile(r"Invalid enum value (?P<given>.*) - at `\$\.(?P<field>\w+)`")


def limit_from(text: str) -> OwnLimit:
    """Raises InvalidRequest."""
    return _read(text, OwnLimit)


def budget_from(text: str) -> OwnBudget:
    """Raises InvalidRequest."""
    return _read(text, OwnBudget)


def rule_text(rule: OwnLimit | OwnBudget) -> str:
    """Return the line that reads as this rule."""
    pairs = list(_pairs(rule))
    if any("," in value or value != value.strip() for _, value in pairs):
        return msgspec.json.encode(rule).decode()
    return ",".join(f"{name}={value}" for name, value in pairs)


def _read(text: str, into: type[_Rule]) -> _Rule:
    try:
        if text.lstrip().startswith("{"):
            return msgspec.json.decode(text.encode(), type=into)
        return msgspec.convert(_given(text), into, strict=False)
    except (msgspec.DecodeError, UnicodeEncodeError) as exc:
        example = "requests=60,per=minute" if into is OwnLimit else "usd=100,per=month"
        raise InvalidRequest(f"{text!r}: {_said(str(exc), into)}; write it as {example}") from None


def _said(message: str, into: type[OwnLimit] | type[OwnBudget]) -> str:
    """Name what may be written where msgspec names only what is wrong."""
    if message.startswith("Object contains unknown field"):
        known = ", ".join(into.__struct_fields__)
        return message.replace("Object contains unknown", "unknown") + f" (known: {known})"
    if (choice := _NOT_A_CHOICE.fullmatch(message)) is None:
        return message
    field = choice["field"]
    allowed = ", ".join(_choices(get_type_hints(into)[field]))
    return f"{field} is {choice['given']}, but must be one of {allowed}"


def _choices(annotation: object) -> Iterator[str]:
    """Yield the texts of a Literal, also of one among others."""
    for one in get_args(annotation):
        if isinstance(one, str):
            yield one
        else:
            yield from _choices(one)


def _given(text: str) -> dict[str, object]:
    """Raises msgspec.ValidationError."""
    given: dict[str, object] = {}
    lists: dict[str, list[str]] = {}
    for part in text.split(","):
        name, equals, value = (one.strip() for one in part.partition("="))
        if not equals or not name:
            raise msgspec.ValidationError(f"{part.strip()!r} is not field=value")
        if name in _LISTS:
            lists.setdefault(name, []).append(value)
            continue
        if name in given or (place := _SHORT.get(name, name)) in given:
            raise msgspec.ValidationError(f"{name} is given twice")
        given[place] = {name: value} if name in _SHORT else value
    return {**given, **lists}


def _pairs(rule: OwnLimit | OwnBudget) -> Iterator[tuple[str, str]]:
    fresh = type(rule)()
    for name in rule.__struct_fields__:
        value: object = getattr(rule, name)
        if name != "per" and value == getattr(fresh, name):
            continue
        match value:
            case UseModel():
                yield "use_model", value.use_model
            case CountUsd():
                yield "count_usd", f"{value.count_usd:.15g}"
            case tuple():
                for one in rule.models if name == "models" else _alerts(rule):
                    yield name, str(one)
            case bool():
                yield name, str(value).lower()
            case float():
                yield name, f"{value:.15g}"
            case _:
                yield name, str(value)


def _alerts(rule: OwnLimit | OwnBudget) -> Iterator[str]:
    if isinstance(rule, OwnBudget):
        yield from (f"{one:.15g}" for one in rule.alerts)
