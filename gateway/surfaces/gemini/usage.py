"""Token counts as the Gemini API has them: reasoning apart from the candidates.

https://ai.google.dev/api/generate-content#UsageMetadata
"""

from msgspec import Raw

from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.gateway.surfaces.openai.usage import MAX_BYTES
from strowger_gateway.gateway.surfaces.sse import one_line
from strowger_gateway.schemas.events import Usage


def usage_metadata(usage: Usage) -> bytes:
    """Return the counts as JSON on one line: Google's own object as it is."""
    raw = usage.raw
    if isinstance(raw, Raw) and len(memoryview(raw)) <= MAX_BYTES and _is_googles(bytes(raw)):
        return one_line(bytes(raw))
    prompt, completion, thoughts = (
        usage.prompt_tokens,
        usage.completion_tokens,
        usage.reasoning_tokens,
    )
    total = usage.total_tokens
    if total is None and (prompt is not None or completion is not None):
        total = (prompt or 0) + (completion or 0)
    candidates = None if completion is None else max(completion - (thoughts or 0), 0)
    fields = {
        "promptTokenCount": prompt,
        "candidatesTokenCount": candidates,
        "totalTokenCount": total,
        "cachedContentTokenCount": usage.cached_tokens,
        "thoughtsTokenCount": thoughts,
    }
    return encode({name: count for name, count in fields.items() if count is not None})


def _is_googles(raw: bytes) -> bool:
    return b'"promptTokenCount"' in raw or b'"totalTokenCount"' in raw
