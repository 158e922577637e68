"""Marks of prompt caches (`cache_control`) as Claude's services take them: few, and in order.

Anthropic takes four marks in a request and refuses a fifth; marks of an hour come before marks of
five minutes; and other members than `type` and `ttl` need a beta. Agents add marks of their own to
those of a framework, and Claude Code adds a scope that only Anthropic itself knows.
https://platform.claude.com/docs/en/build-with-claude/prompt-caching
"""

from collections.abc import Callable, Sequence
from typing import Final, cast

import msgspec
from msgspec import UNSET, DecodeError, Raw, UnsetType
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rewriting import with_members
from strowger_gateway.adapters.repairs.rule import Repair, Repaired
from strowger_gateway.schemas.content_facts import NESTED, OPAQUE
from strowger_gateway.schemas.messages import (
    AudioPart,
    Message,
    OpaquePart,
    OpaqueTool,
    Part,
    TextPart,
    Tool,
)
from strowger_gateway.schemas.requests import ChatRequest, Request

MARK: Final = "cache_control"
MOST: Final = 4
_HOUR: Final = "1h"
_SYSTEM: Final = frozenset({"system", "developer"})
_KEY: Final = b'"cache_control"'
_MEMBERS: Final = frozenset({"type", "ttl"})

Mark = dict[str, object]
Marked = Message | Part | Tool
Change = Callable[[Mark | None], Mark | None]

_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_mark = msgspec.json.Decoder(Mark).decode
_UNREADABLE: Final = (DecodeError, RecursionError)


def _json(one: Marked) -> Raw | UnsetType:
    """Return the JSON in which a piece's mark is."""
    if isinstance(one, AudioPart | OpaquePart | OpaqueTool) or isinstance(one.raw, Raw):
        return one.raw
    return one.marks


def _read(one: Marked) -> Mark | None:
    raw = _json(one)
    if isinstance(raw, UnsetType) or _KEY not in bytes(raw):
        return None
    try:
        inner = _fields(raw).get(MARK)
        return None if inner is None else _mark(inner)
    except _UNREADABLE:
        return None


def _with_mark(one: Marked, mark: Mark | None) -> Marked:
    raw = _json(one)
    assert isinstance(raw, Raw)
    made = with_members(raw, {MARK: UNSET if mark is None else mark})
    if isinstance(one, AudioPart | OpaquePart | OpaqueTool) or isinstance(one.raw, Raw):
        return replace(one, raw=made)
    return replace(one, marks=made)


class _Places:
    """The marks of a request in the order in which the vendor reads them: tools, system, messages.

    places: of each mark the index of the tool or message, and of the part, if it is a part's.
    """

    def __init__(self, request: ChatRequest) -> None:
        self._request = request
        self._tools = list(request.tools or ())
        self._messages = list(request.messages)
        self.places: list[tuple[str, int, int | None]] = []
        self.marks: list[Mark] = []
        for at, tool in enumerate(self._tools):
            self._add(tool, ("tools", at, None))
        for system in (True, False):
            for at, message in enumerate(self._messages):
                if (message.role in _SYSTEM) is system:
                    for place, part in enumerate(message.content or ()):
                        if not isinstance(part, str):
                            self._add(part, ("messages", at, place))
                    self._add(message, ("messages", at, None))

    def _add(self, one: Marked, place: tuple[str, int, int | None]) -> None:
        mark = _read(one)
        if mark is not None:
            self.places.append(place)
            self.marks.append(mark)

    def is_said(self, at: int) -> bool:
        """Return whether a mark is in the conversation, not in tools or instructions."""
        root, message, _ = self.places[at]
        return root == "messages" and self._messages[message].role not in _SYSTEM

    def with_marks(self, marks: Sequence[Mark | None]) -> Repaired | None:
        """Return the request with these marks, one for each place."""
        changed: dict[str, None] = {}
        for place, old, new in zip(self.places, self.marks, marks, strict=True):
            if new != old:
                self._set(place, new)
                root, _, part = place
                inner = "" if part is None else "content[]."
                changed[f"{root}[].{inner}{MARK}"] = None
        if not changed:
            return None
        changes: dict[str, object] = {}
        for root, pieces in (("tools", self._tools), ("messages", self._messages)):
            if any(path.startswith(root) for path in changed):
                changes[root] = tuple(pieces)
        return Repaired(request=replace(self._request, **changes), changed=tuple(changed))

    def _set(self, place: tuple[str, int, int | None], mark: Mark | None) -> None:
        root, at, inner = place
        if root == "tools":
            self._tools[at] = cast("Tool", _with_mark(self._tools[at], mark))
            return
        message = self._messages[at]
        if inner is None:
            self._messages[at] = cast("Message", _with_mark(message, mark))
            return
        parts = list(cast("tuple[Part, ...]", message.content))
        parts[inner] = cast("Part", _with_mark(parts[inner], mark))
        raw = message.raw
        if isinstance(raw, Raw):
            raws = [one.raw for one in parts]
            raw = with_members(raw, {"content": UNSET if UNSET in raws else raws})
        self._messages[at] = replace(message, content=tuple(parts), raw=raw)


