"""Rules that hold for every backend, and run before its own."""

from collections.abc import Sequence
from typing import Final

from adapters.repairs.call_ids import call_ids
from adapters.repairs.foreign_items import FOREIGN_ITEMS
from adapters.repairs.pairs import PAIRS
from adapters.repairs.rule import Repair
from adapters.repairs.tool_names import NAMES_OF_64

IDS: Final = call_ids("https://github.com/maximhq/bifrost/issues/5097", r".{1,256}")

UNIVERSAL: Final = (FOREIGN_ITEMS, PAIRS, IDS, NAMES_OF_64)
"""In the order in which they run."""


def with_universal(own: Sequence[Repair]) -> tuple[Repair, ...]:
    """Return a backend's rules after the universal ones; its own of the same name replace those."""
    names = {rule.name for rule in own}
    return (*[rule for rule in UNIVERSAL if rule.name not in names], *own)
