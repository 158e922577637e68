"""Rules that hold for every backend, and run before its own."""

from typing import Final

from strowger_gateway.adapters.base import Supports
from strowger_gateway.adapters.form_repairs.search_results import SEARCH_RESULTS
from strowger_gateway.adapters.form_repairs.silent_turns import EMPTY_TURNS
from strowger_gateway.adapters.form_repairs.stream_options import UNSTREAMED_OPTIONS
from strowger_gateway.adapters.repairs.call_ids import call_ids
from strowger_gateway.adapters.repairs.foreign_items import FOREIGN_ITEMS
from strowger_gateway.adapters.repairs.pairs import PAIRS
from strowger_gateway.adapters.repairs.rule import Repair
from strowger_gateway.adapters.repairs.stops import stops
from strowger_gateway.adapters.repairs.tool_names import NAMES_OF_64
from strowger_gateway.adapters.tool_repairs.hosted_tools import HOSTED_TOOLS
from strowger_gateway.adapters.tool_repairs.named_tools import NAMED_TOOLS
from strowger_gateway.adapters.tool_repairs.same_tools import SAME_TOOLS
from strowger_gateway.adapters.tool_repairs.tool_schemas import OBJECTS
from strowger_gateway.adapters.web_search.rules import NO_OPTIONS, no_web_search

IDS: Final = call_ids("https://github.com/maximhq/bifrost/issues/5097", r".{1,256}")

_NO_SEARCH: Final = no_web_search(own=False)
_NO_FOREIGN_SEARCH: Final = no_web_search(own=True)

UNIVERSAL: Final = (
    SEARCH_RESULTS,
    FOREIGN_ITEMS,
    NO_OPTIONS,
    _NO_SEARCH,
    HOSTED_TOOLS,
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


def with_universal(supports: Supports) -> tuple[Repair, ...]:
    """Return a backend's rules after the universal ones; its own of the same name replace those."""
    own, stops = supports.repairs, supports.ranges.get("stop")
    names = {rule.name for rule in own}
    most = None if stops is None else stops.items
    last = () if most is None else (stop_limit(most),)
    first = [rule for rule in UNIVERSAL if rule.name not in names]
    if supports.extra:  # it may know fields that we do not, and types of tools
        first = [
            _NO_FOREIGN_SEARCH if rule is _NO_SEARCH else rule
            for rule in first
            if rule is not NO_OPTIONS
        ]
    return (*first, *own, *last)
