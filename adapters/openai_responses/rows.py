"""The servers of the Responses API besides OpenAI.

https://learn.microsoft.com/en-us/azure/ai-foundry/openai/how-to/responses
https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html
https://github.com/vllm-project/vllm/blob/main/vllm/entrypoints/openai/responses/protocol.py
https://docs.ollama.com/api/openai-compatibility
https://github.com/ollama/ollama/blob/main/openai/responses.go
https://lmstudio.ai/docs/developer/openai-compat/responses
https://openrouter.ai/docs/api_reference/responses/overview
"""

from types import MappingProxyType
from typing import ClassVar

from strowger_gateway.adapters.base import READABLE, Range, TokenEndpoint
from strowger_gateway.adapters.openai_compatible.azure import ENTRA
from strowger_gateway.adapters.openai_responses.adapter import (
    CountingResponsesAdapter,
    ResponsesAdapter,
)
from strowger_gateway.adapters.openai_responses.repairs import (
    AGGREGATOR_REPAIRS,
    OLLAMA_REPAIRS,
    OTHERS_REPAIRS,
    RESPONSES_REPAIRS,
)
from strowger_gateway.adapters.openai_responses.row import CHAT, EXTRA, SAMPLING, ResponsesRow

_LOCAL = CHAT - {"tools.opaque", "user", "metadata", "logprobs", "top_logprobs"}

_VLLM_SAMPLING = MappingProxyType(
    {
        **SAMPLING,
        **{
            name: name
            for name in (
                "ignore_eos",
                "logit_bias",
                "repetition_penalty",
                "seed",
                "stop",
                "top_k",
            )
        },
    }
)


class AzureResponsesAdapter(CountingResponsesAdapter):
    """The base URL ends with `/openai/v1`; the model is a deployment's name."""

    name: ClassVar[str] = "azure-responses"
    token_endpoint: ClassVar[TokenEndpoint] = ENTRA
    row: ClassVar[ResponsesRow] = ResponsesRow(
        name="azure-responses",
        sources=True,
        ranges={"max_tokens": Range(minimum=16)},
        key="api-key",
        repairs=RESPONSES_REPAIRS,
        compacts=True,
    )


class VllmResponsesAdapter(ResponsesAdapter):
    """Reads the text of reasoning, and ignores unknown fields; only those it reads are sent."""

    name: ClassVar[str] = "vllm-responses"
    row: ClassVar[ResponsesRow] = ResponsesRow(
        name="vllm-responses",
        repairs=OTHERS_REPAIRS,
        sampling=_VLLM_SAMPLING,
        chat=CHAT.union(_VLLM_SAMPLING, {"priority"}) - {"tools.opaque", "user", "metadata"},
        extra=frozenset(
            {
                "cache_salt",
                "chat_template_kwargs",
                "include_stop_str_in_output",
                "reasoning",
                "skip_special_tokens",
                "structured_outputs",
                "text",
                "truncation",
                "vllm_xargs",
            }
        ),
        ranges={
            "temperature": Range(minimum=0),
            "top_p": Range(above=0, maximum=1),
            "top_k": Range(minimum=-1),
            "repetition_penalty": Range(above=0),
            "seed": Range(minimum=-(2**63), maximum=2**63 - 1),
        },
        translated={"priority": "priority (1 … 5 as -4 … 0)"},
        thoughts=READABLE,
        proofs=frozenset(),
        whole=False,
        json_object=False,
    )


class OllamaResponsesAdapter(ResponsesAdapter):
    """Has functions, images, schemas and the text of reasoning, which is in `encrypted_content`."""

    name: ClassVar[str] = "ollama-responses"
    row: ClassVar[ResponsesRow] = ResponsesRow(
        name="ollama-responses",
        repairs=OLLAMA_REPAIRS,
        chat=_LOCAL - {"tool_choice", "parallel_tool_calls", "messages.remote_image"},
        extra=frozenset({"reasoning", "text", "truncation"}),
        thoughts=READABLE,
        proofs=frozenset(),
        thought="encrypted_content",
        whole=False,
        json_object=False,
    )


class LMStudioResponsesAdapter(ResponsesAdapter):
    """Has functions, images and schemas."""

    name: ClassVar[str] = "lm-studio-responses"
    row: ClassVar[ResponsesRow] = ResponsesRow(
        name="lm-studio-responses",
        repairs=OTHERS_REPAIRS,
        chat=_LOCAL,
        extra=frozenset({"reasoning", "text", "truncation"}),
        thoughts=READABLE,
        proofs=frozenset(),
        whole=False,
        json_object=False,
    )


class OpenRouterResponsesAdapter(ResponsesAdapter):
    """Models of all makers; those that encrypt their reasoning do so in OpenAI's format."""

    name: ClassVar[str] = "openrouter-responses"
    base_url: ClassVar[str] = "https://openrouter.ai/api/v1"
    row: ClassVar[ResponsesRow] = ResponsesRow(
        name="openrouter-responses",
        repairs=AGGREGATOR_REPAIRS,
        extra=EXTRA - {"context_management", "moderation", "prompt_cache_options"},
    )
