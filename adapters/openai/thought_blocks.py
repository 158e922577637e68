"""Reasoning in blocks, each with its vendor's proof, as clients of other dialects get it.

OpenRouter sends the blocks as `reasoning_details`, next to all their text in `reasoning`: Claude's
with a signature, OpenAI's as a summary and encrypted data, Gemini's with data that belongs to a
call. A stream sends a block in pieces, which have its number; its signature comes last. Databricks
and Mistral have blocks in the content.
https://openrouter.ai/docs/guides/best-practices/reasoning-tokens
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from strowger_gateway.adapters.json_objects import UNREADABLE, read_list
from strowger_gateway.adapters.openai.choice_state import ChoiceState
from strowger_gateway.adapters.openai.wire import ThoughtPiece, WireMessage
from strowger_gateway.schemas.events import ReasoningDelta, ToolDelta
from strowger_gateway.schemas.messages import GEMINI, ITEM_FORMATS, item_proof

DETAILS: Final = "reasoning_details"
SIGNATURE: Final = "reasoning_signature"
_KINDS: Final = frozenset({"reasoning.text", "reasoning.summary", "reasoning.encrypted"})
_UNKNOWN: Final = "unknown"
GOOGLES_PARTS: Final = "parts."
"""Begins what this gateway has as data of Gemini's; a signature, in base64, has no dot."""


class _Detail(Struct, frozen=True, kw_only=True):
    type: str = ""
    text: str | None = None
    summary: str | None = None
    signature: str | None = None
    data: str | None = None
    format: str | None = None
    index: int | None = None
    id: str | None = None


_detail: Final = msgspec.json.Decoder(_Detail).decode


def reasoning_deltas(
    message: WireMessage, state: ChoiceState, index: int, *, format: str, by_block: bool
) -> list[ReasoningDelta]:
    """Return a frame's reasoning. format: of proofs that name none.

    by_block: `reasoning_details` are read.
    """
    text = message.reasoning or message.reasoning_content or ""
    signature = message.reasoning_signature or ""
    pieces = message.thoughts
    if message.opaque and DETAILS in message.opaque:
        if by_block:
            pieces = pieces or _read(message.opaque[DETAILS])
        else:
            signature = ""  # the details have it
    if pieces:
        unsaid = not any(one.text for one in pieces)
        found = [_plain(text, state, index, by_block)] if text and unsaid else []
        return [*found, *_deltas(pieces, state, index, format)]
    if not signature:
        return [_plain(text, state, index, by_block)] if text else []
    block = state.block
    state.end_block()
    return [ReasoningDelta(text=text, index=index, signature=signature, block=block, format=format)]


def beside_blocks(
    message: WireMessage, opaque: dict[str, Raw], *, by_block: bool
) -> dict[str, Raw]:
    """Return the fields of a message that has `reasoning_details` which no event has.

    Without `by_block`, the client gets the details as they came, and their proof once.
    """
    if by_block:
        return {name: raw for name, raw in opaque.items() if name != DETAILS}
    if not message.reasoning_signature:
        return opaque
    return {**opaque, SIGNATURE: Raw(msgspec.json.encode(message.reasoning_signature))}


def _plain(text: str, state: ChoiceState, index: int, by_block: bool) -> ReasoningDelta:
    state.begun = True
    if by_block:
        state.unproven.append(text)
    return ReasoningDelta(text=text, index=index, block=state.block)


def _read(raw: Raw) -> list[ThoughtPiece]:
    """Return the entries that are reasoning; [] if they are unreadable."""
    try:
        found = [_detail(one) for one in read_list(raw)]
    except UNREADABLE:
        return []
    return [
        ThoughtPiece(
            text=(one.text if one.summary is None else one.summary) or "",
            signature=one.signature or "",
            data=one.data or "",
            format="" if one.format == _UNKNOWN else one.format or "",
            place=one.index,
            id=one.id or "",
        )
        for one in found
        if one.type in _KINDS
    ]


def _deltas(
    pieces: Sequence[ThoughtPiece], state: ChoiceState, index: int, format: str
) -> Iterator[ReasoningDelta]:
    for piece in pieces:
        text = _unseen(piece.text, state)
        named = piece.format or format
        signature, data = piece.signature, piece.data
        if named == GEMINI and data and not data.startswith(GOOGLES_PARTS):
            if piece.id:
                state.signatures[piece.id] = data
                continue
            signature, data = data, ""
        elif named in ITEM_FORMATS and data:
            proof = item_proof(piece.id, data)
            signature, data = (proof, "") if state.begun else ("", proof)
        moved = text and state.place is not None and piece.place not in (None, state.place)
        if state.begun and (data or moved):
            state.end_block()
        if text or signature or data:
            yield ReasoningDelta(
                text=text,
                index=index,
                signature=signature,
                block=state.block,
                data=data,
                format=named if signature or data else "",
            )
            state.begun, state.place = True, piece.place
        if signature or data:
            state.end_block()


def _unseen(text: str, state: ChoiceState) -> str:
    """Return what of a block's text did not come before, without a proof.

    A gateway that adds proofs sends a block's text in pieces, and then the block.
    """
    if not (state.unproven and text):
        return text
    seen = "".join(state.unproven)
    if text.startswith(seen):
        state.unproven.clear()
        return text[len(seen) :]
    if seen.startswith(text):
        state.unproven = [seen[len(text) :]]
        return ""
    return text


def signed(calls: Sequence[ToolDelta], state: ChoiceState) -> list[ToolDelta]:
    """Return pieces of calls, with the proofs that have come for them."""
    found = state.signatures
    return [
        replace(one, signature=found.pop(one.id)) if one.id in found and not one.signature else one
        for one in calls
    ]


def last_deltas(state: ChoiceState, index: int) -> Iterator[ReasoningDelta | ToolDelta]:
    """Yield the calls that waited for their proofs, and proofs of calls that did not come."""
    held, state.held = state.held, []
    yield from signed(held, state)
    for proof in state.signatures.values():
        if state.begun:
            state.end_block()
        yield ReasoningDelta(
            text="", index=index, signature=proof, block=state.block, format=GEMINI
        )
        state.end_block()
    state.signatures = {}
