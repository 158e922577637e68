"""Wire types of the Responses API: the response, its items and proofs, the events of a stream.

Only what is read is declared. Servers add events, items and fields at any time, so that an event of
an unknown type is read no further than its type.
https://platform.openai.com/docs/api-reference/responses/object
https://platform.openai.com/docs/api-reference/responses-streaming
"""

from typing import Final

import msgspec
from msgspec import Raw, Struct

from strowger_gateway.adapters.json_objects import NULL, UNREADABLE
from strowger_gateway.adapters.openai.logprobs import chat_logprobs
from strowger_gateway.schemas.events import TokenLogprob, Usage
from strowger_gateway.schemas.messages import Thought

DIALECT: Final = "openai-responses"
INPUT: Final = "input"
"""The field of a request with its items."""


class StreamEvent(Struct, frozen=True, kw_only=True, gc=False):
    """An event of a type that is read.

    content_index, summary_index: of a part within its item. delta: of a part. error: of a failure.
    """

    type: str = ""
    output_index: int = 0
    summary_index: int = 0
    content_index: int = 0
    delta: str = ""
    logprobs: tuple[Raw, ...] | None = None
    annotation: Raw = NULL
    item: Raw = NULL
    response: Raw = NULL
    error: Raw = NULL


class EventKind(Struct, frozen=True, kw_only=True, gc=False):
    type: str = ""
    error: Raw = NULL


class ItemPart(Struct, frozen=True, kw_only=True):
    """A part of a message or of reasoning: `output_text`, `refusal`, `summary_text`, …"""

    type: str = ""
    text: str | None = None
    refusal: str | None = None
    annotations: tuple[Raw, ...] | None = None
    logprobs: tuple[Raw, ...] | None = None


class OutputItem(Struct, frozen=True, kw_only=True):
    """An item that our events have: a message, reasoning, or the call of a client's tool.

    input: of a custom tool. content: of a message or reasoning.
    """

    type: str = ""
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    input: str | None = None
    content: tuple[ItemPart, ...] | None = None
    summary: tuple[ItemPart, ...] | None = None
    encrypted_content: str | None = None


class IncompleteDetails(Struct, frozen=True, kw_only=True, gc=False):
    reason: str | None = None


class WireResponse(Struct, frozen=True, kw_only=True):
    """The response resource, as lifecycle events and whole answers carry it."""

    id: str | None = None
    model: str | None = None
    created_at: float | None = None
    status: str | None = None
    error: Raw = NULL
    incomplete_details: IncompleteDetails | None = None
    output: tuple[Raw, ...] | None = None
    usage: Raw = NULL


class InputDetails(Struct, frozen=True, kw_only=True, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class OutputDetails(Struct, frozen=True, kw_only=True, gc=False):
    reasoning_tokens: int | None = None


class ResponseCounts(Struct, frozen=True, kw_only=True, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    input_tokens_details: InputDetails | None = None
    output_tokens_details: OutputDetails | None = None


read_event = msgspec.json.Decoder(StreamEvent).decode
read_kind = msgspec.json.Decoder(EventKind).decode
read_item = msgspec.json.Decoder(OutputItem).decode
read_response = msgspec.json.Decoder(WireResponse).decode
read_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_counts = msgspec.json.Decoder(ResponseCounts).decode
_NO_INPUT = InputDetails()
_NO_OUTPUT = OutputDetails()
_IN_PROOF = "."


def usage_of(raw: Raw) -> Usage:
    """Read counts. Unreadable ones become `None` and stay in `raw`: they never fail an answer."""
    if raw == NULL:
        return Usage()
    kept = raw.copy()
    try:
        counts = _counts(kept)
    except UNREADABLE:
        return Usage(raw=kept)
    given = counts.input_tokens_details or _NO_INPUT
    made = counts.output_tokens_details or _NO_OUTPUT
    return Usage(
        prompt_tokens=counts.input_tokens,
        completion_tokens=counts.output_tokens,
        total_tokens=counts.total_tokens,
        cached_tokens=given.cached_tokens,
        cache_write_tokens=given.cache_write_tokens,
        reasoning_tokens=made.reasoning_tokens,
        raw=kept,
    )


def logprobs_of(found: tuple[Raw, ...] | None) -> tuple[TokenLogprob, ...]:
    """Raises one of `UNREADABLE`."""
    return chat_logprobs(found) if found else ()


def sealed(id: str, encrypted: str) -> str:
    """Return encrypted reasoning as a proof: with the id of its item, which has no dot.

    The API rejects encrypted reasoning under the id of another item, so both travel together.
    """
    return f"{id}{_IN_PROOF}{encrypted}"


def opened(thought: Thought) -> tuple[str, str]:
    """Return the id in a proof, "" if it has none, and the encrypted reasoning."""
    id, separator, encrypted = (thought.data or thought.signature).partition(_IN_PROOF)
    return (id, encrypted) if separator else ("", id)
