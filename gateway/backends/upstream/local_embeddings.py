"""Convert an engine's vectors from frames to the format that the client requested."""

import sys
from array import array
from base64 import b64encode
from collections.abc import Sequence

from strowger_gateway.gateway.backends.upstream.base import Call
from strowger_gateway.local_engine.protocol.frames import Vectors
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.events import Usage

FLOAT_BYTES = 4


def to_embeddings(pieces: Sequence[Vectors], call: Call, *, base64: bool) -> Embeddings:
    """pieces: all frames of an answer, at least one. base64: see EmbeddingsRequest."""
    values = b"".join(piece.values for piece in pieces)
    size = pieces[0].width * FLOAT_BYTES
    form = _as_base64 if base64 else _as_numbers
    return Embeddings(
        vectors=tuple(form(values[at : at + size]) for at in range(0, len(values), size)),
        model=call.model,
        id=call.request_id,
        usage=Usage(prompt_tokens=pieces[0].tokens, total_tokens=pieces[0].tokens),
    )


def _as_base64(vector: bytes) -> str:
    return b64encode(vector).decode("ascii")


def _as_numbers(vector: bytes) -> list[float]:
    values = array("f", vector)
    if sys.byteorder == "big":
        values.byteswap()
    return values.tolist()
