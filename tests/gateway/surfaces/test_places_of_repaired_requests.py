"""An error about a repaired request names the place in the client's request, or none."""

from collections.abc import AsyncGenerator
from typing import cast

import pytest

from tests.adapters.repairs.one_of_each import Json, Rig, one_of_each
from tests.stand_ins.provider import Answer, Behaviour, Received

pytestmark = pytest.mark.anyio

IMAGE: Json = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
USER: Json = {"role": "user", "content": "What is on it?"}
THANKS: Json = {"role": "user", "content": "Thanks."}


def call(*ids: str) -> Json:
    function = {"name": "look", "arguments": "{}"}
    calls = [{"id": one, "type": "function", "function": function} for one in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(id: str, content: object = "A cat.") -> Json:
    return {"role": "tool", "tool_call_id": id, "content": content}


def tool(name: str) -> Json:
    schema: Json = {"type": "object", "properties": {}}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


IMAGES: Json = {"messages": [USER, call("call00001"), result("call00001", [IMAGE]), THANKS]}
NO_CALL: Json = {"messages": [USER, result("call00009"), THANKS, {**THANKS, "content": "More."}]}
TWO_RULES: Json = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "system", "content": "Be kind."},
        USER,
        THANKS,
    ]
}
SAME: Json = {"messages": [USER], "tools": [tool("look"), tool("look"), tool("read")]}


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    async with one_of_each(tmp_path_factory.mktemp("places"), "openai", "mistral", "vllm") as one:
        yield one


def rejecting(param: str) -> Behaviour:
    async def behave(request: Received, answer: Answer) -> None:
        told: Json = {"message": "too odd", "type": "invalid_request_error", "param": param}
        await answer.json({"error": told}, 400)

    return behave


@pytest.mark.parametrize(
    ("model", "body", "theirs", "ours"),
    [
        # An image of a result, behind the text that the gateway put before it.
        ("openai", IMAGES, "messages[3].content[1].image_url", "messages[2].content[0].image_url"),
        ("openai", IMAGES, "messages.3.content.1.image_url", "messages[2].content[0].image_url"),
        ("openai", IMAGES, "messages[3].content[0].text", "messages[].content[].text"),
        ("openai", IMAGES, "messages[2].content", "messages[2].content"),
        ("openai", IMAGES, "messages[4].content", "messages[3].content"),
        ("openai", IMAGES, "messages[1].tool_calls[0].id", "messages[1].tool_calls[0].id"),
        # The same at a server that wants an answer before the user's next message.
        ("mistral", IMAGES, "messages[3].content", "messages[].content"),
        # A result without its call is not sent, or not as a result.
        ("openai", NO_CALL, "messages[3].content", "messages[3].content"),
        # Two system messages become one.
        ("vllm/qwen3", TWO_RULES, "messages[0].content", "messages[].content"),
        ("vllm/qwen3", TWO_RULES, "messages[1].content", "messages[2].content"),
        ("vllm/qwen3", TWO_RULES, "messages[2].content", "messages[3].content"),
        # A tool that is offered twice is sent once.
        ("openai", SAME, "tools[1].function.name", "tools[2].function.name"),
        # What nobody repairs stays where it is.
        ("openai", {"messages": [USER, THANKS]}, "messages[1].content", "messages[1].content"),
        ("openai", {"messages": [USER, THANKS]}, "input[1].content", "input[1].content"),
    ],
)
async def test_an_error_points_where_the_client_wrote_it(
    rig: Rig, model: str, body: Json, theirs: str, ours: str
) -> None:
    usual, rig.vendor.behaviour = rig.vendor.behaviour, rejecting(theirs)
    try:
        answer = await rig.chat(model, **body)
    finally:
        rig.vendor.behaviour = usual

    assert answer.status_code == 400, answer.text
    found = cast("Json", answer.json()["error"])["param"]
    assert found == ours, (rig.sent, answer.headers.get("x-gateway-repairs"))
