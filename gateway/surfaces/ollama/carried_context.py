"""The conversation of `/api/generate`, in the `context` that comes with each answer.

Ollama's is the tokens of the whole conversation, which the client returns without reading them. No
other vendor has that. So here the integers are the conversation itself, and any backend continues
it: `[MARK, size, word, word, …]`, the words being three bytes each of its UTF-8 JSON. Nothing has
to be trusted: what a client could write in it, it could also send to `/api/chat`.

Pictures are not in it, as they are not in Ollama's.
"""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec
from msgspec import DecodeError, Raw

from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import Message

MARK: Final = 0x535747
"""The first integer. No vocabulary has so many entries: a server's tokens do not begin with it."""

MOST: Final = 64 * 1024
"""Bytes of a conversation that is carried: an answer to a longer one has no context."""

_WORD: Final = 3
_Turn = tuple[Literal["system", "user", "assistant"], str]
_numbers: Final = msgspec.json.Decoder(tuple[int, ...])
_turns: Final = msgspec.json.Decoder(tuple[_Turn, ...])


def written(turns: Sequence[tuple[str, str]]) -> list[int] | None:
    """Return the context of a conversation; `None` if it is too long. turns: role and text."""
    if sum(len(text) for _, text in turns) > MOST:
        return None
    text = encode(turns)
    if len(text) > 2 * MOST:
        return None
    padded = text + b" " * (-len(text) % _WORD)
    words = [int.from_bytes(padded[at : at + _WORD]) for at in range(0, len(padded), _WORD)]
    return [MARK, len(text), *words]


def read(raw: Raw) -> tuple[Message, ...] | None:
    """Return the conversation, which may be empty; `None` for the tokens of an Ollama server.

    Raises InvalidRequest for what is neither.
    """
    try:
        numbers = _numbers.decode(raw)
    except (DecodeError, RecursionError) as exc:
        raise _wrong("must be the list of integers that came with an answer") from exc
    if not numbers:
        return ()
    if numbers[0] != MARK:
        return None
    try:
        text = b"".join([one.to_bytes(_WORD) for one in numbers[2:]])
        turns = _turns.decode(text[: numbers[1]])
    except (IndexError, OverflowError, DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise _wrong("is not as the answer had it; send it unchanged, or leave it out") from exc
    return tuple([Message(role=role, content=text) for role, text in turns])


def _wrong(told: str) -> InvalidRequest:
    return InvalidRequest(f"context {told}", param="context")
