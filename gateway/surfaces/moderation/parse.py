"""Read requests for moderation."""

from typing import Final

from msgspec import UNSET

from strowger_gateway.gateway.surfaces.base import Inbound
from strowger_gateway.gateway.surfaces.decoding import BodyReader, check_whole, model_name
from strowger_gateway.gateway.surfaces.moderation.wire import (
    ALLOWED,
    CHAT_ALLOWED,
    ChatModerationWire,
    ModeratedPart,
    ModeratedText,
    ModerationWire,
    Said,
)
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import ImagePart, Message, TextPart
from strowger_gateway.schemas.tasks.moderate import ModerateRequest, Piece

DEFAULT_MODEL: Final = "omni-moderation-latest"
"""OpenAI's own default: its clients name no model."""

MAX_INPUTS: Final = 2048

READER: Final = BodyReader(ModerationWire, ALLOWED)
CHATS: Final = BodyReader(ChatModerationWire, CHAT_ALLOWED)


def parse_moderation(inbound: Inbound) -> ModerateRequest:
    """`POST /v1/moderations`. Raises InvalidRequest."""
    wire, extra = READER.read(inbound.body)
    check_whole(wire.stream)
    inputs = _inputs(wire.input)
    _check_count(len(inputs))
    return ModerateRequest(
        model=model_name(wire.model or DEFAULT_MODEL, ""),
        inputs=inputs,
        user=UNSET if wire.user is None else wire.user,
        timeout_s=UNSET if wire.timeout is None else wire.timeout,
        extra=extra,
    )


def parse_chat_moderation(inbound: Inbound) -> ModerateRequest:
    """`POST /v1/chat/moderations`. Raises InvalidRequest."""
    wire, extra = CHATS.read(inbound.body)
    check_whole(wire.stream)
    single = tuple([one for one in wire.input if isinstance(one, Said)])
    several = tuple([one for one in wire.input if not isinstance(one, Said)])
    if single and several:
        raise InvalidRequest(
            "input must have messages or lists of messages, not both", param="input"
        )
    conversations = (single,) if single else several
    _check_count(len(conversations))
    for place, one in enumerate(conversations):
        if not one:
            raise InvalidRequest(
                f"input[{place}] must have at least one message", param=f"input[{place}]"
            )
    return ModerateRequest(
        model=model_name(wire.model or DEFAULT_MODEL, ""),
        conversations=tuple([tuple(map(_message, one)) for one in conversations]),
        user=UNSET if wire.user is None else wire.user,
        timeout_s=UNSET if wire.timeout is None else wire.timeout,
        extra=extra,
    )


def _inputs(given: str | tuple[str | ModeratedPart, ...]) -> tuple[tuple[Piece, ...], ...]:
    """Return each input: texts are judged one by one, parts together."""
    if isinstance(given, str):
        return ((TextPart(text=given),),)
    texts = [one for one in given if isinstance(one, str)]
    if len(texts) == len(given):
        return tuple([(TextPart(text=one),) for one in texts])
    pieces: list[Piece] = []
    for place, one in enumerate(given):
        if isinstance(one, str):
            raise InvalidRequest(
                f"input[{place}] is a string next to parts; send parts of type text",
                param=f"input[{place}]",
            )
        if isinstance(one, ModeratedText):
            pieces.append(TextPart(text=one.text))
        else:
            pieces.append(ImagePart(url=one.image_url.url))
    return (tuple(pieces),)


def _message(said: Said) -> Message:
    content = said.content
    if isinstance(content, tuple):
        content = "\n".join([part.text for part in content])
    return Message(role=said.role, content=content or "")


def _check_count(count: int) -> None:
    if not count:
        raise InvalidRequest("input must have at least one entry", param="input")
    if count > MAX_INPUTS:
        raise InvalidRequest(f"input must have at most {MAX_INPUTS} entries", param="input")
