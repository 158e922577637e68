"""Repair what is wrong with the bytes of a body, before it is read as JSON.

Clients that cut a text in the middle of an emoji send half of it, a lone surrogate, as `\\ud83d`.
JSON's grammar allows it, but it is not Unicode text, so that readers and vendors refuse the whole
request, and every later turn with it. So are bytes that are not UTF-8. Both become U+FFFD, as
Unicode recommends (https://www.unicode.org/versions/Unicode16.0.0/core-spec/chapter-3/#G66453).
A byte order mark is removed, as RFC 8259 allows (section 8.1).
"""

import re
from typing import Final

import msgspec
from msgspec import DecodeError, Raw, Struct

SURROGATE: Final = "lone_surrogate"
NOT_UTF8: Final = "invalid_utf8"
BYTE_ORDER_MARK: Final = "byte_order_mark"

MOST_PLACES: Final = 8
"""Places whose fields are named; a request with more of them has these and others."""

BOM: Final = b"\xef\xbb\xbf"
_REPLACEMENT: Final = b"\\ufffd"
_DEEPEST: Final = 16
_ESCAPES: Final = re.compile(rb"\\(?:u([dD][89a-fA-F][0-9a-fA-F]{2})|[^u]|u)", re.DOTALL)
_LOW: Final = re.compile(rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}")

_object: Final = msgspec.json.Decoder(dict[str, Raw])
_list: Final = msgspec.json.Decoder(list[Raw])


class RepairedBody(Struct, frozen=True, kw_only=True):
    """made: `PATH:RULE` for each field that was changed; the path is "" for the whole body."""

    body: bytes
    made: tuple[str, ...]


def repair_body(body: bytes) -> RepairedBody:
    """Remove a byte order mark, and replace lone surrogates in escaped form.

    body: JSON and nothing else. Replacing a surrogate does not change its length.
    """
    made: list[str] = []
    if body.startswith(BOM):
        body = body[len(BOM) :]
        made.append(f":{BYTE_ORDER_MARK}")
    places = lone_surrogates(body)
    if not places:
        return RepairedBody(body=body, made=tuple(made))
    pieces: list[bytes] = []
    at = 0
    for place in places:
        pieces += [body[at:place], _REPLACEMENT]
        at = place + len(_REPLACEMENT)
    body = b"".join([*pieces, body[at:]])
    made += _named(body, places, SURROGATE)
    return RepairedBody(body=body, made=tuple(made))


def repair_text(body: bytes) -> RepairedBody:
    """Replace bytes that are not UTF-8."""
    text = body.decode("utf-8", "replace").encode()
    places: list[int] = []
    at = -1
    while len(places) < MOST_PLACES and (at := text.find("\ufffd".encode(), at + 1)) >= 0:
        places.append(at)
    return RepairedBody(body=text, made=tuple(_named(text, places, NOT_UTF8)))


def lone_surrogates(body: bytes) -> list[int]:
    r"""Return where `\uD8xx` stands without its `\uDCxx`, or the other way round.

    A backslash that is itself escaped begins no escape, so escapes are read one after the other.
    """
    found: list[int] = []
    at = 0
    while (match := _ESCAPES.search(body, at)) is not None:
        at = match.end()
        code = match[1]
        if code is None:
            continue
        if code[1:2] in b"cdefCDEF":
            found.append(match.start())
            continue
        pair = _LOW.match(body, at)
        if pair is None:
            found.append(match.start())
        else:
            at = pair.end()
    return found


def _named(body: bytes, places: list[int], rule: str) -> list[str]:
    names = [f"{_path(Raw(body), place)}:{rule}" for place in places[:MOST_PLACES]]
    return list(dict.fromkeys(names))


def _path(raw: Raw, place: int) -> str:
    """Return the path of the value that contains a byte, "" if the body cannot be read.

    place: counted from the beginning of `raw`.
    """
    path = ""
    for _ in range(_DEEPEST):
        head = bytes(memoryview(raw)[:1])
        try:
            if head == b"{":
                fields = _object.decode(raw)
                members = [(f"{path}.{k}" if path else k, v) for k, v in fields.items()]
            elif head == b"[":
                members = [(f"{path}[]", v) for v in _list.decode(raw)]
            else:
                return path
        except (DecodeError, RecursionError, UnicodeDecodeError):
            return path
        text, at = bytes(raw), 0
        for name, value in members:
            inner = bytes(value)
            at = text.find(inner, at)
            if at < 0:
                return path
            if at <= place < at + len(inner):
                path, raw, place = name, value, place - at
                break
            at += len(inner)
        else:
            return path
    return path
