"""What guardrails look at is every field that can hold a text, or a client's JSON."""

import inspect
from types import ModuleType

import pytest
from msgspec import Raw, Struct, UnsetType

from strowger_gateway.gateway.content.hooks.held_values import NUMBERS, SCALARS, holding
from strowger_gateway.schemas import messages, requests, sampling


def structs(module: ModuleType) -> list[type[Struct]]:
    found = [one for _, one in inspect.getmembers(module, inspect.isclass)]
    return [one for one in found if issubclass(one, Struct) and one is not Struct]


KINDS = sorted(
    {kind for module in (messages, requests, sampling) for kind in structs(module)},
    key=lambda kind: kind.__name__,
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_field_of_texts_or_json_is_one_that_is_looked_at(kind: type[Struct]) -> None:
    texts, read = holding(kind, NUMBERS)
    json, _ = holding(kind, SCALARS)

    left_out = {
        name: hint
        for name, hint in inspect.get_annotations(kind, eval_str=True).items()
        if name in kind.__struct_fields__ and name not in texts
    }
    written = {name: str(hint) for name, hint in left_out.items()}
    assert [name for name, hint in written.items() if "str" in hint or "Raw" in hint] == []
    assert set(json) <= set(texts)
    assert callable(read)


class Held(Struct):
    """One field of each kind."""

    name: str
    count: int | UnsetType
    share: float | None
    sizes: dict[str, int]
    bias: dict[int, float]
    own: Raw | None
    inside: "tuple[Held, ...]"
    words: tuple[str, ...]


def test_numbers_hold_nothing_and_texts_hold_no_json() -> None:
    assert holding(Held, NUMBERS)[0] == ("name", "sizes", "own", "inside", "words")
    names, read = holding(Held, SCALARS)
    assert names == ("own", "inside")
    held = Held("a", 1, 0.5, {"b": 2}, {1: 0.5}, Raw(b"{}"), (), ("c",))
    assert read(held) == (Raw(b"{}"), ())
