"""Arguments of earlier calls that are not a JSON object, at a vendor that reads them as one.

An answer that was cut off leaves half an object in the history, and some models write a list, or an
object in a string. The call has been made: what it was made with stays, in an object.
"""

import re
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rewriting import each_message, with_calls
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired
from strowger_gateway.schemas.content_facts import CALLS
from strowger_gateway.schemas.measured_json import kind_of_json
from strowger_gateway.schemas.messages import Message, ToolCall
from strowger_gateway.schemas.requests import ChatRequest, Request

WRAPPED: Final = "arguments"
"""The member of the object that holds what is not an object."""

_NOTHING: Final = "{}"

_ESCAPES: Final = re.compile(
    r"\\(?:u([dD][89abAB][0-9a-fA-F]{2})(\\u[dD][c-fC-F][0-9a-fA-F]{2})?"
    r"|u([dD][c-fC-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode


def as_object(text: str) -> str:
    """Return the arguments as the text of a JSON object; the same text if they are one.

    A blank text is an object without members. Half of a pair of surrogates becomes U+FFFD: it is
    not Unicode text.
    """
    if not text or text.isspace():
        return _NOTHING
    kind = kind_of_json(text)
    if kind == "{":
        return text
    if not kind:
        mended = _ESCAPES.sub(_whole, text)
        return as_object(mended) if mended != text else _wrapped(text)
    if kind == '"':
        inside = _text(text)
        return inside if kind_of_json(inside) == "{" else _wrapped(inside)
    return _NOTHING if kind == "n" else _wrapped(Raw(text.strip().encode()))


def _wrapped(value: str | Raw) -> str:
    return _encode({WRAPPED: value}).decode()


def _whole(found: re.Match[str]) -> str:
    high, low, alone = found.groups()
    return "\\ufffd" if (high and not low) or alone else found[0]


def _changed(change: Callable[[str], str]) -> Callable[[Request, Aim], Repaired | None]:
    def call(one: ToolCall) -> ToolCall:
        arguments = change(one.arguments)
        return one if arguments == one.arguments else replace(one, arguments=arguments)

    def message(one: Message) -> Message:
        if not one.tool_calls:
            return one
        calls = tuple([call(each) for each in one.tool_calls])
        if all(new is old for new, old in zip(calls, one.tool_calls, strict=True)):
            return one
        return with_calls(one, calls)

    def apply(request: Request, _: Aim) -> Repaired | None:
        found = each_message(request, message) if isinstance(request, ChatRequest) else None
        changed = ("messages[].tool_calls[].function.arguments",)
        return None if found is None else Repaired(request=found, changed=changed)

    return apply


def _not_blank(text: str) -> str:
    return _NOTHING if not text or text.isspace() else text


def _called_with(arguments: str) -> ChatRequest:
    call = ToolCall(id="call00001", name="read", arguments=arguments)
    return ChatRequest(
        "m",
        (
            Message(role="user", content="Read it."),
            Message(role="assistant", tool_calls=(call,)),
            Message(role="tool", tool_call_id="call00001", content="Not read."),
        ),
    )


def call_arguments(source: str) -> Repair:
    """Return the rule for a vendor that reads arguments as an object."""
    return Repair(
        name="call_arguments",
        about="puts arguments of earlier calls that are not an object into one",
        source=source,
        facts=CALLS,
        apply=_changed(as_object),
        example=_called_with('{"path": "a'),
        light=True,
    )


def blank_arguments(source: str) -> Repair:
    """Return the rule for a vendor that reads arguments as a text, which may not be blank."""
    return Repair(
        name="blank_arguments",
        about="writes blank arguments of earlier calls as an empty object",
        source=source,
        facts=CALLS,
        apply=_changed(_not_blank),
        example=_called_with(""),
        light=True,
    )
