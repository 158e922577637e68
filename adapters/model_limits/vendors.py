"""What the models of xAI, Moonshot, DeepSeek and Alibaba do not take, by their names."""

import re
from collections.abc import Sequence
from typing import Final

from strowger_gateway.adapters.model_limits.formats import described_schema, json_word
from strowger_gateway.adapters.model_limits.settings import effort_values, fixed_sampling
from strowger_gateway.adapters.model_limits.thinking import (
    DISABLED,
    NOT_ENABLED,
    forced_calls,
    free_choice,
    missing_reasoning,
    one_of_one,
)
from strowger_gateway.adapters.repairs.rule import every_model
from strowger_gateway.adapters.repairs.stops import stops
from strowger_gateway.schemas.requests import ChatRequest

_GROK: Final = re.compile(r"(?:.*/)?grok-", re.IGNORECASE)
_GROK_TALKS: Final = re.compile(r"non-reasoning|grok-[12]|grok-3(?!-mini)", re.IGNORECASE)
_GROK_EFFORTS: Final = (
    (re.compile(r"grok-3-mini"), ("low", "high")),
    (re.compile(r"grok-4\.20-multi-agent"), ("low", "medium", "high", "xhigh")),
    (re.compile(r"grok-4\.3"), ("none", "low", "medium", "high")),
    (re.compile(r"grok-4\.5"), ("low", "medium", "high")),
    (re.compile(r"grok-4\.6"), ("low", "medium", "high", "xhigh")),
    (re.compile(r"grok-(?:[12]|3|4(?!\.[3-9])|code)(?!\.[3-9])"), ()),
)
_KIMI: Final = re.compile(
    r"(?:.*/)?(?:kimi-k2\.[5-9]|kimi-k[3-9]|k[3-9](?:$|-)|kimi-for-coding)", re.IGNORECASE
)
_KIMI_3: Final = re.compile(r"(?:.*/)?(?:kimi-)?k[3-9](?:$|[-.])", re.IGNORECASE)
_KIMI_THINKS: Final = re.compile(r"kimi-k2-thinking|kimi-k2\.7-code", re.IGNORECASE)
_DEEPSEEK: Final = re.compile(r"(?:.*/)?deepseek-(?:v[4-9]|flash|pro|reasoner)", re.IGNORECASE)
_QWEN: Final = re.compile(r"(?:.*/)?qw(?:en|q)", re.IGNORECASE)
_QWEN_THINKS: Final = re.compile(r"thinking|qwq", re.IGNORECASE)
_QWEN_BY_DEFAULT: Final = re.compile(r"qwen3(?:\.[5-9]|-[0-9])(?!.*instruct)", re.IGNORECASE)

_FIXED_AT_GROK: Final = ("presence_penalty", "frequency_penalty")
_FIXED_AT_KIMI: Final = ("temperature", "top_p", "presence_penalty", "frequency_penalty")


def _grok_reasons(model: str) -> bool:
    return _GROK.match(model) is not None and _GROK_TALKS.search(model) is None


def _grok_efforts(model: str) -> Sequence[str] | None:
    """https://docs.x.ai/developers/model-capabilities/text/reasoning lists those with a choice."""
    if _GROK.match(model) is None:
        return None
    name = model.lower()
    return next((known for form, known in _GROK_EFFORTS if form.search(name)), None)


def _refused_by_grok(request: ChatRequest, model: str) -> Sequence[str]:
    return _FIXED_AT_GROK if _grok_reasons(model) else ()


def _is_kimi(model: str) -> bool:
    return _KIMI.match(model) is not None


def _refused_by_kimi(request: ChatRequest, model: str) -> Sequence[str]:
    return _FIXED_AT_KIMI if _is_kimi(model) else ()


def _is_kimi_3(model: str) -> bool:
    return _KIMI_3.match(model) is not None


def _kimi_only_thinks(model: str) -> bool:
    return _KIMI_THINKS.search(model) is not None


def _is_kimi_2(model: str) -> bool:
    return _is_kimi(model) and not (_is_kimi_3(model) or _kimi_only_thinks(model))


def _kimi_thinks(model: str) -> bool:
    return _is_kimi(model) or _kimi_only_thinks(model)


def _deepseek_thinks(model: str) -> bool:
    return _DEEPSEEK.match(model) is not None


def _qwen_only_thinks(model: str) -> bool:
    return _QWEN.match(model) is not None and _QWEN_THINKS.search(model) is not None


def _is_qwen(model: str) -> bool:
    return _QWEN.match(model) is not None and not _qwen_only_thinks(model)


def _qwen_thinks(model: str) -> bool:
    return _QWEN_BY_DEFAULT.search(model) is not None


_GROK_STOPS: Final = "https://github.com/lidge-jun/opencodex/issues/5278"
_GROK_EFFORT: Final = "https://github.com/NousResearch/hermes-agent/pull/23435"
_GROK_PENALTIES: Final = "https://github.com/miaoxworld/NativeTavern/issues/83"

XAI: Final = (
    effort_values(_GROK_EFFORT, _grok_efforts, "grok-4"),
    *fixed_sampling(_GROK_PENALTIES, _refused_by_grok, _grok_reasons, "grok-4"),
    stops(_GROK_STOPS, models=_grok_reasons),
)