def has_marks(request: ChatRequest) -> bool:
    """Return whether messages or tools have a mark."""
    return bool(_Places(request).marks)


def _apply(request: Request, change: Callable[[_Places], Sequence[Mark | None]]) -> Repaired | None:
    if not isinstance(request, ChatRequest):
        return None
    places = _Places(request)
    return places.with_marks(change(places)) if places.marks else None


def _fewer(places: _Places) -> Sequence[Mark | None]:
    """Keep the last marks of the conversation, and those of tools and system before any of it."""
    excess = len(places.marks) - MOST
    marks: list[Mark | None] = list(places.marks)
    order = [at for at in range(len(marks)) if places.is_said(at)]
    order = [*order, *[at for at in range(len(marks)) if at not in order]]
    for at in order[: max(excess, 0)]:
        marks[at] = None
    return marks


def _ordered(places: _Places) -> Sequence[Mark | None]:
    """A mark of an hour behind one of five minutes becomes one of five minutes."""
    marks: list[Mark | None] = []
    short = False
    for mark in places.marks:
        if mark.get("ttl") != _HOUR:
            short = True
        elif short:
            mark = {name: value for name, value in mark.items() if name != "ttl"}
        marks.append(mark)
    return marks


def _known(places: _Places) -> Sequence[Mark | None]:
    return [
        {name: value for name, value in mark.items() if name in _MEMBERS} for mark in places.marks
    ]


def _example(*marks: bytes) -> ChatRequest:
    parts = tuple(
        [TextPart(text="Hello", marks=Raw(b'{"cache_control":%s}' % one)) for one in marks]
    )
    return ChatRequest("m", (Message(role="user", content=parts),), nested=True)


def _rule(
    name: str,
    about: str,
    source: str,
    change: Callable[[_Places], Sequence[Mark | None]],
    example: ChatRequest,
) -> Repair:
    return Repair(
        name=name,
        about=about,
        source=source,
        facts=NESTED | OPAQUE,
        apply=lambda request, _: _apply(request, change),
        example=example,
        loss="hint",
        light=True,
    )


_SHORT: Final = b'{"type":"ephemeral"}'
_LONG: Final = b'{"type":"ephemeral","ttl":"1h"}'

CACHE_LIMITS: Final = (
    _rule(
        "cache_marks",
        f"leaves out the first marks of prompt caches, if there are more than {MOST}",
        "https://github.com/griffinmartin/opencode-claude-auth/issues/121",
        _fewer,
        _example(*[_SHORT] * (MOST + 1)),
    ),
    _rule(
        "cache_order",
        "sends marks of an hour behind marks of five minutes as such",
        "https://github.com/headroomlabs-ai/headroom/issues/2939",
        _ordered,
        _example(_SHORT, _LONG),
    ),
)

CACHE_MEMBERS: Final = _rule(
    "cache_members",
    "leaves out members of marks of prompt caches other than `type` and `ttl`",
    "https://github.com/maximhq/bifrost/pull/1558",
    _known,
    _example(b'{"type":"ephemeral","scope":"global"}'),
)
"""Of services that know no scope."""
