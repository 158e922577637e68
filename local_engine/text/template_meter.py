"""Measure what a chat template computes, and stop it where no conversation needs that much."""

import re
import time
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import Final, cast

import jinja2
from jinja2.runtime import Undefined
from jinja2.utils import Namespace

SECONDS: Final = 5.0
"""Processor time for one conversation; the largest that are accepted take a tenth of it."""

BUILT: Final = 1 << 28
"""Characters, items and digits that one conversation may build in all operations together."""

WIDEST: Final = 1000
"""Columns of a padded text, and numbers inside formats."""

LARGEST_BITS: Final = 4096

_EVERY: Final = 64
"""Turns between two looks at the clock."""

_NUMBERS: Final = re.compile(r"\d{4,}")
_WIDTH_ARGUMENT: Final = re.compile(r"%[^%a-zA-Z]*\*|\{[^{}]*\{")
"""Formats that take a width from their arguments."""


class TemplateTooLarge(jinja2.TemplateError):
    """The template needs more time or memory than any conversation should."""


class Meter:
    """Counts for one conversation; its methods raise TemplateTooLarge."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._until = time.thread_time() + seconds
        self._turns = 0
        self._built = 0

    def turn(self) -> None:
        self._turns += 1
        if self._turns % _EVERY == 0 and time.thread_time() > self._until:
            raise TemplateTooLarge(f"it takes more than {self._seconds:g} s of processor time")

    def build(self, size: int) -> None:
        self._built += size
        if self._built > BUILT:
            raise TemplateTooLarge(f"it builds more than {BUILT:,} characters")

    def walk(self, value: object) -> None:
        """Count everything inside a value as often as writing it would."""
        pending = [value]
        while pending:
            one = pending.pop()
            self.turn()
            if isinstance(one, Namespace):
                one = cast(object, getattr(one, "_Namespace__attrs"))  # noqa: B009  not this class's own
            if isinstance(one, Mapping):
                found = cast(Mapping[object, object], one)
                pending += found.keys()
                pending += found.values()
                self.build(len(found))
            elif isinstance(one, list | tuple | set | frozenset):
                pending += cast(Iterable[object], one)
                self.build(len(cast(list[object], one)))
            else:
                self.build(size_of(one))


METER: ContextVar[Meter | None] = ContextVar("template meter", default=None)


def measure() -> Meter:
    """Return this rendering's meter; a new one for what jinja2 computes while it compiles."""
    meter = METER.get()
    return Meter() if meter is None else meter


def text_of_value(value: object) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, int | float | Undefined):
        measure().walk(value)
    return str(value)


def size_of(value: object) -> int:
    if isinstance(value, str | bytes):
        return len(value)
    return value.bit_length() if isinstance(value, int) else 1


def number_in(value: object) -> int:
    return value if isinstance(value, int) else 1


def product(left: object, right: object) -> int:
    for one, times in ((left, right), (right, left)):
        if isinstance(one, str | bytes | list | tuple) and isinstance(times, int):
            if isinstance(one, list | tuple):
                measure().walk(cast(object, one))
            return len(cast(str, one)) * max(0, times)
    check_digits(number_in(left).bit_length() + number_in(right).bit_length())
    return 1


def check_digits(bits: int) -> None:
    if bits > LARGEST_BITS:
        raise TemplateTooLarge(f"it computes numbers of more than {LARGEST_BITS} bits")


def check_width(*widths: object) -> None:
    for width in widths:
        wide = isinstance(width, int | float) and abs(width) > WIDEST
        if wide or (isinstance(width, str) and len(width) > WIDEST):
            raise TemplateTooLarge(f"it pads a text to more than {WIDEST} characters")


def check_format(text: str, arguments: Iterable[object]) -> None:
    given = list(arguments)
    if _NUMBERS.search(text) or _WIDTH_ARGUMENT.search(text):
        raise TemplateTooLarge("it formats a text with a width that is too large or not fixed")
    meter = measure()
    for one in given:
        meter.walk(one)
    longest = max((len(one) for one in given if isinstance(one, str)), default=0)
    meter.build(len(text) + (text.count("{") + text.count("%")) * longest)


def check_replace(text: str, old: str, new: str) -> None:
    places = text.count(old) if old else len(text) + 1
    measure().build(len(text) + places * len(new))


def check_join(items: list[object], separator: int) -> None:
    measure().build(sum(map(size_of, items)) + separator * len(items))
