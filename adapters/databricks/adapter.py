"""Databricks Foundation Model APIs: the OpenAI dialect with its own paths and a few fields.

The serving endpoint is named in the path (`/serving-endpoints/{name}/invocations`), not in the
body, a model `endpoint/served-model` bypasses the traffic split, completions are wrapped in a
prompt template unless `use_raw_prompt` is true, `suffix` is appended to each answer, and embedding
models accept an `instruction`. Reasoning is a part in a list of contents, in both directions (see
adapters/databricks/messages.py). `RANGES` has the documented bounds.
https://docs.databricks.com/en/machine-learning/foundation-model-apis/api-reference.html

A base URL that ends in one of `OPENAI_PATHS` selects the OpenAI client's paths instead
(`…/chat/completions`, the endpoint's or the Unity Catalog model's name in `model`).
"""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import ClassVar
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import replace

from strowger_gateway.adapters.base import (
    ALL_THOUGHTS,
    Endpoint,
    Outbound,
    Range,
    Supports,
    TokenEndpoint,
)
from strowger_gateway.adapters.capabilities import TOOL_PROPERTIES
from strowger_gateway.adapters.client_fields.denied import withheld
from strowger_gateway.adapters.databricks.messages import databricks_message
from strowger_gateway.adapters.databricks.oauth import TOKENS
from strowger_gateway.adapters.databricks.repairs import DATABRICKS_REPAIRS
from strowger_gateway.adapters.openai.adapter import OpenAIAdapter
from strowger_gateway.adapters.openai.cache_marks import with_cache_marks
from strowger_gateway.adapters.openai.decode import OpenAIDecoder
from strowger_gateway.adapters.openai.encode import Body, encode_body
from strowger_gateway.adapters.openai.model_families import is_claude
from strowger_gateway.adapters.openai.vendor_profiles import VendorProfile
from strowger_gateway.adapters.openai.wire import OpenChunk
from strowger_gateway.adapters.repairs.rule import every_model
from strowger_gateway.schemas.events import Event
from strowger_gateway.schemas.messages import CLAUDE
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    GenerateRequest,
    Request,
    expected_choices,
)

DATABRICKS = VendorProfile(name="databricks", stream_usage=False, cache_marks=every_model)
"""Usage is on every chunk without being requested."""

SAMPLING = frozenset({"max_tokens", "temperature", "top_p", "top_k", "stop", "n"})
CHAT = SAMPLING | {
    "tools",
    "tool_choice",
    "response_format",
    "logprobs",
    "top_logprobs",
    "reasoning_effort",
    "messages.image",
    "messages.remote_image",
    "messages.opaque",
}
COMPLETION = SAMPLING | {
    "echo",
    "append_suffix",
    "template",
    "error_behavior",
    "prompt.batch",
}
EMBEDDINGS = frozenset({"instruction"})

RANGES = {
    "tools": Range(items=32),
    TOOL_PROPERTIES: Range(maximum=15),
    "temperature": Range(minimum=0, maximum=2),
    "top_p": Range(above=0, maximum=1),
    "top_k": Range(minimum=1),
    "max_tokens": Range(minimum=1),
    "top_logprobs": Range(minimum=0, maximum=20),
}

INVOCATIONS = "/serving-endpoints"
SERVED = "served-model-name"
"""The answer's header field with the served model that answered."""

OPENAI_PATHS = (INVOCATIONS, "/ai-gateway/mlflow/v1")


class DatabricksAdapter(OpenAIAdapter):
    name: ClassVar[str] = "databricks"
    token_endpoint: ClassVar[TokenEndpoint] = TOKENS

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint, DATABRICKS)
        self._base = urlsplit(endpoint.base_url).path.rstrip("/")
        self._by_path = not self._base.endswith(OPENAI_PATHS)

    def encode(self, request: Request, model: str) -> Outbound:
        if isinstance(request, ChatRequest):
            request = with_cache_marks(request)
            request = replace(
                request,
                messages=tuple(databricks_message(one) for one in request.messages),
                max_tokens_field="max_tokens",
            )
        outbound = super().encode(request, model)
        if not self._by_path:
            return outbound
        target = f"{self._base}{INVOCATIONS}/{_address(model)}/invocations"
        return replace(outbound, target=target)

    def decoder(self, request: GenerateRequest) -> OpenAIDecoder:
        return self.decoder_of(request, {})

    def decoder_of(self, request: GenerateRequest, headers: Mapping[str, str]) -> OpenAIDecoder:
        """See HeadReader."""
        batch = isinstance(request, CompletionRequest) and not request.stream
        kind = BatchDecoder if batch else DatabricksDecoder
        return kind(
            self.endpoint,
            stream=request.stream,
            choices=expected_choices(request),
            served=headers.get(SERVED, ""),
        )

    def finish_body(self, body: Body, request: Request) -> bytes:
        """Always send `stream`: its default is true in one edition of the reference."""
        if self._by_path:
            del body["model"]
        if not isinstance(request, EmbeddingsRequest):
            body["stream"] = body.get("stream", False)
        match request:
            case CompletionRequest():
                if not request.template:
                    body["use_raw_prompt"] = True
                if request.append_suffix is not UNSET:
                    body["suffix"] = request.append_suffix
                if request.error_behavior is not UNSET:
                    body["error_behavior"] = request.error_behavior
            case EmbeddingsRequest():
                if request.instruction is not UNSET:
                    body["instruction"] = request.instruction
            case _:
                pass
        return encode_body(body)

    def supported(self) -> Supports:
        return Supports(
            cache_marks=is_claude,
            client_fields=withheld("databricks"),
            thoughts=ALL_THOUGHTS,
            chat=CHAT,
            completion=COMPLETION,
            embeddings=EMBEDDINGS,
            extra=True,
            ranges=RANGES,
            repairs=DATABRICKS_REPAIRS,
            translated={
                "completion": {
                    "append_suffix": "suffix",
                    "template": "use_raw_prompt (true without it)",
                }
            },
        )


class DatabricksDecoder(OpenAIDecoder):
    """served: the model of the endpoint's traffic split that answered; "" if unknown."""

    marked = True
    proof_format = CLAUDE

    def __init__(
        self, endpoint: Endpoint, *, stream: bool, choices: int = 1, served: str = ""
    ) -> None:
        super().__init__(endpoint, stream=stream, choices=choices)
        if served:
            self._head.extra["served_model_name"] = Raw(msgspec.json.encode(served))


class BatchDecoder(DatabricksDecoder):
    """Complete completions. In the reference, several choices of a prompt share its index."""

    def _chunk(self, chunk: OpenChunk, data: bytes) -> Sequence[Event]:
        indexes = [choice.index for choice in chunk.choices]
        if len(indexes) == self._expected > len(set(indexes)):
            in_order = sorted(chunk.choices, key=attrgetter("index"))
            placed = (replace(choice, index=place) for place, choice in enumerate(in_order))
            chunk = replace(chunk, choices=list(placed))
        return super()._chunk(chunk, data)


def _address(model: str) -> str:
    """Split the model; neither endpoints nor served models have a slash in their names."""
    endpoint, slash, served = model.partition("/")
    path = quote(endpoint, safe="")
    return f"{path}/served-models/{quote(served, safe='')}" if slash else path
