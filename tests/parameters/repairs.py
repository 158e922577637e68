"""The table of repair rules in docs/parameters.md."""

from collections.abc import Callable, Iterator

from strowger_gateway.adapters.base import Supports
from strowger_gateway.adapters.form_repairs.prompt_cache import PROMPT_CACHE
from strowger_gateway.adapters.repairs.rule import Repair
from strowger_gateway.adapters.universal_repairs import UNIVERSAL, stop_limit

HEAD = """## Repairs

What the gateway changes in a request that a backend would refuse although it could answer it
([routing.md](routing.md#repairs)). `x-gateway-repairs` names the rule and the path. Rules run in
the order of the adapter's own list; one without backends runs for all. A *constraint* is not
enforced after the repair, so that backends without the loss come first, and `on_repair: reject`
refuses it. Some rules hold for some models only.

| rule | what it does | may lose | backends | source |
|---|---|---|---|---|"""


def repairs(names: tuple[str, ...], supports: Callable[[str], Supports]) -> str:
    """Return the section. names: of all adapters."""
    found: dict[tuple[str, str, str, str], list[str]] = {}
    for name in names:
        for row in _rows(_own(supports(name))):
            found.setdefault(row, []).append(name)
    lines = [_line(row, "every backend") for row in _rows(UNIVERSAL)]
    lines += [_line(row, ", ".join(sorted(found[row]))) for row in sorted(found)]
    return "\n".join([HEAD, *lines, ""])


def _own(found: Supports) -> tuple[Repair, ...]:
    """Return the rules that not every backend has."""
    stops = found.ranges.get("stop")
    own = found.repairs if found.cache_marks is None else (*found.repairs, PROMPT_CACHE)
    if stops is None or stops.items is None:
        return own
    return (*own, stop_limit(stops.items))


def _rows(rules: tuple[Repair, ...]) -> Iterator[tuple[str, str, str, str]]:
    for rule in rules:
        yield rule.name, rule.about, rule.loss, rule.source


def _line(row: tuple[str, str, str, str], backends: str) -> str:
    name, about, loss, source = row
    lost = "" if loss == "none" else f"a {loss}"
    return f"| `{name}` | {about} | {lost} | {backends} | <{source}> |"
