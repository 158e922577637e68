"""Existing names that are spelled like one that does not exist: typing errors."""

from collections.abc import Iterable
from typing import Final

ALIKE: Final = 0.6


def close_names(name: str, known: Iterable[str], most: int = 1, alike: float = ALIKE) -> list[str]:
    """Return up to `most` of the known names that are most like it, the best first.

    alike: how much they must be, 0 … 1 (`difflib.SequenceMatcher.ratio`).
    """
    # Most processes never meet such a name, and difflib takes 200 kB in each.
    from difflib import get_close_matches

    return get_close_matches(name, list(known), most, alike)
