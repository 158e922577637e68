"""A model's thinking, block by block, as the OpenAI dialect hands it back and forth.

`reasoning_details`, as OpenRouter defined it: each block whole, with the proof or the encrypted
data that its vendor wants to see again in the next turn.
https://openrouter.ai/docs/use-cases/reasoning-tokens#preserving-reasoning-blocks
"""

from collections.abc import Iterable
from typing import Final, Literal

import msgspec
from msgspec import UNSET, DecodeError, Raw, Struct, UnsetType

from gateway.surfaces.decoding import invalid_request
from gateway.surfaces.openai.wire import ALLOWED
from schemas.events import ReasoningDelta
from schemas.messages import CLAUDE, Thought

UNKNOWN = "unknown"
"""OpenRouter's word for a format that it cannot tell."""


class ReasoningDetail(Struct, frozen=True, kw_only=True):
    """One block. format: whose proof it holds. index: its place among the choice's."""

    type: Literal["reasoning.text", "reasoning.encrypted"]
    text: str | UnsetType = UNSET
    signature: str | UnsetType = UNSET
    data: str | UnsetType = UNSET
    format: str | UnsetType = UNSET
    index: int


class _Read(Struct, frozen=True, kw_only=True):
    """`reasoning.summary` has its text in `summary`."""

    type: str
    text: str | None = None
    summary: str | None = None
    signature: str | None = None
    data: str | None = None
    format: str | None = None


_read: Final = msgspec.json.Decoder(_Read)


def read_reasoning(raws: list[Raw], message: int) -> tuple[Thought, ...]:
    """message: its place, for the path in an error. Raises InvalidRequest."""
    thoughts: list[Thought] = []
    for place, raw in enumerate(raws):
        try:
            read = _read.decode(raw)
        except (DecodeError, RecursionError) as exc:
            where = f"messages[{message}].reasoning_details[{place}]"
            raise invalid_request(exc, where, ALLOWED) from exc
        text = read.text if read.summary is None else read.summary
        thoughts.append(
            Thought(
                text=text or "",
                signature=read.signature or "",
                data=read.data or "",
                format="" if read.format == UNKNOWN else read.format or "",
            )
        )
    return tuple(thoughts)


def reasoning_details(thoughts: Iterable[Thought]) -> list[ReasoningDetail]:
    """[] where no block has anything but its text, which `reasoning` says already."""
    known = list(thoughts)
    if not any(thought.signature or thought.data for thought in known):
        return []
    return [_detail(thought, place) for place, thought in enumerate(known)]


def flat_signature(signature: str, format: str) -> str:
    """The signature where `reasoning_signature` may hold it, which has no room for a format.

    A client may hand back this field alone, so it never holds a proof that Claude would refuse.
    """
    return signature if format in ("", CLAUDE) else ""


class ReasoningBlocks:
    """The blocks of a stream, put together until they are whole."""

    def __init__(self) -> None:
        self._texts: dict[tuple[int, int], list[str]] = {}

    def add(self, event: ReasoningDelta) -> list[ReasoningDetail]:
        """The block that this piece completes, if its vendor wants to see it again."""
        key = (event.index, event.block)
        self._texts.setdefault(key, []).append(event.text)
        if not (event.signature or event.data):
            return []
        text = "".join(self._texts.pop(key))
        thought = Thought(
            text=text, signature=event.signature, data=event.data, format=event.format
        )
        return [_detail(thought, event.block)]


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
