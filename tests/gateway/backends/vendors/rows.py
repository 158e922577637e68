"""Every vendor as a row: its configuration, dialect and capabilities."""

from collections.abc import Callable, Iterable
from typing import Final, Literal

import pytest
from msgspec import Struct

from tests.gateway.backends.vendors import bedrock, cohere, gemini, ollama, openai
from tests.gateway.backends.vendors.anthropic import AnthropicDialect
from tests.gateway.backends.vendors.dialect import USAGE, Dialect, Json
from tests.gateway.backends.vendors.responses import ResponsesDialect
from tests.gateway.backends.vendors.triton import (
    TOKENIZER,
    DecoupledDialect,
    LlmApiDialect,
    TensorDialect,
    TritonDialect,
)


class Vendor(Struct, frozen=True, kw_only=True):
    """name: the adapter's. path: added to the server's origin; vendors of one dialect have paths of
               their own, by which tests/oracle tells them apart. key: the header with the key.
    target:    where a request arrives that is not for a stream.

    task:      what clients ask it for; a tool needs a chat.
    embeds:    the vectors that it answers with. embedder: its model for them, "" for the same.
    bare_end:  a stream whose body ends in order is whole: the dialect has no mark for its end.
    proofs:    its thoughts have them, and must come back with them.
    call_ids:  it names its calls; else the gateway does.
    streams:   it does so itself; else the gateway gives its answers in one piece.
    usages:    what the client receives: the vendor's counts, the real ones, or nothing.
    """

    name: str
    target: str
    dialect: Dialect
    path: str = ""
    key: str = "authorization"
    model: str = "m1"
    more: str = ""
    task: Literal["chat", "completion"] = "chat"
    proofs: bool = False
    call_ids: bool = True
    embeds: Callable[[Json], Json] | None = None
    embedder: str = ""
    bare_end: bool = False
    streams: bool = True
    usages: tuple[tuple[int, int], ...] = (USAGE,)


TOKENS: Final = f"tokenizer: {TOKENIZER}"

VENDORS: Final = (
    Vendor(
        name="openai",
        target="/v1/chat/completions",
        dialect=openai.OpenAIDialect(),
        path="/v1",
        embeds=openai.vectors,
    ),
    Vendor(
        name="azure",
        target="/openai/deployments/m1/chat/completions?api-version=2024-10-21",
        dialect=openai.OpenAIDialect(),
        path="/openai?api-version=2024-10-21",
        key="api-key",
        embeds=openai.vectors,
    ),
    Vendor(
        name="mistral",
        target="/mistral/v1/chat/completions",
        dialect=openai.MistralDialect(),
        path="/mistral/v1",
        embeds=openai.vectors,
    ),
    Vendor(
        name="vllm",
        target="/vllm/v1/chat/completions",
        dialect=openai.OpenAIDialect(),
        path="/vllm/v1",
        embeds=openai.vectors,
    ),
    Vendor(
        name="sglang",
        target="/sglang/v1/chat/completions",
        dialect=openai.OpenAIDialect(),
        path="/sglang/v1",
        embeds=openai.vectors,
    ),
    Vendor(
        name="tgi",
        target="/tgi/v1/chat/completions",
        dialect=openai.OpenAIDialect(),
        path="/tgi",
    ),
    Vendor(
        name="databricks",
        target="/serving-endpoints/m1/invocations",
        dialect=openai.DatabricksDialect(),
        proofs=True,
        embeds=openai.vectors,
    ),
    Vendor(
        name="mindie",
        target="/mindie/v1/chat/completions",
        dialect=openai.MindIEDialect(),
        path="/mindie",
    ),
    Vendor(
        name="anthropic",
        target="/v1/messages",
        dialect=AnthropicDialect(),
        key="x-api-key",
        proofs=True,
    ),
    Vendor(
        name="vertex-anthropic",
        target="/v1/projects/p/locations/global/publishers/anthropic/models/m1:rawPredict",
        dialect=AnthropicDialect(),
        path="/v1/projects/p/locations/global/publishers/anthropic",
        proofs=True,
    ),
    Vendor(
        name="openai-responses",
        target="/v1/responses",
        dialect=ResponsesDialect(),
        path="/v1",
        proofs=True,
    ),
    Vendor(
        name="bedrock",
        target="/model/m1/converse",
        dialect=bedrock.BedrockDialect(),
        proofs=True,
        embeds=bedrock.vectors,
        embedder="amazon.titan-embed-text-v2:0",
    ),
    Vendor(name="cohere", target="/v2/chat", dialect=cohere.CohereDialect(), embeds=cohere.vectors),
    Vendor(
        name="gemini",
        target="/v1beta/models/m1:generateContent",
        dialect=gemini.GeminiDialect(),
        path="/v1beta",
        key="x-goog-api-key",
        call_ids=False,
        embeds=gemini.vectors,
    ),
    Vendor(
        name="ollama",
        target="/api/chat",
        dialect=ollama.OllamaDialect(),
        call_ids=False,
        embeds=ollama.vectors,
    ),
    Vendor(
        name="triton",
        target="/v2/models/ensemble/generate",
        dialect=TritonDialect(),
        model="ensemble",
        task="completion",
        bare_end=True,
    ),
    Vendor(
        name="triton-llmapi",
        target="/v2/models/llmapi/generate",
        dialect=LlmApiDialect(),
        model="llmapi",
        task="completion",
        usages=(),
    ),
    Vendor(
        name="triton-tokens",
        target="/v2/models/tensorrt_llm/infer",
        dialect=TensorDialect(),
        model="tensorrt_llm",
        more=TOKENS,
        task="completion",
        bare_end=True,
        streams=False,
        usages=((2, 6),),
    ),
    Vendor(
        name="triton-tokens-decoupled",
        target="/v2/models/tensorrt_llm_streaming/generate",
        dialect=DecoupledDialect(),
        model="tensorrt_llm_streaming",
        more=TOKENS,
        task="completion",
        bare_end=True,
        usages=((2, 6),),
    ),
)

ALIKE: Final = frozenset(
    {
        "azure-responses",
        "lm-studio-responses",
        "ollama-responses",
        "openrouter-responses",
        "vllm-responses",
    }
)
"""Adapters that differ from openai-responses only by a row, which the contract checks."""

SILENT: Final = frozenset({"azure-content-safety"})
"""Adapters that do not converse; tests/gateway/surfaces/moderation has this one."""

REPEATED: Final = frozenset({"azure", "vllm", "sglang", "tgi", "vertex-anthropic"})
"""Vendors with the dialect of an earlier one, from which they differ by address and fields."""


def of_every_dialect(vendors: Iterable[Vendor]) -> pytest.MarkDecorator:
    """Each vendor, those that repeat a dialect at night.

    For what is beyond a plain answer, whole and streamed, and an error: these are tested of all.
    """
    nightly = pytest.mark.nightly
    return pytest.mark.parametrize(
        "vendor",
        [
            pytest.param(one, id=one.name, marks=nightly if one.name in REPEATED else ())
            for one in vendors
        ],
    )
