"""How many tokens a request may use before it is answered, and how many it used."""

from typing import Final

from msgspec import UNSET, Struct, UnsetType

from strowger_gateway.gateway.routing.attempt_usage import usage_of_attempts
from strowger_gateway.gateway.routing.planning.request_facts import estimated_tokens, searches_in
from strowger_gateway.gateway.routing.planning.route import NO_VALUES, Route
from strowger_gateway.gateway.routing.request_record import RequestRecord
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    Request,
    TokenRequest,
)
from strowger_gateway.schemas.tasks.task import Unsampled
from strowger_gateway.schemas.usage import tier_in

GUESS: Final = 1024
"""Tokens reserved for an answer whose length nothing limits; `settle` corrects it."""


class Estimate(Struct, frozen=True, gc=False):
    """The tokens of a request. Created by position (ADR 16).

    prompt: estimated. answer: of all answers together, the most that is allowed; guessed: nothing
    limits them, so it is GUESS for each, and a limit or budget that has less reserves all it has.
    searches: estimated search units, for vendors that bill by them.
    """

    prompt: int
    answer: int
    guessed: bool
    searches: int = 0

    def within(self, limit: int) -> int:
        """The tokens to reserve in limits, of which this is the smallest."""
        needed = self.prompt + self.answer
        if needed > limit and self.guessed:
            return max(self.prompt, limit)
        return needed


def expected_tokens(request: Request, route: Route) -> Estimate:
    """Estimate the prompt and the longest answer, once for all limits and budgets.

    The route's `defaults` and `overrides` decide where they would for the backend.
    """
    prompt = estimated_tokens(request)
    if isinstance(request, Unsampled):
        return Estimate(prompt, 0, False, searches_in(request))
    sampling = request.sampling
    longest, n, best_of = sampling.max_tokens, sampling.n, sampling.best_of
    if route.defaults is not NO_VALUES or route.overrides is not NO_VALUES:
        own, default = route.overrides.sampling, route.defaults.sampling
        longest = _decided(own.max_tokens, longest, default.max_tokens)
        n, best_of = _decided(own.n, n, default.n), _decided(own.best_of, best_of, default.best_of)
    answers = 1 if n is UNSET and best_of is UNSET else max(_count(n), _count(best_of))
    if type(request) is CompletionRequest:
        answers *= len(request.prompts)
    if type(longest) is int:
        return Estimate(prompt, answers * longest, False)
    return Estimate(prompt, answers * GUESS, True)


def chat_tokens(request: Request) -> tuple[int, int] | None:
    """The prompt and the answer, as `expected_tokens`, of a chat that has one answer.

    `None` for other requests, for a chat that is more than texts, and for one that names a service
    tier, which has other prices. The route has neither `defaults` nor `overrides`.
    """
    if type(request) is not ChatRequest or request.tools is not UNSET:
        return None
    if request.extra and requested_tier(request):
        return None
    messages, sampling = request.messages, request.sampling
    if sampling.n is not UNSET or sampling.best_of is not UNSET:
        return None
    characters = 0
    for message in messages:  # faster than `map` and `sum`
        content = message.content
        if type(content) is not str:
            return None
        characters += len(content)
    # `estimated_tokens` in integers: a quarter, rounded to the even one of two that are as near.
    prompt = (characters + 1 + (characters >> 2 & 1) >> 2) + 4 * len(messages)
    longest = sampling.max_tokens
    return prompt, longest if type(longest) is int else GUESS


def requested_tier(request: Request) -> str:
    """The service tier that a request names; "" for the standard one."""
    if isinstance(request, TokenRequest) or not request.extra:
        return ""
    return tier_in(request.extra) or ""


def _decided(
    override: int | None | UnsetType, value: int | None | UnsetType, default: int | None | UnsetType
) -> int | None | UnsetType:
    """The value that a backend receives; see `gateway/routing/planning/request_defaults.py`."""
    if override is not UNSET:
        return override
    return default if value is UNSET or value is None else value


def tokens_used(record: RequestRecord) -> int:
    """Tokens of all attempts whose prompts a model has read: prompts and answers.

    As the backends report them, or else estimated. Mirrored copies are the gateway's own.
    """
    usage = record.usage
    if len(record.attempts) == 1 and usage is not None and record.attempts[0].outcome == "ok":
        prompt, completion = usage.prompt_tokens, usage.completion_tokens
        if prompt is not None and completion is not None:
            return prompt + completion
    return sum(
        (one.usage.prompt_tokens or 0) + (one.usage.completion_tokens or 0)
        for one in usage_of_attempts(record)
    )


def _count(value: int | None | UnsetType) -> int:
    return value if isinstance(value, int) else 1
