"""Ids of calls in the alphabet and length that a vendor takes, and different within a turn.

The ids are another vendor's if the conversation began there: `functions.Bash:0` is one of Kimi's,
and some gateways put a proof of 400 characters into it. An id that the vendor takes is sent as it
is; any other becomes a hash of it, the same for the call and its result.
"""

import re
import string
from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rewriting import rewritten, with_calls
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired
from strowger_gateway.schemas.content_facts import CALLS
from strowger_gateway.schemas.messages import Message, ToolCall
from strowger_gateway.schemas.requests import ChatRequest, Request

_LETTERS: Final = string.digits + string.ascii_letters


def call_ids(source: str, allowed: str, length: int = 20) -> Repair:
    """Return the rule for a vendor with these ids.

    source: where the vendor documents or reports the limit. allowed: a regular expression that all
    ids match. length: of an id that replaces another, in letters and digits, at most 21.
    """
    pattern = re.compile(allowed, re.DOTALL)

    def apply(request: Request, _: Aim) -> Repaired | None:
        if not isinstance(request, ChatRequest):
            return None
        messages = _Ids(pattern, length).replaced(request.messages)
        if all(new is old for new, old in zip(messages, request.messages, strict=True)):
            return None
        return Repaired(request=replace(request, messages=tuple(messages)), changed=_CHANGED)

    return Repair(
        name="call_id",
        about="replaces ids of calls that the vendor does not take, or that repeat",
        source=source,
        facts=CALLS,
        apply=apply,
        example=_EXAMPLE,
        light=True,
    )


def hashed_id(id: str, length: int, nth: int = 0) -> str:
    """Return letters and digits of the id's hash. nth: how often it occurred before.

    length: at most 21, which is 125 bits.
    """
    text = f"{nth} {id}" if nth else id
    digest = sha256(text.encode("utf-8", "surrogatepass")).digest()
    number = int.from_bytes(digest[:16], "big")
    digits: list[str] = []
    for _ in range(length):
        number, digit = divmod(number, len(_LETTERS))
        digits.append(_LETTERS[digit])
    return "".join(digits)


class _Ids:
    """The ids of one conversation. An id that occurs again stands for another call each time."""

    def __init__(self, pattern: re.Pattern[str], length: int) -> None:
        self._pattern = pattern
        self._length = length
        self._times: dict[str, int] = {}
        self._open: dict[str, list[str]] = {}

    def replaced(self, messages: Sequence[Message]) -> list[Message]:
        return [self._message(one) for one in messages]

    def _message(self, one: Message) -> Message:
        if one.tool_calls:
            return self._caller(one)
        if one.role != "tool" or not isinstance(one.tool_call_id, str):
            return one
        waiting = self._open.get(one.tool_call_id)
        id = waiting.pop(0) if waiting else self._sent(one.tool_call_id, 0)
        if id == one.tool_call_id:
            return one
        return rewritten(one, {"tool_call_id": id}, tool_call_id=id)

    def _caller(self, one: Message) -> Message:
        self._open = {}
        calls: list[ToolCall] = []
        for call in one.tool_calls:
            times = self._times.get(call.id, 0)
            self._times[call.id] = times + 1
            id = self._sent(call.id, times)
            self._open.setdefault(call.id, []).append(id)
            calls.append(call if id == call.id else replace(call, id=id))
        if all(new is old for new, old in zip(calls, one.tool_calls, strict=True)):
            return one
        return with_calls(one, tuple(calls))

    def _sent(self, id: str, times: int) -> str:
        if times == 0 and self._pattern.fullmatch(id):
            return id
        return hashed_id(id, self._length, times)


_CHANGED: Final = ("messages[].tool_calls[].id", "messages[].tool_call_id")

_EXAMPLE: Final = ChatRequest(
    "m",
    (
        Message(role="user", content="Look it up."),
        Message(
            role="assistant",
            tool_calls=(
                ToolCall(id="functions.search:0/" + "x" * 300, name="search", arguments="{}"),
                ToolCall(id="same", name="search", arguments="{}"),
                ToolCall(id="same", name="search", arguments="{}"),
            ),
        ),
        Message(role="tool", tool_call_id="functions.search:0/" + "x" * 300, content="Found."),
        Message(role="tool", tool_call_id="same", content="Found."),
        Message(role="tool", tool_call_id="same", content="Not found."),
    ),
)
