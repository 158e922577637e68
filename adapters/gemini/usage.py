"""Token counts of Gemini's answers.

https://ai.google.dev/api/generate-content#UsageMetadata
"""

from msgspec import Raw

from strowger_gateway.adapters.gemini.wire import read_counts
from strowger_gateway.adapters.json_objects import NULL, UNREADABLE
from strowger_gateway.schemas.events import Usage


def usage_from(raw: Raw) -> Usage | None:
    """Read counts. Reasoning is counted outside the candidates, a tool's prompt outside the prompt.

    `None` without counts; unreadable ones are unknown.
    """
    if raw == NULL:
        return None
    try:
        counts = read_counts(raw)
    except UNREADABLE:
        return None
    prompt = _sum(counts.prompt_token_count, counts.tool_use_prompt_token_count)
    completion = _sum(counts.candidates_token_count, counts.thoughts_token_count)
    total = counts.total_token_count
    if completion is None and total is not None and prompt is not None:
        completion = max(0, total - prompt)
    if prompt is None and completion is None and total is None:
        return None
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=_sum(prompt, completion) if total is None else total,
        cached_tokens=counts.cached_content_token_count,
        reasoning_tokens=counts.thoughts_token_count,
        raw=raw.copy(),
    )


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None and other is None else (one or 0) + (other or 0)
