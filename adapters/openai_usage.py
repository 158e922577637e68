"""Token counts of the OpenAI dialect, under all the names that its speakers give them."""

from collections.abc import Iterable

from msgspec import Raw

from adapters.openai_wire import (
    UNREADABLE,
    CompletionDetails,
    PromptDetails,
    UsageCounts,
    read_usage,
)
from schemas.events import Usage


def usage_from(raw: Raw) -> Usage:
    """Counts that cannot be read are `None`, and `raw` still has them: no answer fails for it."""
    kept = raw.copy()
    try:
        counts = read_usage(kept)
    except UNREADABLE:
        return Usage(raw=kept)
    prompt = counts.prompt_tokens_details or PromptDetails()
    completion = counts.completion_tokens_details or CompletionDetails()
    return Usage(
        prompt_tokens=counts.prompt_tokens,
        completion_tokens=counts.completion_tokens,
        total_tokens=counts.total_tokens,
        cached_tokens=_first(_cached(prompt, counts)),
        cache_write_tokens=_first((prompt.cache_write_tokens, counts.cache_creation_input_tokens)),
        reasoning_tokens=_first((completion.reasoning_tokens, counts.reasoning_tokens)),
        raw=kept,
    )


def _cached(prompt: PromptDetails, counts: UsageCounts) -> tuple[int | None, ...]:
    return (
        prompt.cached_tokens,
        counts.cache_read_input_tokens,
        counts.prompt_cache_hit_tokens,
        counts.cached_tokens,
    )


def _first(counts: Iterable[int | None]) -> int | None:
    """The first that is given; 0 is given."""
    return next((count for count in counts if count is not None), None)
