"""Reads a whole chat answer that is one choice of nothing but text, without events.

Everything here is closed: an answer with any field or value beyond these is none of these, and is
decoded to events as all others are. So a new field costs time, and never goes missing.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from strowger_gateway.adapters.json_objects import NULL, UNREADABLE
from strowger_gateway.adapters.openai.answer_head import usage_from
from strowger_gateway.schemas.events import Usage
from strowger_gateway.schemas.plain_answer import PlainAnswer
from strowger_gateway.schemas.usage import MOST_TOKENS

_Count = Annotated[int, Meta(ge=0, le=MOST_TOKENS)]


class _Message(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    content: Annotated[str, Meta(min_length=1)]
    role: str | None = None
    refusal: None = None
    reasoning: None = None
    reasoning_content: None = None
    reasoning_signature: None = None
    tool_calls: tuple[()] | None = None
    function_call: None = None
    audio: None = None
    annotations: tuple[()] | None = None


class _Choice(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    message: _Message
    finish_reason: Literal["stop", "length"]
    index: Literal[0] = 0
    logprobs: None = None
    native_finish_reason: None = None
    stop_reason: str | int | None = None
    matched_stop: str | int | None = None
    seed: int | None = None
    token_ids: None = None
    prompt_token_ids: None = None
    prompt_logprobs: None = None
    routed_experts: None = None


class _Answer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """The last four are vLLM's, present and empty. They are no `Chunk`'s: see `read_plain`."""

    choices: tuple[_Choice]
    usage: Raw = NULL
    id: str | None = None
    object: str | None = None
    created: int | None = None
    model: str | None = None
    error: None = None
    system_fingerprint: str | None = None
    service_tier: str | None = None
    prompt_logprobs: None | UnsetType = UNSET
    prompt_token_ids: None | UnsetType = UNSET
    prompt_text: None | UnsetType = UNSET
    kv_transfer_params: None | UnsetType = UNSET


class _Totals(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Usage that is three totals: nearly all servers' but OpenAI's. vLLM's details are null."""

    prompt_tokens: _Count
    completion_tokens: _Count
    total_tokens: _Count
    prompt_tokens_details: None = None
    completion_tokens_details: None = None


_LONGEST_TOTALS = 160
"""Maximum bytes of usage that is read as totals; a longer object has more."""

_read = msgspec.json.Decoder(_Answer).decode
_read_totals = msgspec.json.Decoder(_Totals).decode


def read_plain(body: bytes) -> PlainAnswer | None:
    """Return the answer if it is plain, or `None` for any other body, also an unreadable one."""
    try:
        answer = _read(body)
    except UNREADABLE:
        return None
    choice, mark, tier = answer.choices[0], answer.system_fingerprint, answer.service_tier
    if mark is not None and tier is not None and _has_open_fields(answer):
        return None
    message = choice.message
    stop_match = choice.stop_reason
    if stop_match is None:
        stop_match = choice.matched_stop
    return PlainAnswer(
        message.content,
        choice.finish_reason,
        answer.model or "",
        _usage(answer.usage),
        stop_match,
        message.annotations is not None,
        mark,
        tier,
        choice.seed,
    )


def _usage(raw: Raw) -> Usage | None:
    if raw is NULL or raw == NULL:
        return None
    if len(memoryview(raw)) <= _LONGEST_TOTALS:
        try:
            totals = _read_totals(raw)
        except UNREADABLE:
            return usage_from(raw)
        return Usage(
            prompt_tokens=totals.prompt_tokens,
            completion_tokens=totals.completion_tokens,
            total_tokens=totals.total_tokens,
        )
    return usage_from(raw)


def _has_open_fields(answer: _Answer) -> bool:
    """Whether the answer's two vendor fields would keep the order in which they came."""
    fields = answer.prompt_logprobs, answer.prompt_token_ids
    return any(one is None for one in (*fields, answer.prompt_text, answer.kv_transfer_params))
