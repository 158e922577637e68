"""Parse bodies of the Messages API, or raise an InvalidRequest that names the field.

https://docs.anthropic.com/en/api/messages. Nulls count as absent, and an absent field stays absent.
The client's own JSON of what backends of this dialect receive unchanged is kept next to the values.
"""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from msgspec import UNSET, DecodeError, Raw, UnsetType
from msgspec.structs import replace

from strowger_gateway.gateway.surfaces.anthropic.blocks import DIALECT
from strowger_gateway.gateway.surfaces.anthropic.conversation import MessagesConversation
from strowger_gateway.gateway.surfaces.anthropic.tools import (
    NO_EFFORT,
    NO_TOOLS,
    read_effort,
    read_tools,
    thinking_budget,
)
from strowger_gateway.gateway.surfaces.anthropic.wire import ALLOWED, MessagesWire, Metadata
from strowger_gateway.gateway.surfaces.decoding import BodyReader, invalid_request, is_null
from strowger_gateway.gateway.surfaces.openai.parse import model_name
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.requests import ChatRequest, Original
from strowger_gateway.schemas.sampling import Sampling

BETA: Final = b"anthropic-beta"

COUNTED: Final = 16
"""Stands for the `max_tokens` of a request that is only counted, beyond its thinking: backends may
require one, OpenAI's Responses API this many."""

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
        max_tokens = COUNTED + thinking_budget(wire.thinking)
    conversation = MessagesConversation(wire.system, wire.messages)
    tools, effort = NO_TOOLS, NO_EFFORT
    if wire.tools is not UNSET or wire.tool_choice is not UNSET:
        tools = read_tools(wire.tools, wire.tool_choice)
    if wire.thinking is not UNSET or wire.output_config is not UNSET:
        effort = read_effort(wire.thinking, wire.output_config, max_tokens)
    beta = b",".join([value for name, value in headers if name == BETA])
    if beta:
        extra[BETA.decode()] = Raw(_encode(beta.decode("latin-1")))
    extra |= effort.more
    # By position, in the order of the fields: see
    # `strowger_gateway.gateway.surfaces.openai.parse.parse_chat`.
    request = ChatRequest(
        model_name(wire.model, model),
        tuple(conversation.messages),
        Sampling(
            temperature=UNSET if wire.temperature is None else wire.temperature,
            top_p=UNSET if wire.top_p is None else wire.top_p,
            top_k=wire.top_k or UNSET,
            max_tokens=max_tokens,
            stop=_stop(wire.stop_sequences) if wire.stop_sequences else UNSET,
        ),
        tools.tools,
        tools.choice,
        tools.parallel,
        effort.form,
        effort.effort,
        wire.stream or False,
        user=UNSET if wire.metadata is UNSET else _user(wire.metadata),
        extra=extra,
        nested=conversation.marked or tools.marked,
    )
    kept = {
        name: raw
        for name in _KEPT
        if isinstance(raw := getattr(wire, name), Raw) and not is_null(raw)
    }
    if conversation.signed:
        del kept["messages"]  # another vendor's proofs are in its ids
    original = Original(dialect=DIALECT, fields=kept, read=request, turns=conversation.turns)
    return replace(request, original=original)


def _stop(sequences: tuple[str, ...]) -> tuple[str, ...] | UnsetType:
    """Drop empty strings: they stop nothing."""
    return tuple([one for one in sequences if one]) or UNSET


def _user(raw: Raw) -> str | UnsetType:
    if is_null(raw):
        return UNSET
    try:
        user = _metadata.decode(raw).user_id
    except (DecodeError, RecursionError) as exc:
        raise invalid_request(exc, "metadata", ALLOWED) from exc
    return UNSET if user is None else user
