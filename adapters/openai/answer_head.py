"""Collects an OpenAI-dialect answer's top-level fields: id, model, counts, and unknown ones.

Unknown fields may come in any frame. Frames without any decode as a stricter type, so that only the
others need a second, slower decoding.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from strowger_gateway.adapters.decoder_limits import NOTES, overfull
from strowger_gateway.adapters.json_objects import NULL, UNREADABLE, read_object
from strowger_gateway.adapters.openai.message_repair import as_text, seconds
from strowger_gateway.adapters.openai.wire import (
    Chunk,
    CompletionDetails,
    Head,
    OpenChunk,
    PromptDetails,
    UsageCounts,
    read_chunk,
    read_head,
    read_open_chunk,
    read_usage,
)
from strowger_gateway.schemas.events import Event, Started, Usage

KNOWN = frozenset({"id", "model", "created", "choices", "usage", "object", "error", "obfuscation"})
"""Fields that are read, or that contain nothing for a client."""

_NOT_STARTED = Started()
_NONE: Mapping[str, Raw] = {}


class AnswerHead(Struct, eq=False):
    """Mutable: whether the answer has started, and the fields received so far.

    upstream: the provider's name. stream: whether a stream was requested.
    extra: the unknown fields; some may be set before the first frame.
    id: "" until the answer has started, and if the backend sends none.
    known: the last frame's fields besides the choices contain nothing new.
    strict: the answer has started, and no frame had an unknown field; then the decoder reads frames
            that are only text itself.
    """

    upstream: str
    stream: bool
    extra: dict[str, Raw] = {}
    known: bool = False
    strict: bool = False
    id: str = ""
    # `_open`: an unknown field was seen. `_news`: `read` found one that `emit_start` reports.
    _begun: bool = False
    _started: Started = _NOT_STARTED
    _open: bool = False
    _news: bool = False

    @property
    def model(self) -> str:
        """Return the name of the model that answers; "" until it is known."""
        return self._started.model

    def read(self, data: bytes) -> OpenChunk:
        """Sets `known`. Raises one of `UNREADABLE`, and then `known` is false.

        A server that has sent an unknown field is expected to repeat it, so the stricter type is
        not tried on its further frames.
        """
        self.known = False
        if not self._open:
            try:
                return read_chunk(data)
            except msgspec.ValidationError:
                chunk = read_open_chunk(data)
                self._open, self.strict = True, False
        else:
            chunk = read_open_chunk(data)
        if self._begun:
            self._news = self._note(read_object(data))
            self.known = not self._news
        return chunk

    def emit_start(self, chunk: OpenChunk, data: bytes, events: list[Event]) -> None:
        """Append `Started`, and again with more fields if later frames have some.

        Azure first sends a frame without id or choices; its fields are held until the next one.
        """
        fields = _unread(chunk, data)
        news = self._news
        if fields and self._note(fields):
            news = True
        self._news = False
        if self._begun:
            if news:
                self._started = replace(self._started, extra={**self.extra})
                events.append(self._started)
            return
        if not chunk.choices and self.stream:
            return
        self._begun, self.strict = True, not self._open
        head = chunk if isinstance(chunk, Chunk) else _head_of(data)
        self.id = head.id or ""
        self._started = Started(
            id=self.id,
            model=head.model or "",
            created=head.created or 0,
            extra={**self.extra},
        )
        events.append(self._started)

    def _note(self, fields: Mapping[str, Raw]) -> bool:
        """Store the unknown fields; return whether one is new or has changed."""
        news = False
        for name, raw in fields.items():
            if name in KNOWN:
                continue
            if raw != self.extra.get(name) and raw != NULL:
                if len(self.extra) >= NOTES:
                    raise overfull(NOTES, "fields", self.upstream)
                self.extra[name] = raw.copy()
                news = True
        return news


def _unread(chunk: OpenChunk, data: bytes) -> Mapping[str, Raw]:
    """Return the fields that may be new; a frame of the stricter type has only these two."""
    if not isinstance(chunk, Chunk):
        return read_object(data)
    mark, tier = chunk.system_fingerprint, chunk.service_tier
    if mark is NULL and tier is NULL:
        return _NONE
    return {"system_fingerprint": mark, "service_tier": tier}


def _head_of(data: bytes) -> Head:
    """Return the head of a frame, even if its fields are not of the expected types."""
    try:
        return read_head(data)
    except UNREADABLE:
        fields = read_object(data)
    return Head(
        id=as_text(fields.get("id", NULL)),
        model=as_text(fields.get("model", NULL)),
        created=seconds(fields.get("created", NULL)),
    )


_NO_PROMPT_DETAILS = PromptDetails()
_NO_COMPLETION_DETAILS = CompletionDetails()
_COUNTS = tuple(field for field in Usage.__struct_fields__ if field != "raw")


def usage_from(raw: Raw) -> Usage:
    """Read counts. Unreadable ones become `None` and stay in `raw`: they never fail an answer."""
    kept = raw.copy()
    try:
        counts = read_usage(kept)
    except UNREADABLE:
        return Usage(raw=kept)
    prompt = counts.prompt_tokens_details or _NO_PROMPT_DETAILS
    completion = counts.completion_tokens_details or _NO_COMPLETION_DETAILS
    # Of several names for a count, the first that is not `None`; 0 counts.
    reasoning = completion.reasoning_tokens
    if reasoning is None:
        reasoning = counts.reasoning_tokens
    cached = prompt.cached_tokens
    if cached is None:
        cached = counts.cache_read_input_tokens
    if cached is None:
        cached = counts.prompt_cache_hit_tokens
    if cached is None:
        cached = counts.cached_tokens
    written = prompt.cache_write_tokens
    if written is None:
        written = prompt.cache_creation_tokens
    if written is None:
        written = counts.cache_creation_input_tokens
    return Usage(
        prompt_tokens=counts.prompt_tokens,
        completion_tokens=_with_reasoning(counts, reasoning)
        if reasoning
        else counts.completion_tokens,
        total_tokens=counts.total_tokens,
        cached_tokens=cached,
        cache_write_tokens=written,
        reasoning_tokens=reasoning,
        raw=kept,
    )


def continued(before: Usage | None, later: Usage) -> Usage:
    """Return the later counts, with the earlier ones that they lack.

    Counts of one answer never fall to nothing, so a later 0 or absence says that the vendor did not
    count there: the last frames of Workers AI and of some proxies repeat the totals with
    `cached_tokens: 0`.
    """
    if before is None:
        return later
    kept = {
        name: count
        for name in _COUNTS
        if (count := getattr(before, name)) and not getattr(later, name)
    }
    return replace(later, **kept) if kept else later


def _with_reasoning(counts: UsageCounts, reasoning: int) -> int | None:
    """Add reasoning if the total shows that it is counted separately, as xAI does."""
    prompt, completion, total = counts.prompt_tokens, counts.completion_tokens, counts.total_tokens
    if prompt is None or completion is None:
        return completion
    return completion + reasoning if total == prompt + completion + reasoning else completion
