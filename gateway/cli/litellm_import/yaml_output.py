"""Writes the translated configuration as YAML with a comment before each commented entry."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

COMMENT = "#"
"""Key of a mapping whose value is the comment before the mapping."""


def document(config: Mapping[str, object]) -> str:
    """Return YAML. Text is quoted, so that YAML never reads it as another type."""
    return "\n".join(_mapping(config, "")) + "\n"


def _mapping(value: Mapping[str, object], indent: str) -> Iterator[str]:
    for key, one in value.items():
        if key == COMMENT:
            continue
        head = f"{indent}{key if key.isidentifier() else json.dumps(key, ensure_ascii=False)}:"
        if isinstance(one, Mapping) and one:
            inner = cast("Mapping[str, object]", one)
            if COMMENT in inner:
                yield f"{indent}# {inner[COMMENT]}"
            yield head
            yield from _mapping(inner, indent + "  ")
        elif isinstance(one, Sequence) and not isinstance(one, str) and one:
            items = cast("Sequence[object]", one)
            if not all(
                isinstance(item, Mapping) and len(cast("Mapping[str, object]", item))
                for item in items
            ):
                yield f"{head} [{', '.join(map(_scalar, items))}]"
                continue
            yield head
            for item in items:
                yield from _item(cast("Mapping[str, object]", item), indent + "  ")
        else:
            yield f"{head} {_scalar(cast('object', one))}"


def _item(value: Mapping[str, object], indent: str) -> Iterator[str]:
    if COMMENT in value:
        yield f"{indent}# {value[COMMENT]}"
    lines = list(_mapping(value, indent + "  "))
    first = next(place for place, line in enumerate(lines) if not line.lstrip().startswith("#"))
    lines[first] = f"{indent}- {lines[first].lstrip()}"
    yield from lines


def _scalar(value: object) -> str:
    return json.dumps(value, ensure_ascii=True)
