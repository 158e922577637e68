"""Examine JSON from outside before its values are used: how much it is, and what it names twice.

A decoder runs in one call that no other thread can interrupt. Its time and memory depend on the
number of values, not of bytes: a megabyte of `[],[],[]` takes longer than twenty megabytes of
prompt, and 18 MB of it become 700 MB of lists. Everything that a client or a backend sends, and
that becomes Python objects of its own making, is therefore measured first: whole bodies where they
arrive, and JSON within strings (the arguments of a tool call) here.

An object may have one name twice: `{"content": "a", "content": "b"}`. RFC 8259 (section 4) leaves
open which value counts. This gateway reads the last one, and so do most backends; some read the
first. A cache or a guardrail has then read another value than the backend: `repeated_name`.
"""

import json
from collections import Counter
from typing import Final, cast

import msgspec
from msgspec import Raw, Struct

DIRECT: Final = 64 * 1024
"""Characters of JSON that are decoded without measuring: at most 5 ms and 3 MB."""

MOST_WIDE: Final = 6 * 1024 * 1024
"""Maximum bytes of one string with characters beyond ASCII: 10 to 20 ms of decoding."""

MOST_ESCAPES: Final = 1_000_000
"""Maximum escapes in one string: 10 to 20 ms. Base64 with escaped slashes has 500,000 in 32 MB."""

MOST_EXAMINED: Final = 16 * 1024 * 1024
"""Characters of growing JSON that are examined in total: some 20 ms."""

PIECE: Final = 256 * 1024
"""Bytes scanned in one call: less than 10 ms in the worst case."""

_VALUE_BYTES: Final = 40
"""Estimated bytes of a decoded value, including its place in a list or an object."""

MOST_LIKELY: Final = 700_000
"""Log probabilities that do not count: of 32,768 tokens, each with 20 alternatives."""

_LIKELY: Final = b'"logprob'
"""Begins `logprob` and Gemini's `logProbability`, in lower case."""

_BLANK: Final = " \t\r\n"
_decode: Final = msgspec.json.Decoder().decode
_raw: Final = msgspec.json.Decoder(Raw).decode


class Limits(Struct, frozen=True, kw_only=True):
    """The most that is decoded.

    fields: of all objects together. containers: objects and lists. strings: with the names of
    fields. values: of lists and objects, which bounds lists of numbers.
    likely: log probabilities of tokens do not count, because they are decoded token by token.
    """

    fields: int
    containers: int
    strings: int
    values: int
    likely: bool = False


BODY: Final = Limits(fields=50_000, containers=50_000, strings=200_000, values=1_000_000)
"""Of a request, and of JSON within strings: some 20 ms of decoding."""

ANSWER: Final = Limits(
    fields=250_000, containers=250_000, strings=1_000_000, values=10_000_000, likely=True
)
"""Of a whole answer of a backend, in which vectors have a number per dimension: some 100 ms of
decoding."""

EVENT: Final = Limits(
    fields=50_000, containers=50_000, strings=200_000, values=1_000_000, likely=True
)
"""Of one event of a stream. The last one of the Responses API repeats the whole answer."""


class TooComplex(Exception):
    """More than is decoded. problem: what there is too much of. remedy: what the sender can do."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy


class NotJson(ValueError):
    """The text is not JSON, or nested too deeply."""


class Complexity(Struct, kw_only=True):
    """What JSON contains. values: counted by commas; containers: objects and lists.

    likely: log probabilities, by the names of their fields.
    """

    values: int = 1
    fields: int = 0
    containers: int = 0
    strings: int = 0
    likely: int = 0

    @property
    def size(self) -> int:
        """Return the estimated bytes of the decoded values, in addition to the JSON itself."""
        return _VALUE_BYTES * (self.values + self.strings + 2 * self.containers)


_OF_LIKELY: Final = Complexity(values=16, fields=4, containers=3, strings=6)
"""Of one log probability: its own fields, the token's bytes, and its part of lists."""


class Meter:
    """Measures what is decoded of one request or answer: the limits hold for all of it together.

    weight: what has been measured. size: characters that `decode` was called with.
    """

    __slots__ = ("_limits", "size", "weight")

    def __init__(self, limits: Limits = BODY) -> None:
        self._limits = limits
        self.weight = Complexity()
        self.size = 0

    def decode(self, text: "str | bytes | Raw") -> object:
        """Return the value of a JSON text. Raises TooComplex before decoding it, and NotJson."""
        self.size += len(memoryview(text)) if isinstance(text, Raw) else len(text)
        if self.size > DIRECT:
            self.add(text)
        return decoded(text)

    def add(self, text: "str | bytes | Raw", end: int | None = None) -> Complexity:
        """Count a JSON text, up to `end`, and return the sum so far. Raises TooComplex."""
        source = bytes(text) if isinstance(text, Raw) else text
        _count_all(source, len(source) if end is None else end, self.weight, self._limits)
        return self.weight


def measure(body: "str | bytes", end: int, limits: Limits = BODY) -> Complexity:
    """Count what is outside of strings in the first `end` bytes, piece by piece.

    Raises TooComplex, which names the limit, as soon as one limit is exceeded; nothing else,
    whatever the bytes are.
    """
    weight = Complexity()
    _count_all(body, end, weight, limits)
    return weight


def read_json(text: "str | bytes | Raw") -> object:
    """Return the value of JSON from outside. Raises NotJson, also for more than is decoded."""
    try:
        return Meter().decode(text)
    except TooComplex as exc:
        raise NotJson(exc.problem) from None


