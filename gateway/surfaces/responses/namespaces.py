"""Names of tools: what other dialects have as a function may be of another kind or in a namespace.

A tool in a namespace becomes a function whose name begins with the namespace's; calls of it get
their own name back, and `namespace`, as OpenAI's API has them.
"""

from collections.abc import Mapping
from typing import Final
from zlib import crc32

import msgspec
from msgspec import Raw, Struct

from strowger_gateway.schemas.requests import ChatRequest

LONGEST: Final = 64
"""Characters of a function's name that every vendor takes."""


class OwnTool(Struct, frozen=True, kw_only=True):
    """A tool as its client knows it. namespace: "" for none. custom: it takes text."""

    name: str
    namespace: str = ""
    custom: bool = False


class _Names(Struct, frozen=True, kw_only=True):
    type: str = ""
    name: str = ""
    tools: "list[_Names]" = []


_names: Final = msgspec.json.Decoder(list[_Names])


def joined(namespace: str | None, name: str) -> str:
    """Return the function's name. One that is too long ends in a checksum."""
    if not namespace:
        return name
    whole = f"{namespace.rstrip('_')}__{name}"
    if len(whole) <= LONGEST:
        return whole
    return f"{whole[: LONGEST - 9]}_{crc32(whole.encode()):08x}"


def own_tools(request: ChatRequest) -> Mapping[str, OwnTool]:
    """Return the tools that are not simply functions, by the names of their functions."""
    raw = None if request.original is None else request.original.fields.get("tools")
    if raw is None or not _has_own(raw):
        return {}
    found: dict[str, OwnTool] = {}
    for tool in _names.decode(raw):
        if tool.type == "custom":
            found[tool.name] = OwnTool(name=tool.name, custom=True)
        elif tool.type == "namespace":
            for one in tool.tools:
                own = OwnTool(name=one.name, namespace=tool.name, custom=one.type == "custom")
                found[joined(tool.name, one.name)] = own
    return found


def _has_own(raw: Raw) -> bool:
    text = bytes(raw)
    return b'"custom"' in text or b'"namespace"' in text
