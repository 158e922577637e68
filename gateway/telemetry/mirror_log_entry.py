"""What the log says of one shadow answer: it beside the real one."""

from msgspec import Struct

from gateway.mirror.comparison import Comparison


class MirrorLine(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Times in milliseconds; `time` in Unix seconds. What begins with `mirror_` is the shadow's.

    mirror_of: the id of the request that the client made.
    ms, ttft_ms: of the backend that answered it, from when it was asked.
    outcome:   `ok`, or the code of what went wrong with the copy.
    reason:    why the copy could not be said in the backend's words; then nothing was sent.
    mirror_dropped: fields and content that the copy had to do without.
    mirror_source: who counted its tokens, as `usage_source` of access lines.
    """

    mirror_of: str
    time: float
    route: str
    backend: str
    mirror: str
    outcome: str
    pattern: str = ""
    reason: str = ""
    mirror_dropped: tuple[str, ...] = ()
    ms: float | None = None
    mirror_ms: float = 0.0
    mirror_ttft_ms: float | None = None
    completion_tokens: int | None = None
    mirror_prompt_tokens: int | None = None
    mirror_completion_tokens: int | None = None
    mirror_source: str = ""
    cost_usd: float | None = None
    mirror_cost_usd: float | None = None
    compared: Comparison | None = None
