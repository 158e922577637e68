"""Results that say that their call failed, where a vendor wants them to have text and nothing else.

A tool that ends without output, or whose last screenshot is all that there is, has such results.
"""

from typing import Final

import msgspec
from msgspec import UNSET, DecodeError, Raw, Struct
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rewriting import each_message, with_content, with_members
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired
from strowger_gateway.schemas.content_facts import NESTED
from strowger_gateway.schemas.messages import ImagePart, Message, TextPart, ToolCall
from strowger_gateway.schemas.requests import ChatRequest, Request

NO_OUTPUT: Final = "The call failed without output."
_FLAG: Final = "is_error"


class _Result(Struct):
    is_error: bool | None = None


_result: Final = msgspec.json.Decoder(_Result).decode


def _failed(one: Message) -> bool:
    raw = one.raw if isinstance(one.raw, Raw) else one.marks
    if one.role != "tool" or not isinstance(raw, Raw) or _FLAG.encode() not in bytes(raw):
        return False
    try:
        return _result(raw).is_error is True
    except (DecodeError, RecursionError):
        return False


def _is_blank(one: Message) -> bool:
    content = one.content
    if isinstance(content, tuple):
        return all(isinstance(part, TextPart) and not part.text.strip() for part in content)
    return not (content or "").strip()


def _with_output(one: Message) -> Message:
    return with_content(one, NO_OUTPUT) if _failed(one) and _is_blank(one) else one


def _unflagged(one: Message) -> Message:
    content = one.content
    if not isinstance(content, tuple) or all(isinstance(part, TextPart) for part in content):
        return one
    if not _failed(one):
        return one
    if isinstance(one.raw, Raw):
        return replace(one, raw=with_members(one.raw, {_FLAG: UNSET}))
    assert isinstance(one.marks, Raw)
    return replace(one, marks=with_members(one.marks, {_FLAG: UNSET}))


def _output(request: Request, _: Aim) -> Repaired | None:
    found = each_message(request, _with_output) if isinstance(request, ChatRequest) else None
    return None if found is None else Repaired(request=found, changed=("messages[].content",))


def _flags(request: Request, _: Aim) -> Repaired | None:
    found = each_message(request, _unflagged) if isinstance(request, ChatRequest) else None
    return None if found is None else Repaired(request=found, left_out=("messages[].is_error",))


def _example(content: str | ImagePart) -> ChatRequest:
    result = Message(
        role="tool",
        tool_call_id="call00001",
        content=content if isinstance(content, str) else (content,),
        marks=Raw(b'{"is_error":true}'),
    )
    call = ToolCall(id="call00001", name="look", arguments="{}")
    messages = (
        Message(role="user", content="Look."),
        Message(role="assistant", tool_calls=(call,)),
        result,
    )
    return ChatRequest("m", messages, nested=True)


def failed_results(source: str) -> tuple[Repair, Repair]:
    """Return the rules. source: where the refusal of an empty result is reported."""
    return (
        Repair(
            name="empty_failure",
            about=f"puts {NO_OUTPUT!r} into an empty result of a call that failed",
            source=source,
            facts=NESTED,
            apply=_output,
            example=_example(""),
            light=True,
        ),
        Repair(
            name="failure_flag",
            about="leaves out `is_error` of a result with more than text",
            source="https://github.com/vellum-ai/vellum-assistant/pull/18387",
            facts=NESTED,
            apply=_flags,
            example=_example(ImagePart(url="data:image/png;base64,iVBORw0KGgo=")),
            loss="hint",
            light=True,
        ),
    )
