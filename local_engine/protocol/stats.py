"""Statistics of one model of the engine, as metrics and the admin interface show them.

Numbers that TensorRT-LLM also has use its names
(https://github.com/NVIDIA/TensorRT-LLM, triton_backend/all_models/inflight_batcher_llm).
No torch here: the gateway reads these.
"""

from msgspec import Struct

BOUNDS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0),
)
"""Inclusive upper bounds of every histogram's buckets, in seconds."""


class Histogram(Struct, frozen=True, kw_only=True):
    """counts: observations per bucket of BOUNDS, not cumulative, plus one bucket above the last.

    sum: of the observations, seconds.
    """

    counts: tuple[int, ...] = (0,) * (len(BOUNDS) + 1)
    sum: float = 0.0

    @property
    def count(self) -> int:
        return sum(self.counts)

    def quantile(self, share: float) -> float | None:
        """Return the value that `share` of the observations do not exceed, interpolated.

        share: above 0, at most 1. `None` without observations; at most the last bound.
        """
        wanted = share * self.count
        seen = 0
        lower = 0.0
        for upper, count in zip(BOUNDS, self.counts, strict=False):
            if count and seen + count >= wanted:
                return lower + (upper - lower) * (wanted - seen) / count
            seen += count
            lower = upper
        return BOUNDS[-1] if self.count else None


class Stats(Struct, frozen=True, kw_only=True):
    """Counters since the model was loaded, except those marked "now".

    waiting, running:         answers, now.
    blocks_total, blocks_free: pages of the cache, now; a free one may have reusable content.
    cache_bytes, weights_bytes: memory that the pages and the weights take, now.
    loaded_since:             Unix time, seconds; 0 if unknown.
    steps:                    forward passes that computed something.
    preemptions:              running answers that lost their pages to others.
    computed_tokens:          prompt and answer tokens that went through the model.
    cached_tokens:            prompt tokens served by the prefix cache instead.
    num_input_tokens:         tokens of started prompts; num_output_tokens: generated tokens.
    total_draft_tokens:       proposed drafts; total_accepted_draft_tokens: accepted ones.
    kv_cache_alloc_new_blocks: pages allocated; kv_cache_reused_blocks: pages found in the prefix
                              cache instead; kv_cache_alloc_total_blocks: both.
    finished:                 answers by outcome: eos_token, stop_sequence, length, expired,
                              failed, cancelled.
    queue_time:               from an answer's arrival to its first step.
    time_to_first_token:      from an answer's arrival to its first token.
    time_between_tokens:      several tokens of one step share its time evenly.
    step_time:                of a step, from scheduling to its last token.
    """

    waiting: int = 0
    running: int = 0
    blocks_total: int = 0
    blocks_free: int = 0
    cache_bytes: int = 0
    weights_bytes: int = 0
    loaded_since: float = 0.0
    steps: int = 0
    preemptions: int = 0
    computed_tokens: int = 0
    cached_tokens: int = 0
    num_input_tokens: int = 0
    num_output_tokens: int = 0
    total_draft_tokens: int = 0
    total_accepted_draft_tokens: int = 0
    kv_cache_alloc_new_blocks: int = 0
    kv_cache_reused_blocks: int = 0
    kv_cache_alloc_total_blocks: int = 0
    finished: dict[str, int] = {}
    queue_time: Histogram = Histogram()
    time_to_first_token: Histogram = Histogram()
    time_between_tokens: Histogram = Histogram()
    step_time: Histogram = Histogram()

    @property
    def cache_used_share(self) -> float:
        """Share of pages that answers hold now, 0 … 1."""
        return 1.0 - self.blocks_free / self.blocks_total if self.blocks_total else 0.0

    @property
    def prefix_hit_rate(self) -> float:
        """Share of prompt tokens served by the prefix cache, 0 … 1."""
        return self.cached_tokens / self.num_input_tokens if self.num_input_tokens else 0.0

    @property
    def acceptance_rate(self) -> float:
        """Share of draft tokens that were accepted, 0 … 1."""
        proposed = self.total_draft_tokens
        return self.total_accepted_draft_tokens / proposed if proposed else 0.0


class Footprint(Struct, frozen=True, kw_only=True):
    """Device memory of a model; fields as in Stats."""

    weights_bytes: int = 0
    cache_bytes: int = 0
    loaded_since: float = 0.0


NO_FOOTPRINT = Footprint()


class Machine(Struct, frozen=True, kw_only=True):
    """The machine and process of an engine.

    host: its name. pid: on that host. started_at: Unix time, seconds.
    resident_bytes: of the process now, 0 if unknown.
    """

    device: str = ""
    dtype: str = ""
    threads: int = 0
    resident_bytes: int = 0
    host: str = ""
    pid: int = 0
    started_at: float = 0.0
