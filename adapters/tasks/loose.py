"""What an answer says besides its results: names and counts, which never make it unreadable.

A count that is missing, not a number, negative or implausible is `None`, as in
`strowger_gateway.schemas.usage.Usage`; numbers in strings count.
"""

import msgspec
from msgspec import Raw, Struct

from strowger_gateway.adapters.json_objects import NULL, UNREADABLE
from strowger_gateway.schemas.tasks.task import searched
from strowger_gateway.schemas.usage import MOST_TOKENS, Usage


class _Units(Struct, frozen=True):
    """Cohere's, and SiliconFlow's."""

    input_tokens: Raw = NULL
    search_units: Raw = NULL


class _Meta(Struct, frozen=True):
    tokens: Raw = NULL
    billed_units: Raw = NULL


class _Counts(Struct, frozen=True):
    """Those of Jina, Voyage, vLLM, Together, DashScope and DeepInfra."""

    prompt_tokens: Raw = NULL
    total_tokens: Raw = NULL
    input_tokens: Raw = NULL


_text = msgspec.json.Decoder(str).decode
_number = msgspec.json.Decoder(float | None, strict=False).decode
_read_units = msgspec.json.Decoder(_Units | None).decode
_read_meta = msgspec.json.Decoder(_Meta | None).decode
_read_counts = msgspec.json.Decoder(_Counts | None).decode


def text_in(*values: Raw) -> str:
    """Return the first of the values that is a text; "" if none is."""
    for value in values:
        try:
            return _text(value)
        except UNREADABLE:
            continue
    return ""


def usage_in(usage: Raw, meta: Raw = NULL) -> Usage:
    """Return the tokens and the search units. meta: Cohere's, whose tokens come second."""
    tokens = _tokens_in(usage)
    try:
        found = _read_meta(meta) or _Meta()
        billed = _read_units(found.billed_units) or _Units()
        read = _read_units(found.tokens) or _Units()
    except UNREADABLE:
        return Usage(prompt_tokens=tokens, total_tokens=tokens)
    for raw in (read.input_tokens, billed.input_tokens):
        tokens = _count(raw) if tokens is None else tokens
    units = _plausible(billed.search_units)
    return Usage(prompt_tokens=tokens, total_tokens=tokens, raw=searched(units) if units else None)


def _tokens_in(usage: Raw) -> int | None:
    try:
        counts = _read_counts(usage) or _Counts()
    except UNREADABLE:
        return None
    named = (counts.prompt_tokens, counts.total_tokens, counts.input_tokens)
    return next((tokens for raw in named if (tokens := _count(raw)) is not None), None)


def _count(raw: Raw) -> int | None:
    number = _plausible(raw)
    return None if number is None else int(number)


def _plausible(raw: Raw) -> float | None:
    try:
        number = _number(raw)
    except UNREADABLE:
        return None
    return number if number is not None and 0 <= number <= MOST_TOKENS else None
