"""Looks in a request for what is another vendor's own, and for the proofs that must come back."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from tests.gateway.backends.vendors.dialect import Json
from tests.switching.backends import Backend
from tests.switching.reply import Echo
from tests.switching.scene import Scene

FORMATS: Final = re.compile(r"(anthropic-claude|google-gemini|openai-responses)-v1|\bunknown:")
"""Names that the gateway writes before proofs, for its clients alone."""

READS_FORMATS: Final = frozenset({"openrouter"})
"""Vendors that have the names of formats in members of their own."""

KIN: Final = ({"anthropic", "vertex-anthropic"}, {"openai", "azure"})
"""Vendors of one API: what one of them answers, the other reads."""


class Said(Struct, frozen=True, kw_only=True):
    """An answer that the client has sent back, and how."""

    vendor: str
    scene: Scene
    echo: Echo


def is_kin(one: str, other: str) -> bool:
    return one == other or {one, other} in KIN


def of_marks(vendor: Backend, body: Json, said: Sequence[Said]) -> Iterator[str]:
    """Yield what is wrong. vendor: the one that received the body. said: what was said before."""
    text = json.dumps(body, ensure_ascii=False)
    for one in said:
        kin = is_kin(one.vendor, vendor.name)
        for proof, format in one.scene.proofs.items():
            if not kin and format not in vendor.reads and proof in text:
                yield f"a proof of {one.vendor} reaches {vendor.name}: {_around(text, proof)}"
            if kin and one.echo != "plain" and proof not in text:
                yield f"a proof of {one.vendor} does not come back: {proof}"
        for own in () if kin else one.scene.own:
            if own in text:
                yield f"what {one.vendor} has reaches {vendor.name}: {_around(text, own)}"
    if vendor.name not in READS_FORMATS and (found := FORMATS.search(text)):
        yield f"a proof of the gateway's making reaches {vendor.name}: {_around(text, found[0])}"


def _around(text: str, mark: str) -> str:
    place = text.index(mark)
    return text[max(0, place - 80) : place + len(mark) + 20]
