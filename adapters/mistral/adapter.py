"""Mistral: the OpenAI dialect with its own seed, tool choice and content chunks.

Mistral rejects unknown fields with a 422, so only known ones are sent. Completions use its fill in
the middle API (`/fim/completions`), with or without a suffix; `output_dimension` sets the length of
embeddings.
https://docs.mistral.ai/api
"""

from collections.abc import Mapping
from typing import ClassVar
from urllib.parse import urlsplit

from msgspec import UNSET
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
from strowger_gateway.adapters.mistral.messages import mistral_message, mistral_tool
from strowger_gateway.adapters.mistral.repairs import MISTRAL_REPAIRS
from strowger_gateway.adapters.openai.adapter import OpenAIAdapter
from strowger_gateway.adapters.openai.decode import OpenAIDecoder
from strowger_gateway.adapters.openai.encode import Body, encode_body, mark_prefix
from strowger_gateway.adapters.openai.vendor_profiles import VendorProfile
from strowger_gateway.adapters.openai.wire import Choice, ToolPiece, WireMessage
from strowger_gateway.adapters.tasks import moderate
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.events import Event
from strowger_gateway.schemas.fields import Task
from strowger_gateway.schemas.messages import MISTRAL as MISTRALS
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    GenerateRequest,
    Request,
    expected_choices,
)

MISTRAL = VendorProfile(name="mistral", stream_usage=False, tasks=(moderate.MISTRAL,))
"""Usage comes with every stream's last chunk without being requested."""

SAMPLING = frozenset({"max_tokens", "temperature", "top_p", "stop", "seed", "min_tokens"})
CHAT = SAMPLING | {
    "top_k",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "n",
    "logprobs",
    "top_logprobs",
    "tools",
    "tools.opaque",
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
    "reasoning_effort",
    "metadata",
    "messages.image",
    "messages.remote_image",
    "messages.audio",
    "messages.opaque",
}
COMPLETION = SAMPLING | {"suffix"}
EMBEDDINGS = frozenset({"dimensions"})

OWN = frozenset({"random_seed", "prompt_cache_key"})
CHAT_EXTRA = OWN | {
    "guardrails",
    "prediction",
    "prompt_logprobs",
    "prompt_mode",
    "safe_prompt",
    "service_tier",
    "top_prompt_logprobs",
}
COMPLETION_EXTRA = OWN | {"metadata"}
EMBEDDINGS_EXTRA = frozenset({"metadata", "output_dimension", "output_dtype"})

RANGES = {
    "temperature": Range(minimum=0),
    "top_p": Range(minimum=0, maximum=1),
    "max_tokens": Range(minimum=0),
    "min_tokens": Range(minimum=0),
    "seed": Range(minimum=0),
    "presence_penalty": Range(minimum=-2, maximum=2),
    "frequency_penalty": Range(minimum=-2, maximum=2),
    "n": Range(minimum=1),
}

RENAMED = (("seed", "random_seed"), ("dimensions", "output_dimension"))
"""OpenAI's names -> Mistral's."""

TRANSLATED: Mapping[Task, Mapping[str, str]] = {
    "chat": {
        "seed": "random_seed",
        "tool_choice": "tool_choice (required as any)",
        "messages.audio": "messages[].content[].input_audio (base64 alone)",
    },
    "completion": {"seed": "random_seed"},
    "embeddings": {"dimensions": "output_dimension"},
}

NO_ID = "null"
"""The id in Mistral's schema of a tool call without one."""


class MistralAdapter(OpenAIAdapter):
    name: ClassVar[str] = "mistral"
    base_url: ClassVar[str] = "https://api.mistral.ai/v1"

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint, MISTRAL)
        base = urlsplit(endpoint.base_url)
        query = f"?{base.query}" if base.query else ""
        self._fim = f"{base.path.rstrip('/')}/fim/completions{query}"

    def encode(self, request: Request, model: str) -> Outbound:
        if isinstance(request, CompletionRequest):
            if len(request.prompts) != 1 or not isinstance(request.prompts[0], str):
                raise InvalidRequest(
                    "prompt: this backend accepts a single text prompt", param="prompt"
                )
            bare = replace(request, batch=False)
            return replace(super().encode(bare, model), target=self._fim)
        if isinstance(request, ChatRequest):
            request = replace(
                request,
                messages=tuple(mistral_message(one) for one in request.messages),
                tools=tuple(mistral_tool(one) for one in request.tools)
                if request.tools
                else request.tools,
                max_tokens_field="max_tokens",
            )
        return super().encode(request, model)

    def decoder(self, request: GenerateRequest) -> "MistralDecoder":
        return MistralDecoder(
            self.endpoint, stream=request.stream, choices=expected_choices(request)
        )

    def finish_body(self, body: Body, request: Request) -> bytes:
        """Raises InvalidRequest if a field came under both of its names."""
        for name, own in RENAMED:
            if name in body:
                if own in body:
                    raise InvalidRequest(
                        f"{own}: {name} has the same meaning; send only one", param=own
                    )
                body[own] = body.pop(name)
        if isinstance(request, ChatRequest) and request.begun:
            mark_prefix(body)
        choice = request.tool_choice if isinstance(request, ChatRequest) else UNSET
        if choice and choice.mode == "required":
            body["tool_choice"] = "any"
        return encode_body(body)

    def supported(self) -> Supports:
        return Supports(
            client_fields=withheld("mistral"),
            thoughts=READABLE,
            proofs=frozenset({MISTRALS}),
            chat=CHAT,
            completion=COMPLETION,
            embeddings=EMBEDDINGS,
            extra_fields={
                "chat": CHAT_EXTRA,
                "completion": COMPLETION_EXTRA,
                "embeddings": EMBEDDINGS_EXTRA,
            },
            ranges=RANGES,
            translated=TRANSLATED,
            continues=Continues(model=EVERY_MODEL, repeats=True),
            repairs=MISTRAL_REPAIRS,
        )


class MistralDecoder(OpenAIDecoder):
    """Decodes calls that come complete, all at index 0, with `null` as id."""

    proof_format = MISTRALS

    def _choice(self, choice: Choice, events: list[Event]) -> None:
        super()._choice(
            replace(choice, delta=_numbered(choice.delta), message=_numbered(choice.message)),
            events,
        )


def _numbered(message: WireMessage | None) -> WireMessage | None:
    if message is None or not (message.tool_calls or message.opaque):
        return message
    return replace(
        message,
        tool_calls=tuple(_piece(one) for one in message.tool_calls or ()) or None,
        opaque={name: raw for name, raw in (message.opaque or {}).items() if name != "index"},
    )


def _piece(one: ToolPiece) -> ToolPiece:
    """A piece with a name but no id starts a call, whatever its index."""
    if one.id and one.id != NO_ID:
        return one
    begins = one.function is not None and bool(one.function.name)
    return replace(one, id=None, index=None if begins else one.index)
