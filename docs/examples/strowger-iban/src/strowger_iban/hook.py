"""Finds IBANs: a country's length, and the checksum of ISO 7064 MOD 97-10."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.content.hooks.contract import Span
from strowger_gateway.gateway.content.hooks.text_hook import TextHook

LENGTHS: Final = {
    "AT": 20, "BE": 16, "BG": 22, "CH": 21, "CY": 28, "CZ": 24, "DE": 22, "DK": 18, "EE": 20,
    "ES": 24, "FI": 18, "FR": 27, "GB": 22, "GR": 27, "HR": 21, "HU": 28, "IE": 22, "IT": 27,
    "LT": 20, "LU": 20, "LV": 21, "MT": 31, "NL": 18, "NO": 15, "PL": 28, "PT": 25, "RO": 24,
    "SE": 24, "SI": 19, "SK": 24,
}  # fmt: skip
"""Characters of an IBAN by country. https://www.swift.com/standards/data-standards/iban"""

_begins = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}[0-9]{2}")


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """countries: their codes; () for all that are known."""

    countries: tuple[str, ...] = ()
    replacement: str = "[iban]"


class IbanHook(TextHook):
    """Finds every IBAN that is not a part of a longer word."""

    def __init__(self, settings: Settings) -> None:
        self._countries = frozenset(settings.countries or LENGTHS)
        self._replacement = settings.replacement

    def find(self, text: str, begin: int) -> Sequence[Span]:
        return [*self._spans(text, begin)]

    def _spans(self, text: str, begin: int) -> Iterator[Span]:
        for match in _begins.finditer(text, begin):
            country = match[0][:2]
            if country not in self._countries:
                continue
            end = _end(text, match.start(), LENGTHS[country])
            if end is not None and _is_valid(text[match.start() : end].replace(" ", "")):
                yield Span(start=match.start(), end=end, rule="iban", replacement=self._replacement)


def _end(text: str, start: int, length: int) -> int | None:
    """Return where a number of so many characters ends, without its single spaces."""
    at, left = start, length
    while left and at < len(text):
        if text[at] == " ":
            if text[at - 1] == " ":
                return None
        elif text[at].isascii() and text[at].isalnum():
            left -= 1
        else:
            return None
        at += 1
    longer = at < len(text) and text[at].isalnum()
    return None if left or longer else at


def _is_valid(iban: str) -> bool:
    turned = iban[4:] + iban[:4]
    return turned.isupper() and int("".join(str(int(one, 36)) for one in turned)) % 97 == 1


def hook(settings: Mapping[str, object]) -> IbanHook:
    """What the entry point names. Raises ValueError, msgspec.ValidationError."""
    asked = msgspec.convert(settings, Settings)
    unknown = [one for one in asked.countries if one not in LENGTHS]
    if unknown:
        raise ValueError(f"countries: {unknown[0]!r} is not known; known: {', '.join(LENGTHS)}")
    return IbanHook(asked)
