"""Requests of the Responses API: what becomes of items, and errors that name the field."""

import json
from pathlib import Path

import httpx
import openai
import pytest
from msgspec import UNSET

from strowger_gateway.gateway.surfaces.responses.parse import parse_response
from strowger_gateway.gateway.surfaces.routes import parse_any
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import (
    OPENAI,
    FunctionTool,
    Message,
    OpaquePart,
    OpaqueTool,
    Thought,
    ToolCall,
)
from strowger_gateway.schemas.requests import ChatRequest
from tests.gateway.serving import serving
from tests.stand_ins.provider import Answer, Received, provider

USER = {"role": "user", "content": "hi"}
WEATHER = {"type": "function", "name": "weather", "parameters": {"type": "object"}}
TEXT = {"type": "input_text"}
IMAGE = {"type": "input_image"}
CLOCK = {"type": "function", "name": "clock"}
NONE: list[object] = []


def parsed(**fields: object) -> ChatRequest:
    return parse_response(json.dumps({"model": "m", "input": "hi", **fields}).encode())


def call(id: str, name: str = "clock") -> dict[str, object]:
    return {"type": "function_call", "call_id": id, "name": name, "arguments": "{}"}


def output(id: str) -> dict[str, object]:
    return {"type": "function_call_output", "call_id": id, "output": "done"}


def made(id: str) -> ToolCall:
    return ToolCall(id=id, name="clock", arguments="{}")


def thought(text: str) -> dict[str, object]:
    return {"type": "reasoning", "summary": [{"type": "summary_text", "text": text}]}


def test_items_of_one_turn_of_the_model_are_one_message() -> None:
    said = {"type": "message", "role": "assistant", "content": "I look."}

    request = parsed(
        instructions="Be brief.",
        input=[
            USER,
            thought("Hm"),
            said,
            call("a"),
            call("b"),
            output("a"),
            output("b"),
            said,
            said,
        ],
    )

    assert request.messages == (
        Message(role="system", content="Be brief."),
        Message(role="user", content="hi"),
        Message(
            role="assistant",
            content="I look.",
            thoughts=(Thought(text="Hm"),),
            tool_calls=(made("a"), made("b")),
        ),
        Message(role="tool", tool_call_id="a", content="done"),
        Message(role="tool", tool_call_id="b", content="done"),
        Message(role="assistant", content="I look."),
        Message(role="assistant", content="I look."),
    )


def test_reasoning_after_an_answer_belongs_to_it() -> None:
    said = {"type": "message", "role": "assistant", "content": "I look."}

    request = parsed(input=[USER, thought("Hm"), said, thought("So"), USER, thought("alone")])

    assert [(one.role, one.content, one.thoughts) for one in request.messages] == [
        ("user", "hi", ()),
        ("assistant", "I look.", (Thought(text="Hm"), Thought(text="So"))),
        ("user", "hi", ()),
        ("assistant", None, (Thought(text="alone"),)),
    ]


def test_reasoning_after_an_answer_and_before_calls_belongs_to_the_calls() -> None:
    said = {"type": "message", "role": "assistant", "content": "I look."}

    request = parsed(input=[USER, said, thought("So"), call("a"), output("a")])

    assert [(one.content, one.thoughts, one.tool_calls) for one in request.messages[1:3]] == [
        ("I look.", (), ()),
        (None, (Thought(text="So"),), (made("a"),)),
    ]


def test_reasoning_that_openai_encrypted_is_kept_with_its_id_and_its_summary() -> None:
    item = {**thought("Hm"), "id": "rs_1", "encrypted_content": "gAAA"}
    silent = {"type": "reasoning", "id": "rs_2", "summary": NONE, "encrypted_content": "gBBB"}

    request = parsed(input=[USER, item, silent, call("a"), output("a")])

    assert request.messages[1].thoughts == (
        Thought(text="Hm", signature="rs_1.gAAA", format=OPENAI),
        Thought(data="rs_2.gBBB", format=OPENAI),
    )


def test_plain_requests_take_no_longer_way() -> None:
    request = parsed(
        input=[{"type": "message", **USER}], metadata={"a": "b"}, store=False, truncation="disabled"
    )

    assert request.extra == {}
    assert request.metadata is UNSET
    assert not request.nested


def test_a_file_is_openais_file_part() -> None:
    data = "data:application/pdf;base64,QQ=="
    file = {"type": "input_file", "filename": "a.pdf", "file_data": data}

    (message,) = parsed(input=[{"role": "user", "content": [file]}]).messages

    assert isinstance(message.content, tuple)
    (part,) = message.content
    assert isinstance(part, OpaquePart)
    assert json.loads(bytes(part.raw)) == {
        "type": "file",
        "file": {"file_data": data, "filename": "a.pdf"},
    }


