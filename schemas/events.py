"""The events that make up an answer. A backend answers only in this form.

An upstream yields them in batches (`list[Event]`), one per read from the backend, so that events
that arrived together are sent together. `index` is the choice that an event belongs to. The
reader of a stream may give its source a sink, which takes batches without waking the reader.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from typing import Annotated, Final, Literal, cast

from msgspec import Meta, Raw, Struct

from strowger_gateway.schemas.tensors import Tensor
from strowger_gateway.schemas.usage import Usage as Usage

FinishReason = Literal["stop", "length", "tool_calls", "content_filter", "function_call"]


TokenId = Annotated[int, Meta(ge=-(2**31), lt=2**31)]
"""The id of a vocabulary entry, or a padding value; tensors of them are INT32."""


class TokenLogprob(Struct, frozen=True, kw_only=True, gc=False):
    """token: its text. logprob: natural logarithm, at most 0. id: -1 if the backend sends none.

    top: the most likely tokens at this position, best first, each without its own `top`.
    bytes: the token's bytes if its text alone is not valid UTF-8; () for a control token, whose
           name is not part of the answer's text.
    offset: of the token in its choice's text, in characters, as the backend counts (OpenAI from the
           beginning of the prompt); `None` if it sends none.
    """

    token: str
    logprob: float | None
    id: int = -1
    bytes: tuple[int, ...] | None = None
    top: tuple["TokenLogprob", ...] = ()
    offset: int | None = None


class Started(Struct, frozen=True, kw_only=True, tag="started", gc=False):
    """The backend accepted the request. Not content: another backend may still answer.

    A later one repeats the first and adds fields that came after the first frame.
    id, model: as the backend sends them, "" if it does not. created: Unix seconds, 0 if unknown.
    extra:     top-level fields of the answer outside our schema (system_fingerprint, …).
    """

    id: str = ""
    model: str = ""
    created: int = 0
    extra: dict[str, Raw] = {}


class TextDelta(Struct, frozen=True, kw_only=True, tag="text", gc=False):
    text: str
    index: int = 0
    logprobs: tuple[TokenLogprob, ...] = ()


class ReasoningDelta(Struct, frozen=True, kw_only=True, tag="reasoning", gc=False):
    """A piece of a reasoning block; a signature or data is the block's last piece.

    block:     0, 1, … within the choice.
    signature: the vendor's proof, which the client must send back with the next turn.
    data:      a complete reasoning block that only the vendor can read.
    format:    whose signature or data it is; see `strowger_gateway.schemas.messages.Thought`.
    """

    text: str
    index: int = 0
    signature: str = ""
    block: int = 0
    data: str = ""
    format: str = ""


class RefusalDelta(Struct, frozen=True, kw_only=True, tag="refusal", gc=False):
    text: str
    index: int = 0
    logprobs: tuple[TokenLogprob, ...] = ()


class ToolDelta(Struct, frozen=True, kw_only=True, tag="tool", gc=False):
    """A piece of a tool call.

    tool:      0, 1, … within the choice, counting tools only.
    id, name:  on the call's first piece, "" on later ones.
    arguments: the next piece of JSON text.
    signature: the vendor's proof of the reasoning that led to the call, on its first piece.
    """

    tool: int
    index: int = 0
    id: str = ""
    name: str = ""
    arguments: str = ""
    signature: str = ""


class OpaqueDelta(Struct, frozen=True, kw_only=True, tag="opaque", gc=False):
    """Fields of a message outside our schema (audio, annotations, …), as JSON.

    fields: by name; the names of fields next to the message begin with OF_CHOICE.
    """

    fields: dict[str, Raw]
    index: int = 0


OF_CHOICE = "(choice)."
"""Begins the names of fields that a choice has next to its message; no server sends such names."""


class NativeDelta(Struct, frozen=True, kw_only=True, tag="native", gc=False):
    """A piece of a content block that our schema has no event for, at its place in the answer.

    Only sent for requests in the backend's own dialect
    (strowger_gateway.schemas.requests.Original).
    block: a block as it begins. delta: a further piece of the current block, whatever its kind. The
    current block ends if there is neither.
    """

    index: int = 0
    block: Raw | None = None
    delta: Raw | None = None


class Tokens(Struct, frozen=True, kw_only=True, tag="tokens", gc=False):
    """Generated token ids, with the text that they complete ("" while a character is incomplete).

    elapsed_ms: since the previous token, or since the request began for the first.
    """

    ids: tuple[int, ...]
    text: str = ""
    index: int = 0
    logprobs: tuple[TokenLogprob, ...] = ()
    elapsed_ms: float = 0.0


class Logits(Struct, frozen=True, kw_only=True, tag="logits", gc=False):
    """context: [prompt, V] float32; generation: [new, V] float32 of one choice."""

    of: Literal["context", "generation"]
    tensor: Tensor
    index: int = 0


class Finished(Struct, frozen=True, kw_only=True, tag="finished", gc=False):
    """One choice is complete.

    native:       the vendor's own finish reason if it differs from ours.
    stop_match:   the stop string or token id that ended the answer, if the backend reports it.
    seed:         the seed that was used, if the backend reports it.
    cum_logprob:  sum over the choice's tokens, if requested.
    """

    reason: FinishReason
    index: int = 0
    native: str = ""
    stop_match: str | int | None = None
    seed: int | None = None
    cum_logprob: float | None = None


Event = (
    Started
    | TextDelta
    | ReasoningDelta
    | RefusalDelta
    | ToolDelta
    | OpaqueDelta
    | NativeDelta
    | Tokens
    | Logits
    | Finished
    | Usage
)

CONTENT = (
    TextDelta,
    ReasoningDelta,
    RefusalDelta,
    ToolDelta,
    OpaqueDelta,
    NativeDelta,
    Tokens,
    Logits,
    Finished,
)
"""Events that a client sees: the first of them commits the answer to its backend."""

LONGEST_TOKEN: Final = 16
"""Characters of a piece of text that counts as one token; a longer one counts as one per four."""


def tokens_of(event: Event) -> int:
    """Estimate the tokens of a content event: at least one."""
    match event:
        case Tokens(ids=ids):
            return len(ids)
        case TextDelta(text=text) | ReasoningDelta(text=text) | RefusalDelta(text=text):
            size = len(text)
        case ToolDelta(arguments=text):
            size = len(text)
        case _:
            return 1
    return 1 if size <= LONGEST_TOKEN else size // 4


EventSink = Callable[[Sequence[Event]], bool]
"""Takes events without waiting. False: it has them, but cannot take more for now.

A sink may have a method `text`, a TextSink that takes the same as a batch of one TextDelta."""

TextSink = Callable[[str, int], bool]
"""Takes a piece of text, not "", and the index of its choice; returns as an EventSink does."""

EventSource = AsyncGenerator[list[Event], EventSink | None]
"""Batches of events. If a sink is sent to it in reply to content (`asend`), it gives events to that
sink, and yields only when the sink takes no more. Other generators ignore what is sent to them."""


def text_sink(sink: EventSink) -> TextSink:
    """Return what takes pieces of text for the sink: its own method, or events made of them."""
    own = cast("TextSink | None", getattr(sink, "text", None))
    return partial(_as_event, sink) if own is None else own


def _as_event(sink: EventSink, text: str, index: int) -> bool:
    return sink((TextDelta(text=text, index=index),))
