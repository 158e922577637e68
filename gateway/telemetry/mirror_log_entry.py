"""What the log says of one shadow answer: it beside the real one."""

from msgspec import Struct


class Comparison(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`None` where the question has no sense: about JSON of prose, about calls where none is.

    same_text:   every choice says the same, character by character; only where both have text.
    same_tokens: every choice has the same tokens; only where both backends tell their ids.
    same_json:   both parse, and to the same values; only where the real answer parses.
    same_calls:  the same functions in the same order, with the same arguments as JSON.
    same_finish: each choice ended for the same reason.
    characters, mirror_characters: of all choices' text.
    similarity:  the least cosine between two vectors of one input.
    """

    same_text: bool | None = None
    same_tokens: bool | None = None
    same_json: bool | None = None
    same_calls: bool | None = None
    same_finish: bool | None = None
    characters: int | None = None
    mirror_characters: int | None = None
    similarity: float | None = None


class MirrorLogEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
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
