"""Options of a stream in a request whose answer is not streamed."""

from typing import Final

from msgspec import Raw
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired
from strowger_gateway.schemas.content_facts import EXTRA
from strowger_gateway.schemas.fields import STREAM_OPTIONS
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest, CompletionRequest, Request


def _without_options(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest | CompletionRequest) or request.stream:
        return None
    if STREAM_OPTIONS not in request.extra:
        return None
    extra = {name: raw for name, raw in request.extra.items() if name != STREAM_OPTIONS}
    return Repaired(request=replace(request, extra=extra), left_out=(STREAM_OPTIONS,))


UNSTREAMED_OPTIONS: Final = Repair(
    name="stream_options",
    about="leaves out `stream_options` of an answer that is not streamed",
    source="https://platform.openai.com/docs/api-reference/chat/create#chat-create-stream_options",
    facts=EXTRA,
    apply=_without_options,
    example=ChatRequest(
        "m",
        (Message(role="user", content="Hello"),),
        extra={STREAM_OPTIONS: Raw(b'{"include_obfuscation":false,"x":true}')},
    ),
    loss="hint",
)
"""Servers refuse them: `Stream options can only be defined when stream=True`."""
