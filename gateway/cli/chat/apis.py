"""The APIs that `strowger chat` can use: the body of a question, and the pieces of an answer."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, Protocol

import msgspec
from msgspec import UNSET, Struct, UnsetType

from strowger_gateway.gateway.cli.config_loading import Faults

ApiName = Literal["chat", "messages", "responses"]

MAX_TOKENS: Final = 4096
"""Anthropic's API requires a limit."""


class Message(Struct, frozen=True, kw_only=True):
    role: Literal["system", "user", "assistant"]
    content: str


class ChatApi(Protocol):
    @property
    def path(self) -> str: ...

    def body(self, model: str, system: str, messages: Sequence[Message], user: str) -> bytes: ...

    def piece(self, data: bytes, on_text: Callable[[str, bool], None]) -> bool:
        """Pass on a frame's content; true at the stream's end.

        Raises Faults for an error, and msgspec's errors for an unreadable frame.
        """
        ...


class _Body(Struct, frozen=True, kw_only=True, omit_defaults=True):
    model: str
    messages: tuple[Message, ...]
    stream: bool
    user: str | UnsetType = UNSET


class _Delta(Struct):
    content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None


class _Choice(Struct):
    delta: _Delta


class _ErrorDetail(Struct):
    message: str


class _Chunk(Struct):
    choices: list[_Choice] = []
    error: _ErrorDetail | None = None


class OpenAIChat:
    """OpenAI's chat completions."""

    path = "/v1/chat/completions"

    def body(self, model: str, system: str, messages: Sequence[Message], user: str) -> bytes:
        first = (Message(role="system", content=system),) if system else ()
        said = (*first, *messages)
        return msgspec.json.encode(
            _Body(model=model, messages=said, stream=True, user=user or UNSET)
        )

    def piece(self, data: bytes, on_text: Callable[[str, bool], None]) -> bool:
        """See ChatApi."""
        if data == b"[DONE]":
            return True
        chunk = msgspec.json.decode(data, type=_Chunk)
        _check(chunk.error)
        for choice in chunk.choices:
            if choice.delta.reasoning:
                on_text(choice.delta.reasoning, True)
            if words := choice.delta.content or choice.delta.refusal:
                on_text(words, False)
        return False


class _User(Struct, frozen=True, kw_only=True):
    user_id: str


class _MessagesBody(Struct, frozen=True, kw_only=True):
    model: str
    max_tokens: int
    messages: tuple[Message, ...]
    stream: bool
    system: str | UnsetType = UNSET
    metadata: _User | UnsetType = UNSET


class _BlockDelta(Struct):
    text: str = ""
    thinking: str = ""


class _Event(Struct):
    type: str
    delta: _BlockDelta | None = None
    error: _ErrorDetail | None = None


class MessagesChat:
    """Anthropic's Messages API."""

    path = "/v1/messages"

    def body(self, model: str, system: str, messages: Sequence[Message], user: str) -> bytes:
        return msgspec.json.encode(
            _MessagesBody(
                model=model,
                max_tokens=MAX_TOKENS,
                messages=tuple(messages),
                stream=True,
                system=system or UNSET,
                metadata=_User(user_id=user) if user else UNSET,
            )
        )

    def piece(self, data: bytes, on_text: Callable[[str, bool], None]) -> bool:
        """See ChatApi."""
        event = msgspec.json.decode(data, type=_Event)
        _check(event.error)
        if event.delta is not None:
            if event.delta.thinking:
                on_text(event.delta.thinking, True)
            if event.delta.text:
                on_text(event.delta.text, False)
        return event.type == "message_stop"


class _ResponsesBody(Struct, frozen=True, kw_only=True):
    model: str
    input: tuple[Message, ...]
    stream: bool
    store: bool = False
    instructions: str | UnsetType = UNSET
    user: str | UnsetType = UNSET


class _ResponseEvent(Struct):
    type: str
    delta: str = ""
    error: _ErrorDetail | None = None


class ResponsesChat:
    """OpenAI's Responses API."""

    path = "/v1/responses"

    def body(self, model: str, system: str, messages: Sequence[Message], user: str) -> bytes:
        return msgspec.json.encode(
            _ResponsesBody(
                model=model,
                input=tuple(messages),
                stream=True,
                instructions=system or UNSET,
                user=user or UNSET,
            )
        )

    def piece(self, data: bytes, on_text: Callable[[str, bool], None]) -> bool:
        """See ChatApi."""
        if data == b"[DONE]":
            return True
        event = msgspec.json.decode(data, type=_ResponseEvent)
        _check(event.error)
        if event.delta and event.type in _SHOWN:
            on_text(event.delta, "reasoning" in event.type)
        return event.type in ("response.completed", "response.incomplete")


_SHOWN: Final = frozenset(
    {
        "response.output_text.delta",
        "response.refusal.delta",
        "response.reasoning_text.delta",
        "response.reasoning_summary_text.delta",
    }
)


def _check(error: _ErrorDetail | None) -> None:
    if error is not None:
        raise Faults((f"the answer ended early: {error.message}",))


APIS: Final[Mapping[ApiName, ChatApi]] = {
    "chat": OpenAIChat(),
    "messages": MessagesChat(),
    "responses": ResponsesChat(),
}
