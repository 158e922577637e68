"""The log entry of one mirrored copy: its response compared with the real one."""

from msgspec import Struct


class Comparison(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A field is `None` if it does not apply: `same_json` of prose, `same_calls` without calls.

    same_text:   every choice has identical text; only if both responses have text.
    same_tokens: every choice has the same tokens; only if both backends return token ids.
    same_json:   both parse to the same values; only if the real response parses.
    same_calls:  the same functions in the same order, with the same arguments as JSON.
    same_finish: each choice has the same finish reason.
    characters, mirror_characters: of all choices' text.
    similarity:  the smallest cosine similarity of two embeddings of one input; of a task's answers,
                 as `TaskAnswer.similarity`.
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
    """Times in milliseconds; `time` in Unix seconds. `mirror_*` fields describe the copy.

    mirror_of: the id of the request that the client made.
    ms:        of the backend that answered it, from the start of its attempt.
    outcome:   `ok`, or the error code of the copy.
    reason:    why the backend's API cannot express the copy; then nothing was sent.
    mirror_dropped: fields and content that were removed from the copy.
    mirror_source: the source of its token counts, as `usage_source` of access lines.
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
