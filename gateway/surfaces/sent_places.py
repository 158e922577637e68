"""Find what the client wrote at a path that counts in the request as a backend got it.

Repairs and an operator's instructions add, move, merge and remove messages, parts, calls and tools.
What they keep is the same object, so it is recognised; what they rewrote is where the recognised
pieces around it leave room for exactly one. Read only for errors that name a field.
"""

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

from strowger_gateway.schemas.messages import FunctionTool, Message, Part, TextPart, Tool
from strowger_gateway.schemas.requests import ChatRequest, Request

IN_MESSAGE: Final = re.compile(
    r"messages\[(\d*)\](?:\.(content|tool_calls)\[(\d*)\])?(?:\.(.+))?", re.DOTALL
)
IN_TOOL: Final = re.compile(r"tools\[(\d*)\](?:\.(.+))?", re.DOTALL)
CONTENT: Final = "content"

_DOTTED: Final = re.compile(r"(?:messages|tools)\.\d+(?:\.|$)")
_NUMBER: Final = re.compile(r"\.(\d+)(?=\.|$)")
_INDEX: Final = re.compile(r"\[\d+\]")
_COUNTED: Final = re.compile(r"(?:messages|tools|input|contents|system)\[\d")
"""Paths that count what repairs change, also in the formats of other vendors than OpenAI."""

_INSTRUCTIONS: Final = frozenset({"system", "developer"})

_Found = Sequence[int | None]
"""For each piece as sent, where it is in the client's request, if it is recognised."""


def without_places(path: str) -> str:
    """Return the path without the indices of messages, parts, calls and tools."""
    path = _bracketed(path)
    return _INDEX.sub("[]", path) if _COUNTED.match(path) else path


def clients_path(path: str, request: Request, sent: Request | None) -> str:
    """Return the path with the indices of the client's request; `[]` for those that are unknown.

    path: by our schema's names. sent: the request to which its indices belong; `None` if unchanged.
    """
    path = _bracketed(path)
    if sent is None or sent is request or not isinstance(request, ChatRequest):
        return path
    if not isinstance(sent, ChatRequest):
        return without_places(path)
    if found := IN_TOOL.fullmatch(path):
        if sent.tools is request.tools or not found[1]:
            return path
        at = _place(_tools(sent), _tools(request), int(found[1]))
        return _joined(f"tools[{_index(at)}]", found[2])
    if sent.messages is request.messages:
        return path
    found = IN_MESSAGE.fullmatch(path)
    if found is None:
        return without_places(path)
    if not found[1]:
        return path
    return _in_messages(found, request.messages, sent.messages)


def _in_messages(found: re.Match[str], own: Sequence[Message], sent: Sequence[Message]) -> str:
    at, kind, member = int(found[1]), found[2], found[4]
    inner = int(found[3]) if found[3] else None
    if at >= len(sent):
        return without_places(found[0])
    message = sent[at]
    if kind == CONTENT and inner is not None and isinstance(message.content, tuple):
        return _part(message.content, inner, _message(own, sent, at), own, member)
    place = _message(own, sent, at)
    if kind is None:
        return _joined(f"messages[{_index(place)}]", member)
    call: int | None = None
    if place is not None and inner is not None and kind != CONTENT:
        calls = message.tool_calls or ()
        call = _place(
            [one.id for one in calls], [one.id for one in own[place].tool_calls or ()], inner
        )
    return _joined(f"messages[{_index(place)}].{kind}[{_index(call)}]", member)


def _part(
    parts: Sequence[Part], at: int, place: int | None, own: Sequence[Message], member: str | None
) -> str:
    """Return the client's path of a part. place: of the message in which it was sent."""
    if at >= len(parts):
        return _joined(f"messages[{_index(place)}].content[]", member)
    part = parts[at]
    for index, message in enumerate(own):
        if isinstance(message.content, tuple):
            for inner, one in enumerate(message.content):
                if one is part:
                    return _joined(f"messages[{index}].content[{inner}]", member)
        elif isinstance(part, TextPart) and message.content is part.text and part.text:
            return f"messages[{index}].content"
    if place is None:
        return _joined("messages[].content[]", member)
    written = own[place].content
    if not isinstance(written, tuple):
        return f"messages[{place}].content"
    inner = _place([id(one) for one in parts], [id(one) for one in written], at)
    return _joined(f"messages[{place}].content[{_index(inner)}]", member)


def _message(own: Sequence[Message], sent: Sequence[Message], at: int) -> int | None:
    """Return the index of the client's message that was sent as this one."""
    pieces: dict[Hashable, set[int]] = {}
    for index, message in enumerate(own):
        for piece in _pieces(message):
            pieces.setdefault(piece, set()).add(index)
    return _fitted([_recognised(one, own, pieces) for one in sent], len(own), at)


def _recognised(
    message: Message, own: Sequence[Message], pieces: Mapping[Hashable, set[int]]
) -> int | None:
    """Return the one message of the client, of the same role, that has something of this one."""
    found = set(chain.from_iterable(pieces.get(one, ()) for one in _pieces(message)))
    alike = [one for one in found if _role(own[one]) == _role(message)]
    return alike[0] if len(alike) == 1 else None


def _pieces(message: Message) -> Iterable[Hashable]:
    """Yield the identities of a message and of what it has that no other message has."""
    yield id(message)
    if message.role == "tool" and isinstance(message.tool_call_id, str):
        yield message.tool_call_id
    if isinstance(message.content, tuple):
        for part in message.content:
            yield id(part)
            if isinstance(part, TextPart) and len(part.text) > 1:
                yield id(part.text)
    elif message.content is not None and len(message.content) > 1:  # Python shares single letters
        yield id(message.content)
    for call in message.tool_calls or ():
        yield id(call)


def _role(message: Message) -> str:
    return "system" if message.role in _INSTRUCTIONS else message.role


def _tools(request: ChatRequest) -> Sequence[Hashable]:
    return [_tool(one) for one in request.tools or ()]


def _tool(one: Tool) -> Hashable:
    return one.name if isinstance(one, FunctionTool) else id(one)


def _place(sent: Sequence[Hashable], own: Sequence[Hashable], at: int) -> int | None:
    """Return where a piece is in the client's list. sent, own: what the pieces are known by."""
    places = {one: index for index, one in reversed(list(enumerate(own)))}
    return _fitted([places.get(one) for one in sent], len(own), at)


def _fitted(found: _Found, count: int, at: int) -> int | None:
    """Return where a piece is, if it was recognised or only one place is left for it.

    count: of the client's pieces.
    """
    if at >= len(found):
        return None
    known = found[at]
    if known is not None:
        return known
    before, place_before = -1, -1
    after, place_after = len(found), count
    for index, place in enumerate(found):
        if place is not None and index < at:
            before, place_before = index, place
        elif place is not None and index > at:
            after, place_after = index, place
            break
    if after - before != place_after - place_before:
        return None
    return place_before + at - before


def _bracketed(path: str) -> str:
    """Return `messages.3.content.1` as `messages[3].content[1]`."""
    return _NUMBER.sub(r"[\1]", path) if _DOTTED.match(path) else path


def _index(at: int | None) -> str:
    return "" if at is None else str(at)


def _joined(path: str, member: str | None) -> str:
    return f"{path}.{member}" if member else path
