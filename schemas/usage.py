"""The token counts of an answer: an event, and what a failed attempt has used."""

import msgspec
from msgspec import Raw, Struct

MOST_TOKENS = 2**31 - 1
"""The largest plausible count for one answer; a larger count is treated as missing."""


class Usage(Struct, frozen=True, kw_only=True, tag="usage", gc=False):
    """Totals so far over all choices; a later one replaces an earlier one.

    prompt_tokens includes cached_tokens and cache_write_tokens; cache_write_tokens includes
    cache_write_1h_tokens, which the vendor keeps for an hour at a higher price;
    completion_tokens includes reasoning_tokens. `None`: the backend sent no count (not the same as
    0), or an impossible one: below 0, or above MOST_TOKENS.
    raw: the vendor's own object.
    """

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_1h_tokens: int | None = None
    reasoning_tokens: int | None = None
    raw: Raw | None = None

    def __post_init__(self) -> None:
        # One check for all: the bitwise OR of numbers within a mask is within it; a negative shows.
        bits = (self.prompt_tokens or 0) | (self.completion_tokens or 0) | (self.total_tokens or 0)
        bits |= (self.cached_tokens or 0) | (self.cache_write_tokens or 0)
        bits |= self.cache_write_1h_tokens or 0
        if 0 <= bits | (self.reasoning_tokens or 0) <= MOST_TOKENS:
            return
        for name in _COUNTS:
            count: int | None = getattr(self, name)
            if count is not None and not 0 <= count <= MOST_TOKENS:
                msgspec.structs.force_setattr(self, name, None)


_COUNTS = tuple(field for field in Usage.__struct_fields__ if field != "raw")
