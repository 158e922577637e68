"""The cases of Open Responses' compliance suite, in front of the bundled model and a stand-in.

https://github.com/openresponses/openresponses, src/lib/compliance-tests.ts
"""

from collections.abc import AsyncGenerator

import httpx
import pytest

from tests.gateway.backends.vendors.backend import answering
from tests.gateway.backends.vendors.dialect import Said
from tests.gateway.backends.vendors.rows import VENDORS
from tests.gateway.surfaces.responses.openai_client import (
    MADE,
    ResponsesOf,
    responses_of_every_vendor,
)
from tests.gateway.surfaces.responses.streams import SETTINGS, Json, frames, put_together

pytestmark = pytest.mark.anyio

OPENAI = next(one for one in VENDORS if one.name == "openai")
LOCATION: Json = {"type": "string", "description": "The city and state"}
WEATHER: Json = {
    "type": "function",
    "name": "weather",
    "description": "The current weather at a location",
    "parameters": {"type": "object", "properties": {"at": LOCATION}, "required": ["at"]},
}


def said(role: str, content: object) -> Json:
    return {"type": "message", "role": role, "content": content}


CASES: dict[str, tuple[Json, Said]] = {
    "basic-response": ({"input": [said("user", "Say hello in exactly 3 words.")]}, Said()),
    "system-prompt": (
        {"input": [said("system", "You are a pirate."), said("user", "Say hello.")]},
        Said(),
    ),
    "tool-calling": (
        {"input": [said("user", "What's the weather?")], "tools": [WEATHER]},
        Said(text=(), calls=MADE["single"]),
    ),
    "image-input": (
        {
            "input": [
                said(
                    "user",
                    [
                        {"type": "input_text", "text": "What do you see?"},
                        {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="},
                    ],
                )
            ]
        },
        Said(),
    ),
    "multi-turn": (
        {
            "input": [
                said("user", "My name is Alice."),
                said("assistant", "Hello Alice!"),
                said("user", "What is my name?"),
            ]
        },
        Said(),
    ),
}


@pytest.fixture(scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[ResponsesOf, None]:
    async with responses_of_every_vendor(tmp_path_factory.mktemp("run")) as found:
        yield found


async def posted(gateway: ResponsesOf, case: str, *, stream: bool) -> httpx.Response:
    body, answer = CASES[case]
    gateway.setting.plays(answering(OPENAI, answer))
    sent = {"model": "openai", "stream": stream, **body}
    async with httpx.AsyncClient(base_url=gateway.setting.gateway.url, timeout=60) as client:
        return await client.post("/v1/responses", json=sent)


@pytest.mark.parametrize("case", CASES)
async def test_a_case_has_a_whole_response(gateway: ResponsesOf, case: str) -> None:
    response = (await posted(gateway, case, stream=False)).json()

    kinds = [one["type"] for one in response["output"]]
    assert response.keys() >= SETTINGS
    assert (response["status"], response["error"], response["store"]) == ("completed", None, False)
    assert kinds == ["function_call" if case == "tool-calling" else "message"]


@pytest.mark.parametrize("case", CASES)
async def test_a_case_has_its_events(gateway: ResponsesOf, case: str) -> None:
    answer = await posted(gateway, case, stream=True)

    events = frames(answer.content)
    items = put_together(events)
    kinds = [one["type"] for one in events]
    response = events[-1]["response"]
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert isinstance(response, dict)
    assert response.keys() >= SETTINGS
    assert response["output"] == items
    assert kinds[-1] == "response.completed"
    what = "function_call_arguments" if case == "tool-calling" else "output_text"
    assert {f"response.{what}.delta", f"response.{what}.done"} <= {*map(str, kinds)}
