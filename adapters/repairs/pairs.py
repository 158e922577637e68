"""Calls of tools and their results: every call has one result, directly behind it.

Vendors refuse a conversation with a call that has no result, a result that has no call, or anything
between the two. Agents produce all three: an interrupted tool leaves a call without a result,
compaction removes the call and leaves the result, and a user writes while a tool runs. The history
stays as it is, so that the vendor would refuse each later turn as well.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from msgspec import DecodeError, Struct
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired
from strowger_gateway.schemas.content_facts import CALLS
from strowger_gateway.schemas.messages import Message, OpaquePart, Part, TextPart, ToolCall, text_of
from strowger_gateway.schemas.requests import ChatRequest, Request

INTERRUPTED: Final = "No result: the call was interrupted."
"""Stands for the result of a call that has none."""

_ELSEWHERE: Final = frozenset({"previous_response_id", "conversation"})
"""Fields that name a conversation which the vendor has stored: a call may be in there."""


class _Id(Struct):
    id: str | None = None
    call_id: str | None = None


_id: Final = msgspec.json.Decoder(_Id).decode


def _paired(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest) or not _ELSEWHERE.isdisjoint(request.extra):
        return None
    if _is_paired(request.messages):
        return None
    messages = tuple(_paired_messages(request.messages))
    if len(messages) == len(request.messages) and all(
        new is old for new, old in zip(messages, request.messages, strict=True)
    ):
        return None
    return Repaired(request=replace(request, messages=messages), changed=("messages[]",))


def _is_paired(messages: Sequence[Message]) -> bool:
    """Return whether the results of each turn's calls are the messages that follow it."""
    waiting: set[str] = set()
    for one in messages:
        if one.role == "tool":
            if one.tool_call_id not in waiting:
                return False
            waiting.discard(one.tool_call_id)
        elif waiting:
            return False
        elif one.tool_calls:
            waiting = {call.id for call in one.tool_calls}
            if len(waiting) != len(one.tool_calls):  # two calls with one id need two results
                return False
    return not waiting


def _paired_messages(messages: Sequence[Message]) -> Iterator[Message]:
    matches = _Matches(messages)
    for place, one in enumerate(messages):
        if one.role == "tool":
            if place in matches.unmatched:
                yield from _as_text(one, matches.unmatched[place])
            continue
        yield one
        yield from [messages[found] for found in matches.results.get(place, ())]
        for at, call in enumerate(one.tool_calls):
            if (place, at) not in matches.answered:
                yield Message(role="tool", tool_call_id=call.id, content=INTERRUPTED)


class _Matches:
    """Which result answers which call: of several calls with one id, the last one before it.

    results:   by the place of a turn, the places of its results, in their order.
    answered:  the calls that have a result: the place of the turn, and the call's in it.
    unmatched: by the place of a result without a call, the result that it repeats, if any.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        self.results: dict[int, list[int]] = {}
        self.answered: set[tuple[int, int]] = set()
        self.unmatched: dict[int, Message | None] = {}
        self._open: dict[str, list[tuple[int, int]]] = {}
        self._last: dict[str, Message] = {}
        for place, one in enumerate(messages):
            if one.role == "tool":
                self._match(one, place)
            else:
                self._add_calls(one, place)

    def _add_calls(self, one: Message, place: int) -> None:
        added: dict[str, list[tuple[int, int]]] = {}
        for at, call in enumerate(one.tool_calls):
            added.setdefault(call.id, []).append((place, at))
        for id in _own_calls(one):
            added.setdefault(id, []).append((place, _OWN))
        for id in added:
            self._last.pop(id, None)
        self._open |= added

    def _match(self, one: Message, place: int) -> None:
        id = one.tool_call_id or ""
        found = self._open.get(id)
        if not found:
            self.unmatched[place] = self._last.get(id)
            return
        call = found.pop(0)
        self._last[id] = one
        self.answered.add(call)
        self.results.setdefault(call[0], []).append(place)


_OWN: Final = -1
"""Stands for the place of a call that our schema does not have."""


def _own_calls(one: Message) -> Iterator[str]:
    """Yield the ids of calls that take free text, or that are of another tool."""
    if not isinstance(one.content, tuple):
        return
    for part in one.content:
        if isinstance(part, OpaquePart):
            try:
                ids = _id(part.raw)
            except (DecodeError, RecursionError):
                continue
            yield from dict.fromkeys([found for found in (ids.call_id, ids.id) if found])


def _as_text(one: Message, first: Message | None) -> Iterator[Message]:
    """Yield a result without a call as the user's text; nothing if it only repeats the first."""
    if first is not None and _said(first) == _said(one):
        return
    head = f"Another result of call {one.tool_call_id}:" if first is not None else _GONE
    content: str | tuple[Part, ...] = f"{head}\n{one.content or ''}"
    if isinstance(one.content, tuple):
        content = (TextPart(text=head), *one.content)
    yield Message(role="user", content=content)


def _said(one: Message) -> object:
    if not isinstance(one.content, tuple):
        return one.content or ""
    return text_of(one) if all(isinstance(part, TextPart) for part in one.content) else one.content


_GONE: Final = "Result of a call that is no longer in this conversation:"

PAIRS: Final = Repair(
    name="pairs",
    about="puts each call's result behind it; one that is missing says so, others become text",
    source="https://github.com/anomalyco/opencode/issues/8497",
    facts=CALLS,
    apply=_paired,
    example=ChatRequest(
        "m",
        (
            Message(role="user", content="What is the weather?"),
            Message(
                role="assistant",
                tool_calls=(
                    ToolCall(id="call00001", name="weather", arguments="{}"),
                    ToolCall(id="call00002", name="time", arguments="{}"),
                ),
            ),
            Message(role="user", content="And tomorrow?"),
            Message(role="tool", tool_call_id="call00001", content="Sunny."),
            Message(role="tool", tool_call_id="call00009", content="Rainy."),
        ),
    ),
    light=True,
)
"""Also https://github.com/openclaw/openclaw/issues/7527 (a result without its call) and
https://github.com/vellum-ai/vellum-assistant/issues/39919 (two results for one call)."""
