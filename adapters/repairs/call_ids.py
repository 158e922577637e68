"""Ids of calls in the alphabet and length that a vendor takes, and different within a turn.

The ids are another vendor's if the conversation began there: `functions.Bash:0` is one of Kimi's,
and some gateways put a proof of 400 characters into it. An id that the vendor takes is sent as it
is; any other becomes a hash of it, the same for the call and its result.
"""

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from msgspec.structs import replace

from adapters.repairs.rewriting import rewritten, with_calls
from adapters.repairs.rule import Aim, Repair, Repaired
from schemas.content_facts import CALLS
from schemas.messages import Message, ToolCall
from schemas.requests import ChatRequest, Request

_LETTERS: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def call_ids(source: str, allowed: str, length: int = 24) -> Repair:
    """Return the rule for a vendor with these ids.

    source: where the vendor documents or reports the limit. allowed: a regular expression that all
    ids match. length: of an id that replaces another, in letters and digits.
    """
    pattern = re.compile(allowed)

    def sent(id: str, nth: int) -> str:
        return id if nth == 0 and pattern.fullmatch(id) else hashed_id(id, length, nth)

    def apply(request: Request, _: Aim) -> Repaired | None:
        if not isinstance(request, ChatRequest):
            return None
        open: dict[str, list[str]] = {}
        messages: list[Message] = []
        for one in request.messages:
            if one.tool_calls:
                ids = _ids(one.tool_calls, sent)
                open = {}
                for call, id in zip(one.tool_calls, ids, strict=True):
                    open.setdefault(call.id, []).append(id)
                one = _called(one, ids)
            elif one.role == "tool" and isinstance(one.tool_call_id, str):
                waiting = open.get(one.tool_call_id)
                id = waiting.pop(0) if waiting else sent(one.tool_call_id, 0)
                if id != one.tool_call_id:
                    one = rewritten(one, {"tool_call_id": id}, tool_call_id=id)
            messages.append(one)
        if all(new is old for new, old in zip(messages, request.messages, strict=True)):
            return None
        changed = ("messages[].tool_calls[].id", "messages[].tool_call_id")
        return Repaired(request=replace(request, messages=tuple(messages)), changed=changed)

    return Repair(
        name="call_id", source=source, facts=CALLS, apply=apply, example=_EXAMPLE, light=True
    )
