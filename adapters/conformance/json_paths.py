"""Maps every value of a JSON body to its path.

`tools[].function.name` is the name in every entry of `tools`. A tensor of the inference protocol
is under its name, `inputs[temperature]`.
https://github.com/kserve/open-inference-protocol/blob/main/specification/protocol/inference_rest.md
"""

from collections.abc import Iterator, Mapping
from typing import cast

import msgspec

from strowger_gateway.adapters.triton.open_inference_protocol import json_end

Places = Mapping[str, tuple[object, ...]]
"""Path -> the values at that path, in the body's order."""


def places(body: bytes) -> Places:
    """Return the values by path, without bytes that follow the JSON (binary tensors)."""
    return places_of(msgspec.json.decode(body[: json_end(body)]), "")


def places_of(value: object, path: str) -> Places:
    """Return the values by path of a JSON value at `path`."""
    found: dict[str, tuple[object, ...]] = {}
    for place, leaf in _leaves(value, path):
        found[place] = (*found.get(place, ()), leaf)
    return found


def within(found: Places, place: str) -> Places:
    """Return the values at a place and inside it."""
    return {path: values for path, values in found.items() if leads(path, place)}


def changed(before: Places, after: Places) -> frozenset[str]:
    """Return the paths at which the bodies differ."""
    return frozenset(
        path for path in before.keys() | after.keys() if before.get(path) != after.get(path)
    )


def leads(path: str, place: str) -> bool:
    """Return whether the path is the place, or inside it."""
    return path.startswith(place) and path[len(place) : len(place) + 1] in ("", ".", "[")


def parent(place: str) -> str:
    """Return `messages[].content[]` for `messages[].content[].image_url`, "" at the top level."""
    return place.rpartition(".")[0]


def _leaves(value: object, path: str) -> Iterator[tuple[str, object]]:
    """Yield the leaves; an empty object or list is one."""
    if isinstance(value, dict) and value:
        for name, inner in cast("dict[str, object]", value).items():
            yield from _leaves(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and value:
        for inner in cast("list[object]", value):
            yield from _leaves(inner, f"{path}[{_tensor(inner)}]")
    else:
        yield path, value


def _tensor(value: object) -> str:
    """Return the name of a tensor, "" for anything else."""
    if isinstance(value, dict) and "datatype" in value:
        return str(cast("dict[str, object]", value)["name"])
    return ""
