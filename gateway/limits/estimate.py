"""How many tokens a request may use before it is answered, and how many it used."""

from typing import Final

from msgspec import UNSET, UnsetType

from gateway.limits.ledger import Accounts
from gateway.routing.planning.request_facts import CHARACTERS_PER_TOKEN, estimated_tokens
from gateway.routing.request_record import RequestRecord
from schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    GenerateRequest,
    Request,
)

GUESS: Final = 1024
"""Tokens reserved for an answer whose request sets no `max_tokens`; `settle` corrects it."""


def tokens_needed(request: Request, accounts: Accounts, record: RequestRecord) -> int:
    """Tokens to reserve: the estimated prompt, and the longest answer that the request allows.

    A request without `max_tokens` reserves GUESS per answer, and never more than a limit has.
    """
    prompt = prompt_tokens(request, record)
    if type(request) is EmbeddingsRequest:
        return prompt
    answers, longest = answers_of(request), request.sampling.max_tokens
    if type(longest) is int:
        return prompt + answers * longest
    needed = prompt + answers * GUESS
    for window in accounts.tokens:
        if needed > window.limit:
            needed = max(prompt, window.limit)
    return needed


def prompt_tokens(request: Request, record: RequestRecord) -> int:
    """The prompt's tokens, estimated once per request and kept in its record."""
    known = record.prompt_estimate
    if known is None:
        chat = type(request) is ChatRequest
        known = _chat_tokens(request) if chat else estimated_tokens(request)
        record.prompt_estimate = known
    return known


def answers_of(request: GenerateRequest) -> int:
    """How many answers are generated."""
    n, best_of = request.sampling.n, request.sampling.best_of
    answers = 1 if n is UNSET and best_of is UNSET else max(_count(n), _count(best_of))
    return answers * len(request.prompts) if type(request) is CompletionRequest else answers


def _chat_tokens(request: ChatRequest) -> int:
    """The same as `estimated_tokens`, in half of its time for messages that are texts."""
    characters = 0
    for message in request.messages:
        content = message.content
        if type(content) is not str or request.tools is not UNSET:
            return estimated_tokens(request)
        characters += len(content)
    return round(characters / CHARACTERS_PER_TOKEN) + 4 * len(request.messages)


def tokens_used(record: RequestRecord) -> int:
    """Tokens of the answer that the client received, or could have: prompt and completion.

    As the backend reports them, or else estimated. Failed attempts, hedges that lost and mirrored
    copies are the gateway's own. An attempt that the client gave up has read the prompt.
    """
    usage = record.usage
    prompt = None if usage is None else usage.prompt_tokens
    completion = None if usage is None else usage.completion_tokens
    if prompt is None:
        began = record.deltas or (record.attempts and record.attempts[-1].outcome == "cancelled")
        prompt = (record.estimated_prompt_tokens or 0) if began else 0
    return prompt + (record.deltas if completion is None else completion)


def _count(value: int | UnsetType) -> int:
    return value if isinstance(value, int) else 1
