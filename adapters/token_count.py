"""Reads what vendors answer when they only count the tokens of a conversation."""

import msgspec
from msgspec import Raw

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.json_objects import UNREADABLE, read_object
from strowger_gateway.schemas.errors import Uncountable, UpstreamBroken
from strowger_gateway.schemas.messages import FunctionTool, TextPart, text_of
from strowger_gateway.schemas.requests import ChatRequest

_list = msgspec.json.Decoder(list[Raw]).decode
_count = msgspec.json.Decoder(int).decode
_NOTHING = Raw(b"null")


def counted(endpoint: Endpoint, body: bytes, field: str) -> int:
    """Return the count in a field of the answer. Raises UpstreamBroken if there is none."""
    try:
        found = _count(read_object(body).get(field, _NOTHING))
    except UNREADABLE as exc:
        raise UpstreamBroken("cannot read the count of tokens", upstream=endpoint.name) from exc
    return _counts(endpoint, found)


def listed(endpoint: Endpoint, body: bytes, field: str) -> int:
    """Return the number of tokens in a list in a field. Raises UpstreamBroken if there is none."""
    try:
        found = len(_list(read_object(body).get(field, _NOTHING)))
    except UNREADABLE as exc:
        raise UpstreamBroken("cannot read the list of tokens", upstream=endpoint.name) from exc
    return _counts(endpoint, found)


def _counts(endpoint: Endpoint, found: int) -> int:
    """Return a number of tokens that a conversation can have: even an empty one has some."""
    if found < 1:
        raise UpstreamBroken(f"counts {found} tokens", upstream=endpoint.name)
    return found


def check_texts(request: ChatRequest) -> None:
    """Raise Uncountable for a conversation with more than texts."""
    for place, one in enumerate(request.messages):
        if isinstance(one.content, tuple) and not all(
            isinstance(part, TextPart) for part in one.content
        ):
            raise Uncountable(f"messages[{place}].content: this backend counts only text")


def said_in(request: ChatRequest) -> str:
    """Return the texts of a conversation with their roles, its calls, and its tools."""
    lines: list[str] = []
    for tool in request.tools or ():
        if isinstance(tool, FunctionTool):
            schema = tool.parameters if isinstance(tool.parameters, Raw) else Raw(b"{}")
            lines += [tool.name, tool.description or "", bytes(schema).decode("utf-8", "replace")]
        else:
            lines.append(bytes(tool.raw).decode("utf-8", "replace"))
    for one in request.messages:
        lines += [one.role, text_of(one)]
        lines += [f"{call.name}{call.arguments}" for call in one.tool_calls]
    return "\n".join(lines)
