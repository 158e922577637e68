"""What Claude's models accept, by the names of Anthropic, Vertex AI, Bedrock and OpenRouter.

A name without a version (an ARN of a profile, an operator's alias) belongs to no model: rules that
depend on the version do not apply to it.
https://platform.claude.com/docs/en/build-with-claude/thinking-troubleshooting
https://platform.claude.com/docs/en/about-claude/models/overview
"""

import re
from functools import lru_cache
from typing import Final, Literal

from msgspec import Struct

Family = Literal["opus", "sonnet", "haiku", "fable", "mythos", "instant"]

_NEW: Final = re.compile(
    r"claude-(?P<family>opus|sonnet|haiku|fable|mythos)-(?P<major>\d{1,2})"
    r"(?:[-.](?P<minor>\d{1,2}))?(?![\d.])"
)
_OLD: Final = re.compile(
    r"claude-(?P<major>\d{1,2})(?:[-.](?P<minor>\d{1,2}))?-(?P<family>opus|sonnet|haiku)"
)
_FIRST: Final = re.compile(r"claude-(?:v?(?P<major>[12])|instant)(?![\d-]*(?:opus|sonnet|haiku))")
_PREVIEW: Final = "claude-mythos-preview"
_OTHERS: Final = re.compile(
    r"deepseek|doubao|gemini|gemma|glm|gpt|grok|kimi|llama|longcat|mimo|minimax|mistral|moonshot"
    r"|nova|qwen|step-\d"
)


class Claude(Struct, frozen=True, gc=False):
    """A model. The preview of Mythos counts as version 4.6, whose rules it shares."""

    family: Family
    major: int
    minor: int

    @property
    def version(self) -> tuple[int, int]:
        return self.major, self.minor


@lru_cache(maxsize=1024)
def claude(model: str) -> Claude | None:
    """Return the model that a provider's name stands for; `None` if it names no version."""
    name = model.lower()
    if _PREVIEW in name:
        return Claude("mythos", 4, 6)
    found = _NEW.search(name) or _OLD.search(name)
    if found is not None:
        family: Family = found["family"]  # pyright: ignore[reportAssignmentType]  by the pattern
        return Claude(family, int(found["major"]), int(found["minor"] or 0))
    first = _FIRST.search(name)
    return None if first is None else Claude("instant", int(first["major"] or 1), 0)


def is_others(model: str) -> bool:
    """Return whether the name is that of another maker's model, behind an API of this dialect."""
    return "claude" not in model.lower() and _OTHERS.search(model.lower()) is not None


def _since(model: str, version: tuple[int, int], *families: Family) -> bool:
    known = claude(model)
    if known is None or (families and known.family not in families):
        return False
    return known.version >= version


def may_be_claude(model: str) -> bool:
    """Return true unless the name is another maker's."""
    return not is_others(model)


def thinks_by_budget(model: str) -> bool:
    """Return whether thinking needs a budget of tokens, and `adaptive` is refused."""
    return _since(model, (3, 7)) and not _since(model, (4, 6))


def refuses_budgets(model: str) -> bool:
    """Return whether `thinking.type: enabled` is refused."""
    return _since(model, (4, 7))


def always_thinks(model: str) -> bool:
    """Return whether `thinking.type: disabled` is refused at every effort."""
    return _since(model, (4, 6), "fable", "mythos") or _since(model, (5, 5), "opus", "sonnet")


def has_between_tools(model: str) -> bool:
    """Return whether thinking up front is turned off by `thinking.type: between_tools`.

    https://platform.claude.com/docs/en/models/sonnet-5-5/whats-new-sonnet-5-5
    """
    return _since(model, (5, 5), "sonnet")


def thinks_at_high_effort(model: str) -> bool:
    """Return whether `disabled` is refused together with the efforts `xhigh` and `max`."""
    return _since(model, (5, 0), "opus", "haiku") and not always_thinks(model)


def efforts(model: str) -> tuple[str, ...] | None:
    """Return the levels of `output_config.effort`, ascending; `None` if the name says nothing.

    https://platform.claude.com/docs/en/build-with-claude/effort
    """
    if claude(model) is None:
        return None
    if _since(model, (4, 7)):
        return ("low", "medium", "high", "xhigh", "max")
    if _since(model, (4, 6)):
        return ("low", "medium", "high", "max")
    return ("low", "medium", "high") if _since(model, (4, 5), "opus") else ()


def refuses_forced_tools(model: str) -> bool:
    """Return whether `tool_choice` may not be `any` or `tool`.

    https://platform.claude.com/docs/en/models/opus-5-5/whats-new-opus-5-5
    """
    return _since(model, (5, 5), "opus", "sonnet") or _since(model, (5, 1), "fable", "mythos")


def refuses_sampling(model: str) -> bool:
    """Return whether a temperature, top_p or top_k other than the default is refused.

    https://platform.claude.com/docs/en/about-claude/models/whats-new-claude-4-7
    """
    return _since(model, (4, 7)) or _PREVIEW in model.lower()


def refuses_two_samplings(model: str) -> bool:
    """Return whether temperature and top_p are refused together.

    https://github.com/aws-samples/bedrock-chat/pull/979
    """
    return _since(model, (4, 1)) and not refuses_sampling(model)


def has_later_system(model: str) -> bool:
    """Return whether messages of role system are accepted between a user's turn and an answer.

    https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages
    https://github.com/langchain-ai/langchainjs/releases/tag/@langchain%2Fanthropic@1.5.13
    """
    return (
        _since(model, (4, 8), "opus")
        or _since(model, (5, 0), "sonnet", "fable", "mythos")
        or _since(model, (5, 5), "haiku")
    )


def takes_prefill(model: str) -> bool:
    """Return whether the model continues the text of a final assistant turn.

    https://platform.claude.com/docs/en/about-claude/models/whats-new-claude-4-6#prefill-removal
    """
    return claude(model) is not None and not _since(model, (4, 6))
