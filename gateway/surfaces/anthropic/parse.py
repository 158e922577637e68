"""Parse bodies of the Messages API, or raise an InvalidRequest that names the field.

https://docs.anthropic.com/en/api/messages. Nulls count as absent, and an absent field stays absent.
The client's own JSON of what backends of this dialect receive unchanged is kept next to the values.
"""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from msgspec import UNSET, DecodeError, Raw
from msgspec.structs import replace

from gateway.surfaces.anthropic.blocks import DIALECT
from gateway.surfaces.anthropic.conversation import MessagesConversation
from gateway.surfaces.anthropic.tools import read_effort, read_tools
from gateway.surfaces.anthropic.wire import ALLOWED, MessagesWire, Metadata
from gateway.surfaces.decoding import BodyReader, invalid_request, is_null
from gateway.surfaces.openai.parse import model_name
from schemas.errors import InvalidRequest
from schemas.requests import ChatRequest, Original
from schemas.sampling import Sampling

BETA: Final = b"anthropic-beta"

COUNTED: Final = 16
"""Stands for the `max_tokens` of a request that is only counted: backends may require one, OpenAI's
Responses API this many."""

_KEPT: Final = (
    "messages",
    "system",
    "tools",
    "tool_choice",
    "thinking",
    "output_config",
    "metadata",
)
_metadata: Final = msgspec.json.Decoder(Metadata)
_encode: Final[Callable[[object], bytes]] = msgspec.json.Encoder().encode

READER: Final = BodyReader(MessagesWire, ALLOWED)


def parse_messages(
    body: bytes,
    *,
    model: str = "",
    headers: Iterable[tuple[bytes, bytes]] = (),
    counting: bool = False,
) -> ChatRequest:
    """`POST /v1/messages`.

    model: the name to use if the body names none. counting: `max_tokens` may be absent.
    Raises InvalidRequest.
    """
    wire, extra = READER.read(body)
    max_tokens = wire.max_tokens
    if max_tokens is None:
        if not counting:
            raise InvalidRequest("max_tokens is required", param="max_tokens")
        max_tokens = COUNTED
    conversation = MessagesConversation(wire.system, wire.messages)
    tools = read_tools(wire.tools, wire.tool_choice)
    effort = read_effort(wire.thinking, wire.output_config, max_tokens)
    stop = tuple([one for one in wire.stop_sequences or () if one])
    beta = b",".join([value for name, value in headers if name == BETA])
    if beta:
        extra[BETA.decode()] = Raw(_encode(beta.decode("latin-1")))
    request = ChatRequest(
        model=model_name(wire.model, model),
        messages=tuple(conversation.messages),
        sampling=Sampling(
            temperature=UNSET if wire.temperature is None else wire.temperature,
            top_p=UNSET if wire.top_p is None else wire.top_p,
            top_k=wire.top_k or UNSET,
            max_tokens=max_tokens,
            stop=stop or UNSET,
        ),
        tools=tools.tools,
        tool_choice=tools.choice,
        parallel_tool_calls=tools.parallel,
        response_format=effort.form,
        reasoning_effort=effort.effort,
        stream=wire.stream or False,
        user=_user(wire.metadata),
        extra=extra | effort.more,
        nested=conversation.marked or tools.marked,
    )
    kept = {
        name: raw
        for name in _KEPT
        if isinstance(raw := getattr(wire, name), Raw) and not is_null(raw)
    }
    return replace(request, original=Original(dialect=DIALECT, fields=kept, read=request))


def _user(raw: Raw | msgspec.UnsetType) -> str | msgspec.UnsetType:
    if raw is UNSET or is_null(raw):
        return UNSET
    try:
        user = _metadata.decode(raw).user_id
    except (DecodeError, RecursionError) as exc:
        raise invalid_request(exc, "metadata", ALLOWED) from exc
    return UNSET if user is None else user
