"""Where prices come from: the operator's rows, and the catalogue unless it is turned off.

`prices` is a list of rows, or a mapping with a source of further prices.
"""

from typing import Literal

from strowger_gateway.gateway.config.problems import Found, Problems, nearest
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.yaml_document import Tree

PricesFrom = Literal["rows", "catalogue"]
_KEYS = ("from", "rows")
_FROM = "from"


def price_source(config: Config, asked: PricesFrom, problems: Problems) -> PricesFrom:
    """Return where prices come from that are not in `prices`. asked: by `prices.from`."""
    if config.price_catalogue:
        return "catalogue"
    if asked == "catalogue":
        problems.add(
            ("price_catalogue",), "is false, but prices.from is catalogue; remove one of the two"
        )
    return "rows"


def split_prices(tree: Tree, problems: Problems) -> tuple[Tree, PricesFrom]:
    """Return the tree with `prices` as a list, and where the file says that others come from."""
    prices = tree.get("prices") if isinstance(tree, dict) else None
    if not isinstance(tree, dict) or not isinstance(prices, dict):
        return tree, "rows"
    for key in prices:
        if key not in _KEYS:
            problems.add(("prices", key), "unknown key", nearest(key, _KEYS, "known keys:"))
    source = prices.get(_FROM)
    if source is None:
        problems.add(("prices", _FROM), 'is missing; give "catalogue"')
    elif source != "catalogue":
        problems.add(("prices", _FROM), 'expected "catalogue", found ', Found(source))
    return {**tree, "prices": prices.get("rows", [])}, "catalogue"
