"""A model's reasoning, block by block, as clients and backends of the OpenAI dialect exchange it.

`reasoning_details`, as OpenRouter defined it: each block whole, with the signature or encrypted
data that its vendor requires in the next turn.
https://openrouter.ai/docs/use-cases/reasoning-tokens#preserving-reasoning-blocks
"""

from collections.abc import Iterable
from typing import Final, Literal

import msgspec
from msgspec import UNSET, DecodeError, Raw, Struct, UnsetType

from strowger_gateway.gateway.surfaces.decoding import invalid_request
from strowger_gateway.gateway.surfaces.openai.wire import ALLOWED
from strowger_gateway.schemas.events import ReasoningDelta
from strowger_gateway.schemas.messages import CLAUDE, GEMINI, ITEM_FORMATS, Thought, item_proof

UNKNOWN = "unknown"
"""OpenRouter's name for an unknown format."""


class ReasoningDetail(Struct, frozen=True, kw_only=True):
    """One block. format: the vendor whose signature it holds. index: its place in the choice."""

    type: Literal["reasoning.text", "reasoning.encrypted"]
    text: str | UnsetType = UNSET
    signature: str | UnsetType = UNSET
    data: str | UnsetType = UNSET
    format: str | UnsetType = UNSET
    index: int


class _Read(Struct, frozen=True, kw_only=True):
    """For `reasoning.summary` the text is in `summary`.

    id: of OpenAI's item, or of the call that Gemini signs.
    """

    type: str
    id: str | None = None
    index: int | None = None
    text: str | None = None
    summary: str | None = None
    signature: str | None = None
    data: str | None = None
    format: str | None = None


_read: Final = msgspec.json.Decoder(_Read)


def read_reasoning(raws: list[Raw], message: int) -> tuple[Thought, ...]:
    """Return the blocks. A client that keeps a stream's pieces sends a block in several entries.

    message: its index, used in error paths. Raises InvalidRequest.
    """
    thoughts: list[Thought] = []
    before: _Read | None = None
    for place, raw in enumerate(raws):
        try:
            read = _read.decode(raw)
        except (DecodeError, RecursionError) as exc:
            where = f"messages[{message}].reasoning_details[{place}]"
            raise invalid_request(exc, where, ALLOWED) from exc
        thought = _thought(read)
        if before is not None and _continues(read, before, thoughts[-1]):
            thoughts[-1] = _joined(thoughts[-1], thought)
        else:
            thoughts.append(thought)
        before = read
    return tuple(thoughts)


def _thought(read: _Read) -> Thought:
    text = read.text if read.summary is None else read.summary
    format, data = "" if read.format == UNKNOWN else read.format or "", read.data or ""
    if data and format in ITEM_FORMATS:
        data = item_proof(read.id or "", data)
    return Thought(text=text or "", signature=read.signature or "", data=data, format=format)


def _continues(read: _Read, before: _Read, thought: Thought) -> bool:
    """Return whether an entry belongs to the one before: a piece of it, or a summary's proof."""
    if thought.signature or thought.data:
        return False
    if read.type == "reasoning.encrypted":
        summed = before.type == "reasoning.summary" and read.format in ITEM_FORMATS
        return summed and read.id == before.id
    return read.type == before.type and read.index is not None and read.index == before.index


def _joined(thought: Thought, more: Thought) -> Thought:
    return Thought(
        text=thought.text + more.text,
        signature=more.signature or more.data,
        format=more.format or thought.format,
    )


def call_proofs(thoughts: tuple[Thought, ...], raws: list[Raw]) -> dict[str, str]:
    """Return Gemini's proofs of calls by their ids, from entries that have been read."""
    if not any(one.data and one.format == GEMINI for one in thoughts):
        return {}
    read = [_read.decode(raw) for raw in raws]
    return {one.id: one.data for one in read if one.format == GEMINI and one.id and one.data}


def reasoning_details(thoughts: Iterable[Thought]) -> list[ReasoningDetail]:
    """Return [] if no block has more than its text, which is already in `reasoning`."""
    known = list(thoughts)
    if not any(thought.signature or thought.data for thought in known):
        return []
    return [_detail(thought, place) for place, thought in enumerate(known)]


def flat_signature(signature: str, format: str) -> str:
    """Return the signature if `reasoning_signature`, which has no format, may hold it.

    A client may send back this field alone, so it never holds a signature that Claude would reject.
    """
    return signature if format in ("", CLAUDE) else ""


class ReasoningBlocks:
    """Collect the blocks of a stream until they are complete."""

    def __init__(self) -> None:
        self._texts: dict[tuple[int, int], list[str]] = {}
        self._proven: set[int] = set()

    def add(self, event: ReasoningDelta) -> list[ReasoningDetail]:
        """Return the block that this piece completes, if its vendor wants it back.

        A client that returns details returns no other reasoning: with the first come the blocks
        before it, which are nothing but text.
        """
        index, block = event.index, event.block
        self._texts.setdefault((index, block), []).append(event.text)
        if not (event.signature or event.data):
            return []
        self._proven.add(index)
        text = "".join(self._texts.pop((index, block)))
        thought = Thought(
            text=text, signature=event.signature, data=event.data, format=event.format
        )
        return [*self._unproven(index, block), _detail(thought, block)]

    def rest(self, index: int) -> list[ReasoningDetail]:
        """Return the blocks of a complete choice that come after the last with a proof."""
        return self._unproven(index, None) if index in self._proven else []

    def _unproven(self, index: int, end: int | None) -> list[ReasoningDetail]:
        """Return the texts of a choice's blocks before `end`, or of all."""
        keys = [key for key in self._texts if key[0] == index and (end is None or key[1] < end)]
        texts = [(key[1], "".join(self._texts.pop(key))) for key in sorted(keys)]
        return [_detail(Thought(text=text), block) for block, text in texts if text]


def _detail(thought: Thought, place: int) -> ReasoningDetail:
    if thought.data:
        return ReasoningDetail(
            type="reasoning.encrypted",
            data=thought.data,
            format=thought.format or UNSET,
            index=place,
        )
    return ReasoningDetail(
        type="reasoning.text",
        text=thought.text,
        signature=thought.signature or UNSET,
        format=thought.format or UNSET,
        index=place,
    )
