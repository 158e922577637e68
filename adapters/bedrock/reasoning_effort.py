"""Translates `reasoning_effort` for the model families behind Converse.

- Claude 3.7, 4 to 4.1 and 4.5: thinking with a budget of tokens.
  https://docs.aws.amazon.com/bedrock/latest/userguide/claude-messages-extended-thinking.html
- Later Claude: adaptive thinking, and `outputConfig.effort`.
  https://docs.aws.amazon.com/bedrock/latest/userguide/claude-messages-adaptive-thinking.html
- gpt-oss: `reasoning_effort`.
  https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-openai.html
- Nova 2: `reasoningConfig.maxReasoningEffort`.
  https://docs.aws.amazon.com/nova/latest/nova2-userguide/extended-thinking.html
- A name without a maker (the ARN of a profile, or of an imported model): `outputConfig.effort`.
  https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_OutputConfig.html
"""

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from strowger_gateway.adapters.anthropic.asked_thinking import LEAST_BUDGET, budget_of
from strowger_gateway.adapters.anthropic.claude_models import thinks_by_budget
from strowger_gateway.adapters.bedrock.content_blocks import Block
from strowger_gateway.schemas.errors import InvalidRequest

CLAUDE: Final = re.compile(r"anthropic\.claude-")
WITHOUT_REASONING: Final = re.compile(r"anthropic\.claude-(v\d|instant|2|3-(?!7))")
GPT_OSS: Final = re.compile(r"openai\.gpt-oss")
NOVA_2: Final = re.compile(r"amazon\.nova-2")
MADE_BY: Final = re.compile(r"(?:^|[./])[a-z0-9]+\.[a-z][a-z0-9-]*[0-9a-z]")
"""A maker's name before the model's: `deepseek.v3`, `us.meta.llama4`."""

WORDS: Final[Mapping[str, str]] = {
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "max",
}
"""Levels of Converse, and of later Claude models: all but OpenAI's `minimal` and `none`."""

THREE: Final[Mapping[str, str]] = {
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
}
"""Levels of gpt-oss and Nova 2."""

_EFFORT: Final = frozenset({"reasoning_effort"})

LIMIT: Final = 32_000
"""Tokens assumed as `max_tokens` if it is not sent: what every model with a budget can generate.
https://docs.anthropic.com/en/docs/about-claude/models/overview"""


class Reasoning(Struct, frozen=True, kw_only=True):
    """additional: for `additionalModelRequestFields`. effort: Converse's own, or ""."""

    additional: Block = {}
    effort: str = ""


def lacks(model: str) -> frozenset[str]:
    """See Supports. A model without a known reasoning parameter lacks the field."""
    return _EFFORT if _without_reasoning(model) else frozenset()


def reasoning(effort: str, model: str, max_tokens: int | None) -> Reasoning:
    """Raises InvalidRequest for an effort that the model does not support."""
    if _without_reasoning(model):
        raise _refused(
            "this model has no known reasoning parameter; send its own fields in "
            "additionalModelRequestFields"
        )
    if CLAUDE.search(model):
        if effort == "none":
            return Reasoning(additional={"thinking": {"type": "disabled"}})
        word = _word(effort, WORDS, "none, ")
        if thinks_by_budget(model):
            budget = _budget(effort, LIMIT if max_tokens is None else max_tokens)
            thinking: Block = {"type": "enabled", "budget_tokens": budget}
            return Reasoning(additional={"thinking": thinking})
        return Reasoning(additional={"thinking": {"type": "adaptive"}}, effort=word)
    if GPT_OSS.search(model):
        return Reasoning(additional={"reasoning_effort": _word(effort, THREE)})
    if NOVA_2.search(model):
        if effort == "none":
            return Reasoning(additional={"reasoningConfig": {"type": "disabled"}})
        word = _word(effort, THREE, "none, ")
        config: Block = {"type": "enabled", "maxReasoningEffort": word}
        return Reasoning(additional={"reasoningConfig": config})
    return Reasoning(effort=_word(effort, WORDS))


def _without_reasoning(model: str) -> bool:
    """Return whether it is an older Claude, or a model of another maker."""
    if CLAUDE.search(model):
        return WITHOUT_REASONING.search(model) is not None
    if GPT_OSS.search(model) or NOVA_2.search(model) or model.startswith("arn:"):
        return False
    return MADE_BY.search(model) is not None


def _word(effort: str, words: Mapping[str, str], also: str = "") -> str:
    if effort not in words:
        raise _refused(f"this model supports {also}{', '.join(words)}")
    return words[effort]


def _budget(effort: str, limit: int) -> int:
    """Return the thinking budget in tokens, which is part of the limit and must be smaller."""
    budget = budget_of(effort, limit)
    if budget is None:
        raise _refused(
            f"this model needs a thinking budget of at least {LEAST_BUDGET} tokens; send "
            f"max_tokens over {LEAST_BUDGET}, or reasoning_effort none"
        )
    return budget


def _refused(why: str) -> InvalidRequest:
    return InvalidRequest(f"reasoning_effort: {why}", param="reasoning_effort")
