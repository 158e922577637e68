"""Functions with alternatives at the top of their schema reach OpenAI's models as one object."""

from collections.abc import AsyncGenerator
from typing import cast

import pytest

from tests.adapters.repairs.one_of_each import Json, Rig, one_of_each, repairs

pytestmark = pytest.mark.anyio

TEXT: Json = {"type": "string"}
A: Json = {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("forms")
    async with one_of_each(
        folder, "openai", "azure", "openai-responses", "openrouter", "vllm"
    ) as one:
        yield one


async def schema(rig: Rig, model: str, parameters: Json) -> tuple[object, list[str]]:
    """Return the schema that the vendor gets, and what was repaired."""
    function: Json = {"name": "f", "parameters": parameters}
    answer = await rig.chat(model, tools=[{"type": "function", "function": function}])
    assert answer.status_code == 200, answer.text
    (tool,) = cast("list[Json]", rig.sent["tools"])
    return cast("Json", tool.get("function", tool))["parameters"], repairs(answer)


@pytest.mark.parametrize(
    "model", ["openai", "azure", "openai-responses", "openrouter/openai/gpt-5"]
)
@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
async def test_forms_are_one_object(rig: Rig, model: str, keyword: str) -> None:
    forms = [A, {"type": "object", "properties": {"b": TEXT}}]
    sent, made = await schema(rig, model, {"type": "object", keyword: forms})

    assert isinstance(sent, dict)
    assert sent["type"] == "object"
    assert sent["properties"] == {"a": TEXT, "b": TEXT}
    assert keyword not in sent
    assert any(one.endswith(":one_form") for one in made)


async def test_a_property_of_two_forms_fits_either(rig: Rig) -> None:
    forms = [
        {"properties": {"kind": {"const": kind}, kind: TEXT}, "required": ["kind", kind]}
        for kind in ("a", "b", "c")
    ]
    sent, _ = await schema(rig, "openai", {"type": "object", "oneOf": forms})

    kinds = {"anyOf": [{"const": "a"}, {"const": "b"}, {"const": "c"}]}
    assert isinstance(sent, dict)
    assert sent["properties"] == {"kind": kinds, "a": TEXT, "b": TEXT, "c": TEXT}
    assert sent["required"] == ["kind"]
    assert sent["description"] == "Required are [kind, a] or [kind, b] or [kind, c]."


async def test_a_reference_at_the_top_is_what_it_stands_for(rig: Rig) -> None:
    parameters: Json = {"$ref": "#/$defs/A", "$defs": {"A": A}}
    sent, _ = await schema(rig, "openai", parameters)

    assert sent == {**A, "$defs": {"A": A}}


@pytest.mark.parametrize("keyword", ["not", "enum", "const"])
async def test_what_else_is_refused_at_the_top_is_left_out(rig: Rig, keyword: str) -> None:
    value = [{"a": "1"}] if keyword == "enum" else {"a": "1"}
    sent, _ = await schema(rig, "openai", {**A, keyword: value})

    assert sent == A


async def test_servers_of_open_models_get_the_forms(rig: Rig) -> None:
    either: Json = {"type": "object", "properties": {}, "anyOf": [A]}
    sent, made = await schema(rig, "vllm", either)

    assert sent == either
    assert made == []
