"""Counts of one model in the engine, as metrics show them."""

from msgspec import Struct


class Stats(Struct, frozen=True, kw_only=True):
    """waiting, running: answers now. Blocks: cache pages. The others count since the start.

    computed_tokens: through the model, of prompts and answers, so without the cached_tokens that
                     the prefix cache gave.
    """

    waiting: int
    running: int
    blocks_total: int
    blocks_free: int
    steps: int
    preemptions: int
    computed_tokens: int
    cached_tokens: int
    generated_tokens: int
