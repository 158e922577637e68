"""Rules that hold for every backend, and run before its own."""

from collections.abc import Sequence
from typing import Final

from adapters.form_repairs.search_results import SEARCH_RESULTS
from adapters.form_repairs.silent_turns import EMPTY_TURNS
from adapters.form_repairs.stream_options import UNSTREAMED_OPTIONS
from adapters.repairs.call_ids import call_ids
from adapters.repairs.foreign_items import FOREIGN_ITEMS
from adapters.repairs.pairs import PAIRS
from adapters.repairs.rule import Repair
from adapters.repairs.stops import stops
from adapters.repairs.tool_names import NAMES_OF_64
from adapters.tool_repairs.named_tools import NAMED_TOOLS
from adapters.tool_repairs.same_tools import SAME_TOOLS
from adapters.tool_repairs.tool_schemas import OBJECTS

IDS: Final = call_ids("https://github.com/maximhq/bifrost/issues/5097", r".{1,256}")

UNIVERSAL: Final = (
    SEARCH_RESULTS,
    FOREIGN_ITEMS,
    EMPTY_TURNS,
    PAIRS,
    IDS,
    NAMED_TOOLS,
    SAME_TOOLS,
    NAMES_OF_64,
    OBJECTS,
    UNSTREAMED_OPTIONS,
)
"""In the order in which they run."""


def stop_limit(most: int) -> Repair:
    """Return the rule of a backend that takes so many stop strings."""
    return stops("https://github.com/BerriAI/litellm/issues/18921", most, name="stop_limit")


def with_universal(own: Sequence[Repair], most_stops: int | None = None) -> tuple[Repair, ...]:
    """Return a backend's rules after the universal ones; its own of the same name replace those.

    most_stops: how many stop strings the backend takes; `None`: any number.
    """
    names = {rule.name for rule in own}
    last = () if most_stops is None else (stop_limit(most_stops),)
    return (*[rule for rule in UNIVERSAL if rule.name not in names], *own, *last)
