"""Ollama's names of the fields that our schema has.

Each message of `/api/chat` is one of ours; its images are parts after its text. A prompt of
`/api/generate` is the last message, and what comes before it was in `system` and `context`.
"""

from collections.abc import Iterable
from typing import Final

from strowger_gateway.gateway.surfaces.field_names import (
    ClientPlace,
    ClientPlaces,
    ConversationNames,
    FieldNames,
    Table,
)
from strowger_gateway.gateway.surfaces.ollama.options import NAMES, OPTIONS, option_names
from strowger_gateway.schemas.messages import Message, TextPart
from strowger_gateway.schemas.requests import ChatRequest, Request

_FIELDS: Final[Table] = {
    **{ours: f"{OPTIONS}.{name}" for ours, name in NAMES.items()},
    "prompt_template": "template",
    "reasoning_effort": "think",
    "response_format": "format",
    "response_format.json_schema": "format",
}
_ANY: Final = ClientPlace(
    message="messages[]",
    own="messages[]",
    content="messages[].content",
    call="messages[].tool_calls[]",
)
_PROMPT: Final = ClientPlace(message="prompt", own="prompt", content="prompt")
_SYSTEM: Final = ClientPlace(message="system", own="system", content="system")
_CONTEXT: Final = ClientPlace(message="context", own="context", content="context")


def _kind(request: ChatRequest, message: Message | None) -> ClientPlace:
    return _ANY


def _places(request: ChatRequest) -> ClientPlaces:
    return ClientPlaces(
        messages=tuple([_place(one, f"messages[{at}]") for at, one in enumerate(request.messages)]),
        tools=_tools(request),
    )


def _place(message: Message, where: str) -> ClientPlace:
    content = f"{where}.content"
    return ClientPlace(
        message=where,
        own=where,
        content=content,
        parts=_parts(message, content, f"{where}.images"),
        calls=tuple([f"{where}.tool_calls[{at}]" for at in range(len(message.tool_calls))]),
    )


def _parts(message: Message, text: str, images: str) -> tuple[str, ...]:
    if not isinstance(message.content, tuple):
        return ()
    texts = sum(isinstance(one, TextPart) for one in message.content)
    return tuple(
        [
            text if isinstance(one, TextPart) else f"{images}[{at - texts}]"
            for at, one in enumerate(message.content)
        ]
    )


def _tools(request: ChatRequest) -> tuple[str, ...]:
    return tuple([f"tools[{at}]" for at in range(len(request.tools or ()))])


def _prompts_kind(request: ChatRequest, message: Message | None) -> ClientPlace:
    if message is None or message is request.messages[-1]:
        return _PROMPT
    return _SYSTEM if message is request.messages[0] and message.role == "system" else _CONTEXT


def _prompts_places(request: ChatRequest) -> ClientPlaces:
    found = [_prompts_kind(request, one) for one in request.messages[:-1]]
    if request.messages:
        last = request.messages[-1]
        parts = _parts(last, "prompt", "images")
        found.append(ClientPlace(message="prompt", own="prompt", content="prompt", parts=parts))
    return ClientPlaces(messages=tuple(found))


_OF_MESSAGE: Final[Table] = {"reasoning": "thinking"}
_OF_PART: Final[Table] = dict.fromkeys(
    ("image_url", "image_url.url", "image_url.detail", "text"), ""
)
_OF_CALL: Final[Table] = {"extra_content": "id"}
"""A call's signature is in its id."""


class OllamaNames(FieldNames):
    """Names each of the options that were left out, and not only the object."""

    def of(self, paths: Iterable[str], request: Request | None) -> list[str]:
        """See FieldNames."""
        given: list[str] = []
        for path in paths:
            rest = None if request is None or path != OPTIONS else request.extra.get(OPTIONS)
            given += [path] if rest is None else option_names(rest)
        return super().of(given, request)


CHAT_NAMES: Final = OllamaNames(
    _FIELDS,
    ConversationNames(
        kind=_kind, places=_places, message=_OF_MESSAGE, part=_OF_PART, call=_OF_CALL
    ),
)
GENERATE_NAMES: Final = OllamaNames(
    _FIELDS, ConversationNames(kind=_prompts_kind, places=_prompts_places, part=_OF_PART)
)
EMBED_NAMES: Final = OllamaNames({"inputs": "input"})
EMBEDDING_NAMES: Final = OllamaNames({"inputs": "prompt", "input": "prompt"})
