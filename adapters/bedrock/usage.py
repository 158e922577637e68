"""Token counts of Converse's answers.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_TokenUsage.html
"""

from msgspec import Raw

from strowger_gateway.adapters.bedrock import wire
from strowger_gateway.adapters.json_objects import NULL, UNREADABLE
from strowger_gateway.schemas.events import Usage


def usage_from(raw: Raw) -> Usage:
    """Read counts; unreadable ones are unknown and never fail an answer.

    `inputTokens` excludes tokens read from the cache or written to it.
    """
    if raw == NULL:
        return Usage()
    try:
        counts = wire.read_usage(raw)
    except UNREADABLE:
        return Usage(raw=raw)
    prompt, completion, total = counts.inputTokens, counts.outputTokens, counts.totalTokens
    cached, written = counts.cacheReadInputTokens, counts.cacheWriteInputTokens
    if prompt is not None:
        prompt += (cached or 0) + (written or 0)
    if total is None and prompt is not None and completion is not None:
        total = prompt + completion
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=total,
        cached_tokens=cached,
        cache_write_tokens=written,
        cache_write_1h_tokens=_hour_writes(counts.cacheDetails),
        raw=raw,
    )


def _hour_writes(details: tuple[wire.CacheDetail, ...] | None) -> int | None:
    if details is None:
        return None
    return sum(one.inputTokens for one in details if one.ttl == "1h")
