"""Servers of open models that speak the OpenAI dialect and add their engine's own parameters.

They silently ignore unknown fields, so only fields that they read are sent to them.
"""

from collections.abc import Mapping
from typing import ClassVar

from msgspec import UNSET, Raw
from msgspec.structs import replace

from strowger_gateway.adapters.base import (
    EVERY_MODEL,
    READABLE,
    Continues,
    Endpoint,
    Outbound,
    Range,
    Supports,
)
from strowger_gateway.adapters.client_fields.denied import withheld
from strowger_gateway.adapters.json_objects import read_object
from strowger_gateway.adapters.openai.adapter import OpenAIAdapter
from strowger_gateway.adapters.openai.encode import Body, encode_body, message
from strowger_gateway.adapters.openai.vendor_profiles import VendorProfile
from strowger_gateway.schemas.fields import MESSAGES, Task
from strowger_gateway.schemas.messages import Message, thinking_of
from strowger_gateway.schemas.requests import (
    ChatRequest,
    Request,
)
from strowger_gateway.schemas.tasks.task import Unsampled

SAMPLING = frozenset(
    {
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "max_tokens",
        "min_tokens",
        "stop",
        "stop_token_ids",
        "ignore_eos",
        "seed",
        "presence_penalty",
        "frequency_penalty",
        "repetition_penalty",
        "logit_bias",
        "logprobs",
        "top_logprobs",
        "n",
        "priority",
    }
)
"""What every such server reads. Without `suffix`, which SGLang reads only if it was given a
completion template, and without `best_of`, which newer versions of vLLM ignore."""

CHAT = frozenset(
    {
        *MESSAGES,
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "response_format",
        "reasoning_effort",
    }
)
COMPLETION = frozenset({"echo", "prompt.tokens", "prompt.batch"})
EMBEDDINGS = frozenset({"dimensions", "input.tokens"})

RANGES: Mapping[str, Range] = {
    "temperature": Range(minimum=0),
    "top_p": Range(above=0, maximum=1),
    "top_k": Range(minimum=-1),
    "min_p": Range(minimum=0, maximum=1),
    "min_tokens": Range(minimum=0),
    "presence_penalty": Range(minimum=-2, maximum=2),
    "frequency_penalty": Range(minimum=-2, maximum=2),
    "repetition_penalty": Range(above=0),
    "n": Range(minimum=1),
}

LOWEST_PRIORITY = 5
"""The priority of a request that sets none."""


class OpenModelServerAdapter(OpenAIAdapter):
    """profile: how the server differs from OpenAI. higher_first: a higher number goes first.

    sampling:   what it reads in addition to `SAMPLING`. extra: its own fields, by task.
    ranges:     where they differ from `RANGES`.
    translated: fields of a chat that it has under another name or in another form.
    continuing: the fields with which it continues the last message.
    """

    profile: ClassVar[VendorProfile]
    sampling: ClassVar[frozenset[str]] = frozenset()
    extra: ClassVar[Mapping[Task, frozenset[str]]]
    ranges: ClassVar[Mapping[str, Range]]
    translated: ClassVar[Mapping[str, str]] = {}
    higher_first: ClassVar[bool] = False
    continuing: ClassVar[Mapping[str, bool]] = {"continue_final_message": True}

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint, self.profile)

    def supported(self) -> Supports:
        sampling = SAMPLING | self.sampling
        priority = {"priority": f"priority (1 … 5 as {'4 … 0' if self.higher_first else '-4 … 0'})"}
        return Supports(
            client_fields=withheld(self.name),
            thoughts=READABLE,
            chat=sampling | CHAT,
            completion=sampling | COMPLETION,
            embeddings=EMBEDDINGS,
            extra_fields=self.extra,
            ranges={**RANGES, **self.ranges},
            continues=Continues(model=EVERY_MODEL),
            repairs=self.vendor.repairs,
            translated={"chat": {**priority, **self.translated}, "completion": priority},
        )

    def encode(self, request: Request, model: str) -> Outbound:
        if isinstance(request, ChatRequest):
            request = replace(
                request, messages=tuple(_with_reasoning(one) for one in request.messages)
            )
        return super().encode(request, model)

    def finish_body(self, body: Body, request: Request) -> bytes:
        """Translate the priority: ours is 1 (first) … 5, theirs starts at 0, the default."""
        own = UNSET if isinstance(request, Unsampled) else request.priority
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