_KIMI_CHOICE: Final = "https://github.com/can1357/oh-my-pi/issues/1077"
_KIMI_NAMED: Final = "https://github.com/UKGovernmentBEIS/inspect_ai/pull/5152"
_KIMI_SAMPLING: Final = "https://github.com/Warma10032/VideoAdGuard/issues/34"
_KIMI_REASONING: Final = "https://github.com/QuantumNous/new-api/issues/3121"

MOONSHOT: Final = (
    forced_calls(_KIMI_CHOICE, DISABLED, _is_kimi_2, "kimi-k2.6", thinks=_is_kimi_2),
    one_of_one(_KIMI_NAMED, _is_kimi_3, "kimi-k3"),
    free_choice(_KIMI_NAMED, _kimi_only_thinks, "kimi-k2.7-code"),
    *fixed_sampling(_KIMI_SAMPLING, _refused_by_kimi, _is_kimi, "kimi-k2.6"),
    missing_reasoning(_KIMI_REASONING, DISABLED, _kimi_thinks, "kimi-k2.6"),
)

_DEEPSEEK_CHOICE: Final = "https://github.com/deepseek-ai/DeepSeek-V3/issues/1376"
_DEEPSEEK_DOCS: Final = "https://api-docs.deepseek.com/guides/thinking_mode"

DEEPSEEK: Final = (
    described_schema("https://github.com/llm-exe/llm-exe/issues/662"),
    json_word("https://api-docs.deepseek.com/guides/json_mode"),
    forced_calls(
        _DEEPSEEK_CHOICE, DISABLED, every_model, "deepseek-v4-pro", thinks=_deepseek_thinks
    ),
    missing_reasoning(_DEEPSEEK_DOCS, DISABLED, _deepseek_thinks, "deepseek-v4-pro", every=True),
)

_QWEN_CHOICE: Final = "https://github.com/cloudwego/eino/issues/994"

DASHSCOPE: Final = (
    json_word("https://www.alibabacloud.com/help/en/model-studio/json-mode"),
    forced_calls(_QWEN_CHOICE, NOT_ENABLED, _is_qwen, "qwen3.7-plus", thinks=_qwen_thinks),
    free_choice(_QWEN_CHOICE, _qwen_only_thinks, "qwen3-235b-a22b-thinking-2507"),
)

_GPT_OSS: Final = re.compile("gpt-oss", re.IGNORECASE)
_LOW_TO_HIGH: Final = ("low", "medium", "high")
_SWITCHED: Final = re.compile("qwen", re.IGNORECASE)
_REASONS_NOT: Final = re.compile("llama|gemma|allam|kimi|mistral", re.IGNORECASE)


def _gpt_oss_efforts(model: str) -> Sequence[str] | None:
    return _LOW_TO_HIGH if _GPT_OSS.search(model) else None


def _groq_efforts(model: str) -> Sequence[str] | None:
    """https://console.groq.com/docs/reasoning"""
    if _SWITCHED.search(model):
        return ("none", "default")
    return () if _REASONS_NOT.search(model) else _gpt_oss_efforts(model)


GPT_OSS_EFFORT: Final = effort_values(
    "https://github.com/BerriAI/litellm/pull/38263", _gpt_oss_efforts, "openai/gpt-oss-120b"
)
"""The open models of OpenAI, on any server."""

_MISTRAL_SWITCHED: Final = re.compile(
    r"magistral|mistral-medium|mistral-small-(?:latest|26|[4-9])", re.IGNORECASE
)
_MISTRAL_REASONS_NOT: Final = re.compile(
    r"mistral-(?:small|large|nemo|tiny|saba)|codestral|devstral|ministral|pixtral|open-mi",
    re.IGNORECASE,
)


def _mistral_efforts(model: str) -> Sequence[str] | None:
    if _MISTRAL_SWITCHED.search(model):
        return ("none", "high")
    return () if _MISTRAL_REASONS_NOT.search(model) else None


MISTRAL_EFFORT: Final = effort_values(
    "https://github.com/anomalyco/models.dev/pull/1986", _mistral_efforts, "mistral-medium-3.5"
)

_MUST_BE_AUTO: Final = "https://github.com/vectorize-io/hindsight/issues/4246"
_GLM: Final = re.compile(r"(?:^|/)z-ai/glm-", re.IGNORECASE)

ZAI: Final = (free_choice(_MUST_BE_AUTO, every_model, "glm-5"),)

OPENROUTER: Final = (
    free_choice(_MUST_BE_AUTO, lambda model: _GLM.search(model) is not None, "z-ai/glm-5"),
)
"""It passes the vendors' refusals on."""

_GROQ_SCHEMAS: Final = re.compile(r"gpt-oss|llama-4|kimi-", re.IGNORECASE)


def _has_no_schemas(model: str) -> bool:
    return _GROQ_SCHEMAS.search(model) is None


GROQ: Final = (
    effort_values("https://github.com/diegosouzapw/OmniRoute/pull/3277", _groq_efforts, "llama-3"),
    described_schema("https://console.groq.com/docs/structured-outputs", _has_no_schemas),
    json_word("https://github.com/vercel/ai/pull/7508"),
)
