"""Pieces of HTML that several parts of the page use."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TypeVar

from markupsafe import Markup

from strowger_gateway.gateway.console.admin.page.formatting import NONE, span
from strowger_gateway.gateway.platform.language import words_of

say = words_of(__file__)

_Value = TypeVar("_Value", bound=str)
_PROBLEM = Markup('<p class="verdict bad" role="alert">{}</p>')
_NOTE = Markup('<p class="verdict good" role="status">{}</p>')
_TIME = Markup('<time datetime="{iso}" title="{iso}">{text}</time>')
_OPTION = Markup('<option value="{}"{}>{}</option>')


def problem(told: str) -> Markup:
    """An error in place; read out by screen readers at once. It may begin with a field's name."""
    field, colon, rest = told.partition(": ")
    if colon and field.replace("_", "").isalpha():
        told = f"{field.replace('_', ' ')}: {rest}"
    return _PROBLEM.format(f"{told[:1].upper()}{told[1:]}") if told else Markup()


def note(told: str) -> Markup:
    return _NOTE.format(told) if told else Markup()


def ago(at: datetime | None, now: datetime, never: str = NONE) -> Markup | str:
    """How long ago, or in how long; the moment itself as its title."""
    if at is None:
        return never
    seconds = (now - at).total_seconds()
    text = (
        say("{time} ago", time=span(seconds))
        if seconds >= 0
        else say("in {time}", time=span(-seconds))
    )
    return _TIME.format(iso=at.astimezone(UTC).isoformat(timespec="seconds"), text=text)


def options(values: Mapping[_Value, str], chosen: str) -> Markup:
    """values: labels by value."""
    return Markup().join(
        _OPTION.format(value, Markup(" selected") if value == chosen else "", label)
        for value, label in values.items()
    )


def dollars(nanos: int) -> str:
    """US dollars for people: cents, and more digits for what is less than ten cents."""
    size = abs(nanos) / 1e9
    if nanos and size < 0.000001:
        return "< $0.000001"
    digits = 2 if size >= 0.1 or not nanos else 4 if size >= 0.001 else 6
    return f"{'-' if nanos < 0 else ''}${size:,.{digits}f}"
