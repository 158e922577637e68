"""Repair rules of OpenAI's Responses API."""

from typing import Final

from strowger_gateway.adapters.form_repairs.arguments import blank_arguments, call_arguments
from strowger_gateway.adapters.form_repairs.part_forms import FILES
from strowger_gateway.adapters.model_limits.formats import described_json
from strowger_gateway.adapters.model_limits.settings import least_tokens
from strowger_gateway.adapters.model_limits.thinking import free_choice
from strowger_gateway.adapters.openai.model_repairs import RESPONSES_MODEL_REPAIRS
from strowger_gateway.adapters.openai.repairs import LIMITS, PRIVATE_VALUES
from strowger_gateway.adapters.openai_responses.container_items import CONTAINER_ITEMS
from strowger_gateway.adapters.openai_responses.image_items import EMPTY_IMAGES
from strowger_gateway.adapters.openai_responses.summaries import SUMMARIES
from strowger_gateway.adapters.repairs.call_ids import call_ids
from strowger_gateway.adapters.repairs.hints import MESSAGE_NAMES
from strowger_gateway.adapters.repairs.parallel_calls import parallel_calls
from strowger_gateway.adapters.repairs.roles import DEVELOPER_ROLE, ONE_SYSTEM
from strowger_gateway.adapters.repairs.rule import every_model
from strowger_gateway.adapters.tool_repairs.named_tools import OPENROUTERS, named_tools
from strowger_gateway.adapters.tool_repairs.tool_media import text_results
from strowger_gateway.adapters.tool_repairs.withheld_tools import withheld_tools
from strowger_gateway.adapters.web_search.rules import web_search, web_search_options
from strowger_gateway.adapters.web_search.targets import OPENROUTER_RESPONSES, RESPONSES

_IDS: Final = call_ids("https://github.com/dyad-sh/dyad/issues/4304", r".{1,64}")

LEAST_TOKENS: Final = least_tokens("https://github.com/earendil-works/pi/issues/6265", 16)

_SEARCH: Final = (
    web_search_options(RESPONSES),
    *web_search(RESPONSES),
    named_tools(searches=True),
)

RESPONSES_REPAIRS: Final = (
    *_SEARCH,
    MESSAGE_NAMES,
    *LIMITS,
    FILES,
    EMPTY_IMAGES,
    _IDS,
    blank_arguments("https://github.com/aws-samples/bedrock-access-gateway/issues/258"),
    PRIVATE_VALUES,
    CONTAINER_ITEMS,
    SUMMARIES,
    LEAST_TOKENS,
    *RESPONSES_MODEL_REPAIRS,
)
"""OpenAI's own servers and Azure's, in the order in which the rules run."""

_OLLAMA: Final = "https://github.com/ollama/ollama/blob/main/openai/responses.go"

OTHERS_REPAIRS: Final = (
    MESSAGE_NAMES,
    DEVELOPER_ROLE,
    *ONE_SYSTEM,
    call_arguments("https://github.com/vllm-project/vllm/pull/48922"),
    text_results("https://github.com/ollama/ollama/blob/main/openai/responses.go"),
    described_json(_OLLAMA, every_model),
)
"""Servers of open models."""

OLLAMA_REPAIRS: Final = (
    *OTHERS_REPAIRS,
    *parallel_calls(_OLLAMA),
    withheld_tools(_OLLAMA),
    free_choice(_OLLAMA, every_model, "qwen3"),
)
"""Ollama, which has no tool choice."""

AGGREGATOR_REPAIRS: Final = (
    web_search_options(OPENROUTER_RESPONSES),
    *web_search(OPENROUTER_RESPONSES),
    MESSAGE_NAMES,
    FILES,
    EMPTY_IMAGES,
    named_tools(OPENROUTERS),
)
"""OpenRouter, which knows all roles, and images in results."""
