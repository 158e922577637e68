"""How many tokens a request may use before it is answered, and how many it used."""

from typing import Final

from msgspec import UnsetType

from gateway.limits.ledger import Accounts
from gateway.routing.planning.request_facts import estimated_tokens
from gateway.routing.request_record import RequestRecord
from schemas.requests import CompletionRequest, EmbeddingsRequest, Request

GUESS: Final = 1024
"""Tokens reserved for an answer whose request sets no `max_tokens`; `settle` corrects it."""


def tokens_needed(request: Request, accounts: Accounts) -> int:
    """Tokens to reserve: the estimated prompt, and the longest answer that the request allows.

    A request without `max_tokens` reserves GUESS per answer, and never more than a limit has.
    """
    prompt = estimated_tokens(request)
    if type(request) is EmbeddingsRequest:
        return prompt
    assert not isinstance(request, EmbeddingsRequest)
    sampling = request.sampling
    answers = max(_count(sampling.n), _count(sampling.best_of))
    if type(request) is CompletionRequest:
        answers *= len(request.prompts)
    longest = sampling.max_tokens
    if isinstance(longest, int):
        return prompt + answers * longest
    smallest = min([window.limit for window in accounts.tokens])
    return min(prompt + answers * GUESS, max(prompt, smallest))


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
