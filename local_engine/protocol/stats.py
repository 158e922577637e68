"""What one model of the engine tells of itself, as metrics and the admin interface show it.

Where TensorRT-LLM has a name for a number, it is that name
(https://github.com/NVIDIA/TensorRT-LLM, triton_backend/all_models/inflight_batcher_llm).
No torch here: the gateway reads these.
"""

from msgspec import Struct

BOUNDS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0),
)
"""Upper bounds of every histogram's buckets, seconds, themselves included."""


class Histogram(Struct, frozen=True, kw_only=True):
    """counts: observations a bucket of BOUNDS, not cumulative, and one more for those above all.

    sum: of the observations, seconds.
    """

    counts: tuple[int, ...] = (0,) * (len(BOUNDS) + 1)
    sum: float = 0.0

    @property
    def count(self) -> int:
        return sum(self.counts)

    def quantile(self, share: float) -> float | None:
        """Where `share` of the observations lie at or below, interpolated inside a bucket.

        share: above 0, at most 1. `None` without observations; the last bound where it lies above.
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
    """Counts since the model was loaded, but for those marked "now".

    waiting, running:         answers, now.
    blocks_total, blocks_free: pages of the cache, now; a free one may have a reusable content.
    cache_bytes, weights_bytes: memory that the pages and the weights take, now.
    loaded_since:             Unix time, seconds; 0 where it is not known.
    steps:                    forward passes that brought something.
    preemptions:              running answers that lost their pages to others.
    computed_tokens:          through the model, of prompts and answers.
    cached_tokens:            of prompts, given by the prefix cache instead.
    num_input_tokens:         of the prompts that were begun; num_output_tokens: generated.
    total_draft_tokens:       proposed; total_accepted_draft_tokens: of these, kept.
    kv_cache_alloc_new_blocks: pages taken; kv_cache_reused_blocks: found in the prefix cache
                              instead; kv_cache_alloc_total_blocks: both.
    finished:                 answers by outcome: eos_token, stop_sequence, length, expired,
                              failed, cancelled.
    queue_time:               from an answer's arrival to its first step.
    time_to_first_token:      from an answer's arrival to its first token.
    time_between_tokens:      several tokens of one step share its time evenly.
    step_time:                of a step, from choosing what to compute to its last token.
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
        """Pages that answers hold now, 0 … 1."""
        return 1.0 - self.blocks_free / self.blocks_total if self.blocks_total else 0.0

    @property
    def prefix_hit_rate(self) -> float:
        """Prompt tokens that the prefix cache gave, 0 … 1."""
        return self.cached_tokens / self.num_input_tokens if self.num_input_tokens else 0.0

    @property
    def acceptance_rate(self) -> float:
        """Draft tokens that were kept, 0 … 1."""
        proposed = self.total_draft_tokens
        return self.total_accepted_draft_tokens / proposed if proposed else 0.0


class Footprint(Struct, frozen=True, kw_only=True):
    """What a model takes of the device; as in Stats."""

    weights_bytes: int = 0
    cache_bytes: int = 0
    loaded_since: float = 0.0


NOWHERE = Footprint()


class Machine(Struct, frozen=True, kw_only=True):
    """What an engine process runs on. resident_bytes: of the process now, 0 where unknown."""

    device: str = ""
    dtype: str = ""
    threads: int = 0
    resident_bytes: int = 0
