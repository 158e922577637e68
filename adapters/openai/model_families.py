"""Which models are OpenAI's, by name: what they accept depends on the model, not on the host.

The same model is served by OpenAI, Azure, and any company's proxy in front of them.
https://platform.openai.com/docs/models
"""

import re
from typing import Final

_MADE_BY_OPENAI: Final = re.compile(
    r"(?:.*[/:])?(?:gpt-[0-9]|chatgpt-|o[1-9](?:$|[-.])|codex-|computer-use-)", re.IGNORECASE
)
_NEW_LIMIT: Final = re.compile(
    r"(?:.*[/:])?(?:o[1-9](?:$|[-.])|gpt-(?:[5-9]|[1-9][0-9])(?:$|[-.])|codex-|computer-use-)",
    re.IGNORECASE,
)


def is_openais(model: str) -> bool:
    """Return whether OpenAI makes the model; not for `gpt-oss`, whose weights others serve."""
    return _MADE_BY_OPENAI.match(model) is not None


def refuses_max_tokens(model: str) -> bool:
    """Return whether the model takes its limit only as `max_completion_tokens`.

    o1 and later, and GPT-5 and later.
    https://platform.openai.com/docs/api-reference/chat/create#chat-create-max_tokens
    """
    return _NEW_LIMIT.match(model) is not None


def is_claude(model: str) -> bool:
    """Return whether Anthropic makes the model."""
    return "claude" in model.lower()


def is_gemini(model: str) -> bool:
    """Return whether it is one of Google's Gemini models."""
    return "gemini" in model.lower()


def no_model(_: str) -> bool:
    """Return false: it holds for no model."""
    return False
