"""Servers of open models that speak the OpenAI dialect and add their engine's own parameters.

They silently ignore unknown fields, so only fields that they read are sent to them.
"""

from collections.abc import Mapping
from typing import ClassVar

from msgspec import UNSET, Raw
from msgspec.structs import replace

from adapters.base import Endpoint, Outbound
from adapters.openai.adapter import OpenAIAdapter
from adapters.openai.encode import Body, encode_body, message
from adapters.openai.vendor_profiles import VendorProfile
from adapters.openai.wire import read_object
from schemas.messages import Message, thinking_of
from schemas.requests import (
    ChatRequest,
    EmbeddingsRequest,
    Request,
)

LOWEST_PRIORITY = 5
"""The priority of a request that sets none."""


class OpenModelServerAdapter(OpenAIAdapter):
    """profile: how the server differs from OpenAI. higher_first: a higher number goes first.

    continuing: the fields with which it continues the last message.
    """

    profile: ClassVar[VendorProfile]
    higher_first: ClassVar[bool] = False
    continuing: ClassVar[Mapping[str, bool]] = {"continue_final_message": True}

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint, self.profile)

    def encode(self, request: Request, model: str) -> Outbound:
        if isinstance(request, ChatRequest):
            request = replace(
                request, messages=tuple(_with_reasoning(one) for one in request.messages)
            )
        return super().encode(request, model)

    def finish_body(self, body: Body, request: Request) -> bytes:
        """Translate the priority: ours is 1 (first) … 5, theirs starts at 0, the default."""
        own = UNSET if isinstance(request, EmbeddingsRequest) else request.priority
        if own is not UNSET and body.pop("priority", None) is not None and own != LOWEST_PRIORITY:
            body["priority"] = LOWEST_PRIORITY - own if self.higher_first else own - LOWEST_PRIORITY
        if isinstance(request, ChatRequest) and request.begun:
            body.update(self.continuing)
        return encode_body(body)


def _with_reasoning(one: Message) -> Message:
    """Return reasoning that was sent back only in blocks as the text that a chat template reads."""
    if one.reasoning or not one.thoughts:
        return one
    text = thinking_of(one)
    if not text:
        return one
    fields: Body = {**read_object(one.raw)} if isinstance(one.raw, Raw) else message(one)
    return replace(one, raw=Raw(encode_body({**fields, "reasoning_content": text})))