@pytest.mark.parametrize(
    ("choice", "mode", "names"),
    [
        ("none", "none", ["weather", "clock", ""]),
        ("required", "required", ["weather", "clock", ""]),
        ({"type": "function", "name": "clock"}, "named", ["weather", "clock", ""]),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [CLOCK, {"type": "web_search"}]},
            "required",
            ["clock", ""],
        ),
        ({"type": "web_search"}, "opaque", ["weather", "clock", ""]),
    ],
)
def test_a_tool_choice_selects_among_the_tools(choice: object, mode: str, names: list[str]) -> None:
    request = parsed(tools=[WEATHER, CLOCK, {"type": "web_search"}], tool_choice=choice)

    assert request.tools is not UNSET
    assert request.tool_choice is not UNSET
    assert request.tool_choice.mode == mode
    found = [one.name if isinstance(one, FunctionTool) else "" for one in request.tools]
    assert found == names
    assert [one.type for one in request.tools if isinstance(one, OpaqueTool)] == ["web_search"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"input": 7}, "input"),
        ({"input": [{"role": "robot", "content": "hi"}]}, "input[0].role"),
        (
            {"input": [USER, {**CLOCK, "type": "function_call", "arguments": "{}"}]},
            "input[1].call_id",
        ),
        ({"input": [{"role": "user", "content": [TEXT]}]}, "input[0].content[0].text"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
            "input[0].content[0].image_url",
        ),
        (
            {"input": [{"role": "user", "content": [{**IMAGE, "image_url": "ftp://x"}]}]},
            "input[0].content[0].image_url",
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "input_file", "filename": "a"}]}]},
            "input[0].content[0].file_data",
        ),
        ({"instructions": 7}, "instructions"),
        ({"tools": [{"type": "function"}]}, "tools[0].name"),
        ({"tools": [{"type": "function", "name": "f", "parameters": 7}]}, "tools[0].parameters"),
        ({"tools": [{"type": "custom", "name": "f", "format": 7}]}, "tools[0].format"),
        (
            {"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "web_search"}]}]},
            "tools[0].tools[0]",
        ),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": "any"}, "tool_choice"),
        ({"tools": [CLOCK], "tool_choice": {"type": "function", "name": "x"}}, "tool_choice.name"),
        ({"tools": [CLOCK], "tool_choice": {"type": "function"}}, "tool_choice.name"),
        ({"tools": [CLOCK], "tool_choice": {"type": "mcp"}}, "tool_choice"),
        ({"tools": [CLOCK], "tool_choice": {"type": "allowed_tools"}}, "tool_choice.tools"),
        ({"text": {"format": {"type": "json_schema", "name": "a"}}}, "text.format.schema"),
        ({"text": {"format": {"type": "xml"}}}, "text.format.type"),
        ({"reasoning": {"effort": 7}}, "reasoning.effort"),
        ({"metadata": 7}, "metadata"),
        ({"prompt_cache_key": 7}, "prompt_cache_key"),
        ({"truncation": "middle"}, "truncation"),
        ({"top_logprobs": 21}, "top_logprobs"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
    ],
)
def test_an_invalid_field_is_named(fields: dict[str, object], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parsed(**fields)

    assert caught.value.param == param


def test_explain_knows_the_body_by_its_own_fields() -> None:
    body = json.dumps({"model": "m", "input": "hi", "instructions": "Be brief."}).encode()

    assert parse_any(body).path == "/v1/responses"


ROUTES = """
providers: [{{name: p, adapter: openai, api_key: k, base_url: "{url}"}}]
models:
  - name: chat
    backends: [{{provider: p, model: all}}]
    when: [{{metadata: {{team: red}}, backends: [p/red]}}]
"""


async def answer_of(request: Received, answer: Answer) -> None:
    if request.json.get("model") == "all":
        code = "context_length_exceeded"
        error = {"message": "maximum context length is 9 tokens", "code": code, "param": "messages"}
        await answer.json({"error": error}, 400)
        return
    choice = {"index": 0, "message": {"role": "assistant", "content": "a"}, "finish_reason": "stop"}
    await answer.json({"id": "1", "model": "red", "choices": [choice]})


@pytest.mark.anyio
async def test_metadata_selects_a_backend_and_errors_have_this_apis_names(tmp_path: Path) -> None:
    async with (
        provider(answer_of) as remote,
        serving(ROUTES.format(url=remote.base_url), tmp_path) as gateway,
        openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="x", max_retries=0) as client,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as web,
    ):
        found = await client.responses.create(model="chat", input="hi", metadata={"team": "red"})
        with pytest.raises(openai.BadRequestError) as caught:
            await client.responses.create(model="chat", input="hi")
        plain = await web.post("/v1/responses", json={"model": "none", "input": "hi"})

    assert (found.model, found.metadata) == ("red", {"team": "red"})
    assert "metadata" not in remote.requests[0].json
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "input")
    assert plain.status_code == 404
    assert plain.json()["error"].keys() == {"message", "type", "param", "code"}
