"""JSON objects that have one name twice: `{"content": "a", "content": "b"}`.

RFC 8259 (section 4) leaves open which value counts. This gateway reads the last one, and so do most
backends; some read the first. A cache or a guardrail has then read another value than the backend.
"""

import json
from collections import Counter
from typing import Final, cast

import msgspec

_decode: Final = msgspec.json.Decoder().decode


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
