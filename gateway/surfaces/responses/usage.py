"""Token counts as the Responses API gives them."""

from typing import Final

from schemas.events import Usage

_PLAIN: Final = (
    b'{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d,"cache_write_tokens":%d},'
    b'"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":%d},"total_tokens":%d}'
)


def usage_json(usage: Usage | None) -> bytes:
    """Return the counts; null if the backend counted nothing. Clients require every number."""
    if usage is None or (usage.prompt_tokens is None and usage.completion_tokens is None):
        return b"null"
    prompt, completion = usage.prompt_tokens or 0, usage.completion_tokens or 0
    total = usage.total_tokens
    return _PLAIN % (
        prompt,
        usage.cached_tokens or 0,
        usage.cache_write_tokens or 0,
        completion,
        usage.reasoning_tokens or 0,
        prompt + completion if total is None else total,
    )