def kind_of_json(text: str) -> str:
    """Return the first character of a JSON value, `{` for an object; "" if the text is not JSON.

    Makes no objects of it. What has more than a whole answer may have counts as not JSON, because
    even skipping it takes too long.
    """
    try:
        if len(text) > DIRECT:
            measure(text, len(text), ANSWER)
        _raw(text)
    except (ValueError, RecursionError, TooComplex):
        return ""
    return text.lstrip(_BLANK)[:1]


class JsonPieces(list[str]):
    """JSON that arrives in pieces, which is examined again and again until it is complete."""

    __slots__ = ("_examined",)

    def __init__(self) -> None:
        super().__init__()
        self._examined = 0

    def kind(self) -> str:
        """Return `kind_of_json` of all pieces together.

        After MOST_EXAMINED characters in total always "": the work would grow by the square of the
        number of pieces.
        """
        if self._examined > MOST_EXAMINED:
            return ""
        whole = "".join(self)
        self._examined += len(whole)
        return kind_of_json(whole)


def decoded(text: "str | bytes | Raw") -> object:
    """Return the value of JSON that has been measured, as a part of a body. Raises NotJson."""
    try:
        return _decode(text)
    except (ValueError, RecursionError) as exc:  # msgspec.DecodeError is a ValueError
        raise NotJson(str(exc)) from None


class _Text(Struct, kw_only=True):
    """One string that spans whole pieces. size: bytes."""

    size: int = 0
    escapes: int = 0
    wide: bool = False

    def add(self, size: int, escapes: int, *, wide: bool) -> None:
        """Raise TooComplex if the string would block the decoder for too long."""
        self.size += size
        self.escapes += escapes
        self.wide = self.wide or wide
        if self.wide and self.size > MOST_WIDE:
            raise TooComplex(
                f"one string has more than {MOST_WIDE} bytes, some of them not ASCII",
                "split the text into several messages or content parts",
            )
        if self.escapes > MOST_ESCAPES:
            raise TooComplex(
                f"one string has more than {MOST_ESCAPES} JSON escapes",
                "send the characters unescaped as UTF-8, or split the text into several messages "
                "or content parts",
            )


def _count_all(body: "str | bytes", end: int, weight: Complexity, limits: Limits) -> None:
    inside = False
    longest = _Text()
    at = 0
    while at < end:
        stop = _whole(body, at, min(at + PIECE, end))
        part = body[at:stop]
        piece = part.encode(errors="surrogatepass") if isinstance(part, str) else part
        size = len(piece)
        escapes = piece.count(b"\\")
        if escapes:
            escapes -= piece.count(b"\\\\")
            piece = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        inside = _count(piece, weight, inside=inside)
        _check(weight, limits)
        if b'"' in piece:
            longest = _Text()
        elif inside:
            longest.add(size, escapes, wide=not piece.isascii())
        at = stop


def _count(piece: bytes, weight: Complexity, *, inside: bool) -> bool:
    """inside: a string continues from the piece before. Return whether one continues after it."""
    quotes = piece.count(b'"')
    if quotes:
        structure = b"".join(piece.split(b'"')[inside::2])
        weight.likely += piece.count(_LIKELY)
        weight.strings += (quotes + (not inside)) // 2
    elif inside:
        return True
    else:
        structure = piece
    weight.values += structure.count(b",")
    weight.fields += structure.count(b":")
    weight.containers += structure.count(b"{") + structure.count(b"[")
    return inside != bool(quotes % 2)


def _whole(body: "str | bytes", at: int, stop: int) -> int:
    """Return the end of a piece that does not split a backslash from what it escapes."""
    backslash = "\\" if isinstance(body, str) else 0x5C
    end = stop
    while end > at and body[end - 1] == backslash:
        end -= 1
    return stop if (stop - end) % 2 == 0 else min(stop + 1, len(body))


def _check(weight: Complexity, limits: Limits) -> None:
    found = (
        (weight.fields, limits.fields, _OF_LIKELY.fields, "fields"),
        (weight.containers, limits.containers, _OF_LIKELY.containers, "objects and lists"),
        (weight.strings, limits.strings, _OF_LIKELY.strings, "strings"),
        (weight.values, limits.values, _OF_LIKELY.values, "values"),
    )
    likely = min(weight.likely, MOST_LIKELY) if limits.likely else 0
    for count, most, each, what in found:
        if count > most + likely * each:
            raise TooComplex(f"more than {most} {what}", "")


def quotes_of(encoded: bytes) -> int:
    r"""Count the quotation marks that are not behind a backslash, each `\\"` as one that is.

    Writing a JSON value in its shortest spelling keeps this number or lowers it, and dropping a
    repeated name with its value lowers it. If it is kept, no name is repeated.
    """
    quotes = encoded.count(b'"')
    return quotes - encoded.count(b'\\"') if b"\\" in encoded else quotes


def repeated_name(encoded: bytes) -> str | None:
    """Return a name that one object of a JSON value has twice, or `None`.

    Raises ValueError if it is not JSON, and RecursionError if it is nested too deeply.
    """
    try:
        shortest = msgspec.json.encode(_decode(encoded))
    except msgspec.DecodeError:  # lone surrogates, numbers beyond any type
        pass
    else:
        if quotes_of(encoded) == quotes_of(shortest):
            return None
    repeated: list[str] = []

    def read(pairs: list[tuple[str, object]]) -> dict[str, object]:
        fields = dict(pairs)
        if len(fields) < len(pairs) and not repeated:
            counts = Counter(name for name, _ in pairs)
            repeated.append(next(name for name, count in counts.items() if count > 1))
        return fields

    cast("object", json.loads(encoded, object_pairs_hook=read, parse_int=str, parse_float=str))
    return repeated[0] if repeated else None
