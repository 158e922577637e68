"""Arguments of earlier calls that are not a JSON object, at a vendor that reads them as one.

An answer that was cut off leaves half an object in the history, and some models write a list, or an
object in a string. The call has been made: what it was made with stays, in an object.
"""

import re
from typing import Final

import msgspec
from msgspec import DecodeError
from msgspec.structs import replace

from adapters.repairs.rewriting import each_message, with_calls
from adapters.repairs.rule import Aim, Repair, Repaired
from schemas.content_facts import CALLS
from schemas.messages import Message, ToolCall
from schemas.requests import ChatRequest, Request

WRAPPED: Final = "arguments"
"""The member of the object that holds what is not an object."""

_ESCAPES: Final = re.compile(
    r"\\(?:u([dD][89abAB][0-9a-fA-F]{2})(\\u[dD][c-fC-F][0-9a-fA-F]{2})?"
    r"|u([dD][c-fC-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_any = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_UNREADABLE: Final = (DecodeError, RecursionError)


def as_object(text: str) -> str:
    """Return the arguments as the text of a JSON object; the same text if they are one.

    Half of a pair of surrogates becomes U+FFFD: it is not Unicode text.
    """
    try:
        value: object = _any(text.strip() or "{}")
    except _UNREADABLE:
        mended = _ESCAPES.sub(_whole, text)
        if mended != text:
            return as_object(mended)
        value = text
    if isinstance(value, dict):
        return text
    if isinstance(value, str):
        try:
            if isinstance(_any(value), dict):
                return value
        except _UNREADABLE:
            pass
    return "{}" if value is None else _encode({WRAPPED: value}).decode()


def _whole(found: re.Match[str]) -> str:
    high, low, alone = found.groups()
    return "\\ufffd" if (high and not low) or alone else found[0]


def _with_objects(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest):
        return None
    found = each_message(request, _message)
    if found is None:
        return None
    changed = ("messages[].tool_calls[].function.arguments",)
    return Repaired(request=found, changed=changed)


def _message(one: Message) -> Message:
    calls = tuple([_call(call) for call in one.tool_calls])
    if all(new is old for new, old in zip(calls, one.tool_calls, strict=True)):
        return one
    return with_calls(one, calls)


def _call(call: ToolCall) -> ToolCall:
    arguments = as_object(call.arguments)
    return call if arguments == call.arguments else replace(call, arguments=arguments)


def call_arguments(source: str) -> Repair:
    """Return the rule for a vendor that reads arguments as an object."""
    return Repair(
        name="call_arguments",
        about="puts arguments of earlier calls that are not an object into one",
        source=source,
        facts=CALLS,
        apply=_with_objects,
        example=ChatRequest(
            "m",
            (
                Message(role="user", content="Read it."),
                Message(
                    role="assistant",
                    tool_calls=(ToolCall(id="call00001", name="read", arguments='{"path": "a'),),
                ),
                Message(role="tool", tool_call_id="call00001", content="Not read."),
            ),
        ),
        light=True,
    )
