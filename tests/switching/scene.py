"""A vendor's answer of one turn, whole and streamed, and what of it is the vendor's own."""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

from tests.gateway.backends.vendors.dialect import Json

SceneName = Literal["calls", "thought", "cited", "pictured"]

CALLS: Final[Sequence[tuple[str, Json]]] = (
    ("weather", {"city": "Zürich", "days": [1, 2]}),
    ("clock", {}),
)
"""The calls of every scene `calls`: two at once, the second without arguments."""

CITED: Final = "It is 19 degrees."
"""The text of every scene `cited`."""

ALONE: Final = ""
"""The format of a proof that no other vendor reads."""


class Scene(Struct, frozen=True, kw_only=True):
    """An answer. text: of the assistant. thought: its readable reasoning.

    proofs: signatures and encrypted reasoning -> their format, `ALONE` for the vendor's own.
    sealed: those of the proofs that are reasoning which nobody else can read.
    own:    other strings that must not reach another vendor.
    more:   others that may, in members that it knows: citations and images.
    """

    name: SceneName
    whole: Json
    streamed: Sequence[bytes]
    text: str
    thought: str = ""
    calls: Sequence[tuple[str, Json]] = ()
    proofs: Mapping[str, str] = {}
    sealed: Sequence[str] = ()
    own: Sequence[str] = ()
    more: Sequence[str] = ()


def proof(seed: str) -> str:
    """Return a string that looks like a vendor's signature, and is the same for the same seed."""
    return base64.b64encode(f"\x12\xaa\x01\n{seed} {seed[::-1]} {seed}".encode()).decode()


def halves(text: str) -> list[str]:
    """Return the text in two pieces, [] if it is empty."""
    middle = len(text) // 2
    return [one for one in (text[:middle], text[middle:]) if one]


def compact(value: object) -> str:
    """Return JSON as models write arguments: without escapes."""
    return json.dumps(value, ensure_ascii=False)
