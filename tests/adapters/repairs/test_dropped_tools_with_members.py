"""Nested fields of the tools that remain are found after other tools were dropped."""

from pathlib import Path

import pytest

from tests.adapters.repairs.one_of_each import Json, dropped, one_of_each

pytestmark = pytest.mark.anyio

SEARCH: Json = {"type": "web_search", "external_web_access": False}
FUNCTION: Json = {
    "type": "function",
    "name": "f",
    "parameters": {"type": "object", "properties": {}},
    "x_note": "n",
}
CLAUDES: Json = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
CLAUDES_FUNCTION: Json = {"name": "f", "input_schema": {"type": "object"}, "x_note": "n"}


@pytest.mark.parametrize("model", ["openai", "mistral", "gemini", "bedrock", "ollama"])
@pytest.mark.parametrize("searching_first", [True, False])
async def test_a_hosted_tool_with_members_is_dropped_without_an_error_of_ours(
    tmp_path: Path, model: str, searching_first: bool
) -> None:
    async with one_of_each(tmp_path, model, more=", on_unsupported: drop") as rig:
        tools = [SEARCH, FUNCTION] if searching_first else [FUNCTION, SEARCH]
        asked = await rig.responses(model, tools=tools)
        claudes = [CLAUDES, CLAUDES_FUNCTION] if searching_first else [CLAUDES_FUNCTION, CLAUDES]
        said = await rig.messages(model, tools=claudes)

    assert (asked.status_code, said.status_code) == (200, 200), (asked.text, said.text)
    for answer in (asked, said):
        assert "f" in rig.vendor.requests[-1].body.decode()
        assert ("tools[].web_search" in dropped(answer)) == (model != "gemini")
        assert not any("tools.opaque" in one for one in dropped(answer))
