"""Servers of open models that speak the OpenAI dialect and add their engine's own parameters.

They ignore in silence what they do not know, so nothing reaches them that they do not read.
"""

from collections.abc import Mapping
from typing import ClassVar

from msgspec import UNSET, Raw
from msgspec.structs import replace

from adapters.base import Endpoint, Outbound
from adapters.catalog import Vendor
from adapters.choice_fields import ChoiceFieldsDecoder
from adapters.openai import OpenAIAdapter, expected_choices
from adapters.openai_decode import OpenAIDecoder
from adapters.openai_encode import Body, encode_body, message
from adapters.openai_wire import read_object
from schemas.messages import Message, thinking_of
from schemas.requests import (
    ChatRequest,
    EmbeddingsRequest,
    GenerateRequest,
    Request,
)

LAST = 5
"""Our priority of a request that asks for none."""


class ServedEngineAdapter(OpenAIAdapter):
    """row: how the server differs from OpenAI.

    asked_for: of a choice's fields beyond OpenAI's, those that come with a field of the request.
    upwards:   a higher number goes first.
    """

    row: ClassVar[Vendor]
    asked_for: ClassVar[Mapping[str, frozenset[str]]] = {}
    upwards: ClassVar[bool] = False

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint, self.row)

    def encode(self, request: Request, model: str) -> Outbound:
        if isinstance(request, ChatRequest):
            request = replace(
                request, messages=tuple(_with_reasoning(one) for one in request.messages)
            )
        return super().encode(request, model)

    def decoder(self, request: GenerateRequest) -> OpenAIDecoder:
        asked = [self.asked_for[name] for name in request.extra if name in self.asked_for]
        if not asked:
            return super().decoder(request)
        decoder = ChoiceFieldsDecoder(
            self.endpoint,
            stream=request.stream,
            choices=expected_choices(request),
            fields=frozenset[str]().union(*asked),
        )
        decoder.marked = self.row.marked
        return decoder

    def finish_body(self, body: Body, request: Request) -> bytes:
        """Ours is 1 (first) … 5, theirs begins at 0, which goes without saying."""
        own = UNSET if isinstance(request, EmbeddingsRequest) else request.priority
        if own is not UNSET and body.pop("priority", None) is not None and own != LAST:
            body["priority"] = LAST - own if self.upwards else own - LAST
        return encode_body(body)


def _with_reasoning(one: Message) -> Message:
    """Thoughts that came back block by block alone, as the text that a chat template reads."""
    if one.reasoning or not one.thoughts:
        return one
    text = thinking_of(one)
    if not text:
        return one
    fields: Body = {**read_object(one.raw)} if isinstance(one.raw, Raw) else message(one)
    return replace(one, raw=Raw(encode_body({**fields, "reasoning_content": text})))
