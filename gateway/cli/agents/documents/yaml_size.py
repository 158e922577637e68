"""The size of a YAML text with its aliases written out, which a short text can make endless."""

from typing import Final, cast

import yaml

from strowger_gateway.gateway.cli.agents.documents.document import Unchangeable

LARGEST: Final = 100_000
"""Values. Settings files of agents have some hundred."""


def composed(text: str) -> yaml.Node | None:
    """Return the nodes of a text, `None` of an empty one.

    Raises Unchangeable for invalid YAML, and for aliases that name themselves or make it too large.
    """
    try:
        found = cast("yaml.Node | None", yaml.compose(text, yaml.SafeLoader))  # pyright: ignore[reportUnknownMemberType] - it has no types
        if found is not None and _size(found, {}) > LARGEST:
            raise Unchangeable(f"has more than {LARGEST:,} values with its aliases written out")
    except (yaml.YAMLError, ValueError, RecursionError) as exc:
        raise broken(exc) from exc
    return found


def broken(exc: Exception) -> Unchangeable:
    return Unchangeable(f"is not valid YAML: {' '.join(str(exc).split())}")


def _size(node: yaml.Node, seen: dict[int, int]) -> int:
    if id(node) in seen:
        if not (known := seen[id(node)]):
            raise Unchangeable("has an alias that names itself")
        return known
    seen[id(node)] = 0
    inner: list[yaml.Node] = []
    if isinstance(node, yaml.MappingNode):
        for key, value in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
            inner += [key, value]
    elif isinstance(node, yaml.SequenceNode):
        inner = cast("list[yaml.Node]", node.value)
    seen[id(node)] = 1 + sum(_size(one, seen) for one in inner)
    return seen[id(node)]
