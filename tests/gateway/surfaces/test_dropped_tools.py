"""Where tools of another vendor are dropped, a choice of one of them is dropped as well."""

from pathlib import Path
from typing import cast

import httpx
import pytest

from tests.gateway.serving import one_model, serving
from tests.stand_ins.provider import answers, provider

pytestmark = pytest.mark.anyio

Json = dict[str, object]
SEARCH: Json = {"type": "web_search"}
CLAUDES: Json = {"type": "web_search_20260209", "name": "web_search"}
CLOCK: Json = {"type": "function", "name": "clock", "parameters": {"type": "object"}}
CLAUDES_CLOCK: Json = {"name": "clock", "input_schema": {"type": "object"}}
RESPONSES: Json = {"input": "hi"}
MESSAGES: Json = {"max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.parametrize(
    ("path", "body", "left"),
    [
        ("/v1/responses", {"tools": [SEARCH, CLOCK], "tool_choice": SEARCH}, ["clock"]),
        ("/v1/responses", {"tools": [SEARCH], "tool_choice": "required"}, []),
        (
            "/v1/messages",
            {
                "tools": [CLAUDES, CLAUDES_CLOCK],
                "tool_choice": {"type": "tool", "name": "web_search"},
            },
            ["clock"],
        ),
        ("/v1/messages", {"tools": [CLAUDES], "tool_choice": {"type": "any"}}, []),
    ],
)
async def test_a_choice_of_a_dropped_tool_does_not_go_upstream(
    tmp_path: Path, path: str, body: Json, left: list[str]
) -> None:
    given = {**(RESPONSES if path == "/v1/responses" else MESSAGES), **body, "model": "chat"}
    async with provider(answers) as server:
        config = one_model(f"{server.origin}/v1", model_more="    on_unsupported: drop")
        async with (
            serving(config, tmp_path) as gateway,
            httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
        ):
            answer = await client.post(path, json=given)

        (request,) = server.requests
    tools = cast("list[dict[str, Json]]", request.json.get("tools", []))
    assert answer.status_code == 200, answer.text
    assert [one["function"]["name"] for one in tools] == left
    assert "tool_choice" not in request.json
    assert {"tool_choice", "tools.opaque"} <= set(
        answer.headers["x-gateway-dropped-params"].split(", ")
    )
