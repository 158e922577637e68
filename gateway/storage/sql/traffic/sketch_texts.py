"""Sketches as texts of the database."""

from collections.abc import Mapping
from typing import Final

import msgspec

from strowger_gateway.gateway.storage.sql.traffic.counting import QuantileSketch

_flat: Final = msgspec.json.Decoder(list[int])


def text_of(counts: Mapping[int, int]) -> str:
    """Counts as a JSON list of index, count, index, count, and so on; "" without any."""
    if not counts:
        return ""
    return msgspec.json.encode([number for pair in counts.items() for number in pair]).decode()


def merge_text(sketch: QuantileSketch, text: str) -> None:
    """Add what `text_of` has made of other counts. Raises msgspec.DecodeError."""
    if not text:
        return
    numbers = iter(_flat.decode(text))
    sketch.merge(dict(zip(numbers, numbers, strict=True)))
