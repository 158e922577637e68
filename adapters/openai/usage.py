"""Token counts of the OpenAI dialect, under all the names that its speakers give them."""

from msgspec import Raw

from adapters.openai.wire import (
    UNREADABLE,
    CompletionDetails,
    PromptDetails,
    UsageCounts,
    read_usage,
)
from schemas.events import Usage

_NO_PROMPT_DETAILS = PromptDetails()
_NO_COMPLETION_DETAILS = CompletionDetails()


def usage_from(raw: Raw) -> Usage:
    """Counts that cannot be read are `None`, and `raw` still has them: no answer fails for it."""
    kept = raw.copy()
    try:
        counts = read_usage(kept)
    except UNREADABLE:
        return Usage(raw=kept)
    prompt = counts.prompt_tokens_details or _NO_PROMPT_DETAILS
    completion = counts.completion_tokens_details or _NO_COMPLETION_DETAILS
    reasoning = _first(completion.reasoning_tokens, counts.reasoning_tokens)
    return Usage(
        prompt_tokens=counts.prompt_tokens,
        completion_tokens=_with_reasoning(counts, reasoning),
        total_tokens=counts.total_tokens,
        cached_tokens=_first(
            prompt.cached_tokens,
            counts.cache_read_input_tokens,
            counts.prompt_cache_hit_tokens,
            counts.cached_tokens,
        ),
        cache_write_tokens=_first(prompt.cache_write_tokens, counts.cache_creation_input_tokens),
        reasoning_tokens=reasoning,
        raw=kept,
    )


def _with_reasoning(counts: UsageCounts, reasoning: int | None) -> int | None:
    """xAI counts reasoning beside the completion; a total of all three tells who does so."""
    prompt, completion, total = counts.prompt_tokens, counts.completion_tokens, counts.total_tokens
    if not reasoning or prompt is None or completion is None:
        return completion
    return completion + reasoning if total == prompt + completion + reasoning else completion


def _first(*counts: int | None) -> int | None:
    """The first that is given; 0 is given."""
    for count in counts:
        if count is not None:
            return count
    return None
