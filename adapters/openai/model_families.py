"""Which models are OpenAI's, by name, and which settings each of them takes.

What a model accepts depends on the model, not on the host: OpenAI, Azure, and any company's proxy
in front of them serve the same ones.
https://platform.openai.com/docs/models
"""

import re
from collections.abc import Sequence
from typing import Final

from msgspec import UNSET

from strowger_gateway.schemas.content_facts import DRAWS
from strowger_gateway.schemas.requests import ChatRequest

_MADE_BY_OPENAI: Final = re.compile(
    r"(?:.*[/:])?(?:gpt-[0-9]|chatgpt-|o[1-9](?:$|[-.])|codex-|computer-use-)", re.IGNORECASE
)
_NEW_LIMIT: Final = re.compile(
    r"(?:.*[/:])?(?:o[1-9](?:$|[-.])|gpt-(?:[5-9]|1[0-9])(?:$|[-.])|codex-|computer-use-)",
    re.IGNORECASE,
)
_GEMINI: Final = re.compile(
    r"(?:.*/)?gemini-(?:(\d+)(?:\.(\d+))?-|flash(?:-lite)?-latest)", re.IGNORECASE
)
_GPT: Final = re.compile(r"(?:.*[/:])?gpt-([5-9]|1[0-9])(?:\.([0-9]+))?(?=$|-)(.*)", re.IGNORECASE)
_O: Final = re.compile(r"(?:.*[/:])?o([1-9])(?=$|-)(.*)", re.IGNORECASE)
_BEFORE: Final = re.compile(r"(?:.*[/:])?(?:gpt-[34][-.o0-9]|gpt-4$|chatgpt-)", re.IGNORECASE)
_TALKS: Final = re.compile(r"-chat(?:$|-)|-search-|-audio|-realtime", re.IGNORECASE)

_NO_SCHEMAS: Final = re.compile(
    r"(?:^|[/:])gpt-(?:3\.5-|35-|4-turbo|4-[01]|4o-2024-05-13)", re.IGNORECASE
)

_LOW: Final = ("low", "medium", "high")
_HIGHER: Final = (*_LOW, "xhigh")
_FIRST, _UNFORCED, _XHIGH, _FORCED = (5, 0), (5, 1), (5, 2), (5, 6)
"""The first versions of GPT-5, those that need not reason, those with `xhigh`, and those with `max`
that reason by default even with tools."""
_CALM: Final = (5, 4)
"""The last version that does not reason by default."""

_WITH_NONE: Final = frozenset({"temperature", "top_p", "logprobs", "top_logprobs"})
"""What models take that can reason, and do not."""


def is_openais(model: str) -> bool:
    """Return whether OpenAI makes the model; not for `gpt-oss`, whose weights others serve."""
    return _MADE_BY_OPENAI.match(model) is not None


def refuses_max_tokens(model: str) -> bool:
    """Return whether the model takes its limit only as `max_completion_tokens`.

    o1 and later, and GPT-5 and later.
    https://platform.openai.com/docs/api-reference/chat/create#chat-create-max_tokens
    """
    return _NEW_LIMIT.match(model) is not None


def has_no_schemas(model: str) -> bool:
    """Return whether the model has JSON mode, but takes no schemas: those before GPT-4o."""
    return _NO_SCHEMAS.search(model) is not None


def reasons(model: str) -> bool:
    """Return whether the model reasons: o1 and later, GPT-5 and later, but no chat model."""
    found = _GPT.match(model) or _O.match(model)
    return found is not None and _TALKS.search(model) is None


def efforts_of(model: str) -> Sequence[str] | None:
    """Return the degrees of reasoning effort that a model knows; `None` if they are unknown.

    https://community.openai.com/t/1371738 https://github.com/enricoros/big-AGI/issues/1159
    """
    if _BEFORE.match(model):
        return ()
    old = _O.match(model)
    if old is not None:
        return () if old[1] == "1" and old[2].lower().startswith(("-mini", "-preview")) else _LOW
    version, rest = _version(model)
    if version is None or "-search-" in rest:
        return None
    if "-chat" in rest:
        return () if version < _UNFORCED else ("medium",)
    if "-pro" in rest:
        return ("high",) if version < _UNFORCED else _HIGHER[1:]
    if "-codex" in rest:
        return _HIGHER if version >= _XHIGH or "-max" in rest else _LOW
    if version < _UNFORCED:
        return ("minimal", *_LOW)
    highest = _LOW if version < _XHIGH else _HIGHER if version < _FORCED else (*_HIGHER, "max")
    return ("none", *highest)


def chat_efforts_of(model: str) -> Sequence[str] | None:
    """Return the same for chat completions, which have no `max`.

    https://github.com/livekit/agents/pull/7169
    """
    found = efforts_of(model)
    return None if found is None else tuple([one for one in found if one != "max"])


def refused_sampling(request: ChatRequest, model: str) -> Sequence[str]:
    """Return the sampling parameters that a model refuses in this request.

    GPT-5.1 to 5.4 take some of them as long as they do not reason, which is their default.
    https://platform.openai.com/docs/guides/latest-model#gpt-5-1-parameter-compatibility
    """
    if not reasons(model):
        return ()
    version, rest = _version(model)
    can_rest = version is not None and _UNFORCED <= version <= _CALM
    always = any(word in rest for word in ("-codex", "-pro"))
    if can_rest and not always and request.reasoning_effort in (UNSET, "none"):
        return tuple([one for one in DRAWS if one not in _WITH_NONE])
    return DRAWS


def calls_without_effort(model: str) -> bool:
    """Return whether the model takes no functions together with an effort in chat completions."""
    version, _ = _version(model)
    return version is not None and version >= _CALM


def calls_with_none(model: str) -> bool:
    """Return whether it takes functions there only if the effort is said to be `none`."""
    version, _ = _version(model)
    return version is not None and version >= _FORCED


def _version(model: str) -> tuple[tuple[int, int] | None, str]:
    """Return the version of a GPT that reasons, and what follows it in the name."""
    found = _GPT.match(model)
    if found is None:
        return None, ""
    return (int(found[1]), int(found[2] or 0)), found[3].lower()


def is_claude(model: str) -> bool:
    """Return whether Anthropic makes the model."""
    return "claude" in model.lower()


def takes_no_prefill(model: str) -> bool:
    """Return whether it is a Gemini that continues no answer: from 3.6 and 3.5 Flash-Lite on.

    https://ai.google.dev/gemini-api/docs/latest-model
    """
    found = _GEMINI.match(model)
    if found is None:
        return False
    if found[1] is None:
        return True
    version = (int(found[1]), int(found[2] or 0))
    return version > (3, 5) or (version == (3, 5) and "-lite" in model.lower())


def is_gemini(model: str) -> bool:
    """Return whether it is one of Google's Gemini models."""
    return "gemini" in model.lower()


def no_model(_: str) -> bool:
    """Return false: it holds for no model."""
    return False
