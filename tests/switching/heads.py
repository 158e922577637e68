"""Compares what an answer's head names as left out with what is missing in the vendor's request."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, cast

from tests.gateway.backends.vendors.dialect import Json
from tests.switching.marks import Said

_THOUGHTS: Final = (
    *("thinking", "reasoning", "signature", "data", "encrypted_content", "thoughtSignature"),
)
"""Members in which clients send reasoning back."""

_REASONING: Final = re.compile(r"reasoning|thinking|encrypted_content|thought")
"""In names of what was left out."""

_IN_ID: Final = "__thought__"


def of_head(
    headers: Mapping[str, str], body: Json, items: Sequence[Json], said: Sequence[Said]
) -> Iterator[str]:
    """Yield what is wrong. body: what the vendor got. items: what the client sent."""
    text, given = json.dumps(body, ensure_ascii=False), json.dumps(items, ensure_ascii=False)
    named = _names(headers.get("x-gateway-dropped-params", ""))
    thinking = [name for name in named if _REASONING.search(name)]
    others = [name for name in named if name not in thinking]
    for one in said:
        marks = [one.scene.thought, *one.scene.sealed]
        lost = [mark for mark in marks if mark and mark not in text]
        if lost and one.echo != "plain" and not named:
            yield f"reasoning is left out and not named: {lost}"
        marks = [*one.scene.own, *one.scene.more]
        lost = [mark for mark in marks if mark in given and mark not in text]
        if lost and not others:
            yield f"left out and not named: {lost}"
    thoughts = [value for name in _THOUGHTS for value in _under(name, items)]
    thoughts += [one.scene.thought for one in said if one.scene.thought in given]
    if thinking and all(one in text for one in thoughts if isinstance(one, str)):
        yield f"reasoning is named as left out and is not: {thinking}"
    for name in others:
        *around, member = [one.removesuffix("[]") for one in name.split(".")]
        parent = around[-1] if around else ""
        values = _under(member, items)
        if member == "signature" and _IN_ID in given:
            continue  # clients of the Messages API carry a call's signature in its id
        if not values:
            yield f"{name} is named as left out and was not sent"
        elif all(one in _under(member, _inside(parent, body)) for one in values):
            yield f"{name} is named as left out and arrives"


def _names(header: str) -> list[str]:
    return [name for name in header.split(", ") if name]


def _inside(member: str, body: Json) -> object:
    """Return the values under a name; all of a body whose vendor has another name."""
    return _under(member, body) or body


def _under(member: str, value: object) -> list[object]:
    """Return the values under a name, at any depth."""
    found: list[object] = []
    if isinstance(value, Mapping):
        for name, inside in cast("Json", value).items():
            found += [inside] if name == member else []
            found += _under(member, inside)
    elif isinstance(value, list | tuple):
        for inside in cast("Sequence[object]", value):
            found += _under(member, inside)
    return found
