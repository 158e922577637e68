"""Every vendor behind the gateway gives clients of the Responses API the same result."""

import json
from collections.abc import AsyncGenerator
from typing import Literal

import httpx
import openai
import pydantic
import pytest
from openai.types.responses import Response

from tests.gateway.backends.vendors.dialect import USAGE, Call, Json, Said, dicts
from tests.gateway.backends.vendors.rows import VENDORS, Vendor, of_every_dialect
from tests.gateway.surfaces.responses.openai_client import (
    HI,
    MADE,
    PROOF,
    TOOLS,
    ResponsesOf,
    fed_back,
    responses_of_every_vendor,
    returned,
)

REFUSED = (openai.BadRequestError, openai.PermissionDeniedError, openai.NotFoundError)
pytestmark = pytest.mark.anyio

NONE: list[Json] = []
PIXEL = "iVBORw0KGgo="
IMAGE: Json = {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"}
SCHEMA: Json = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
THOUGHT = "Hm, let me see."
CHATTING = [one for one in VENDORS if one.task == "chat"]


of_all = pytest.mark.parametrize("vendor", CHATTING, ids=lambda one: one.name)
of_chats = of_every_dialect(CHATTING)
of_others = of_every_dialect([one for one in CHATTING if one.name != "openai-responses"])
"""Backends that do not speak this API themselves (test_responses_to_openai.py)."""

either_way = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@pytest.fixture(scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[ResponsesOf, None]:
    async with responses_of_every_vendor(tmp_path_factory.mktemp("run")) as found:
        yield found


@of_all
@either_way
async def test_an_answer_has_its_text_its_status_and_its_usage(
    gateway: ResponsesOf, vendor: Vendor, stream: bool
) -> None:
    gateway.plays(vendor, Said())

    answer = await gateway.ask(vendor, {"instructions": "Be brief."}, stream=stream)

    assert (answer.output_text, answer.status) == ("Hello 🌍", "completed")
    counted = answer.usage and (answer.usage.input_tokens, answer.usage.output_tokens)
    assert counted == (USAGE if vendor.usages else None)
    turns = [one for one in gateway.received(vendor).turns if one.role == "user"]
    assert [one.text for one in turns] == ["hi"]
    assert b"Be brief." in gateway.setting.server.requests[-1].body


@of_chats
@either_way
@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
async def test_functions_are_called_and_their_outputs_go_back(
    gateway: ResponsesOf, vendor: Vendor, stream: bool, made: tuple[Call, ...]
) -> None:
    gateway.plays(vendor, Said(text=(), calls=made))
    asked = await gateway.ask(vendor, {"tools": TOOLS}, stream=stream)
    gateway.plays(vendor, Said())

    answer = await gateway.ask(vendor, fed_back(asked), stream=stream)

    calls = [one for one in asked.output if one.type == "function_call"]
    assert asked.status == "completed"
    assert [(one.name, json.loads(one.arguments)) for one in calls] == [
        (one.name, one.arguments) for one in made
    ]
    assert answer.output_text == "Hello 🌍"
    received = gateway.received(vendor)
    assert received.tools == ("weather", "clock")
    (turn,) = [one for one in received.turns if one.calls]
    assert [(one.name, one.arguments) for one in turn.calls] == [
        (one.name, one.arguments) for one in made
    ]
    results = [result for one in received.turns for result in one.results]
    assert results == [(one.id, "21 degrees") for one in turn.calls]
    assert vendor.name != "gemini" or turn.calls[0].proof == PROOF


@of_others
@either_way
async def test_a_custom_tool_gets_its_text(
    gateway: ResponsesOf, vendor: Vendor, stream: bool
) -> None:
    patch = 'Say "hi" \\ 🌍\n'
    tools = [{"type": "custom", "name": "patch", "description": "Apply it."}]
    call = Call(id="abcdefgh1", name="patch", arguments={"input": patch})
    gateway.plays(vendor, Said(text=(), calls=(call,)))
    asked = await gateway.ask(vendor, {"tools": tools}, stream=stream)
    gateway.plays(vendor, Said())
    (made,) = [one for one in asked.output if one.type == "custom_tool_call"]
    output: Json = {"type": "custom_tool_call_output", "call_id": made.call_id, "output": "Done!"}

    answer = await gateway.ask(
        vendor, {"input": [HI, *returned(asked), output], "tools": tools}, stream=stream
    )

    assert (made.name, made.input) == ("patch", patch)
    assert answer.output_text == "Hello 🌍"
    (turn,) = [one for one in gateway.received(vendor).turns if one.calls]
    assert turn.calls[0].arguments == {"input": patch}


@of_others
async def test_a_choice_of_allowed_tools_hides_the_others(
    gateway: ResponsesOf, vendor: Vendor
) -> None:
    gateway.plays(vendor, Said())
    allowed = {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "function", "name": "clock"}],
    }

    answer = await gateway.ask(vendor, {"tools": TOOLS, "tool_choice": allowed}, stream=False)

    assert gateway.received(vendor).tools == ("clock",)
    assert [one.to_dict()["name"] for one in answer.tools] == ["weather", "clock"]


class Found(pydantic.BaseModel):
    a: Literal[1]


@of_chats
@either_way
async def test_an_answer_keeps_to_a_schema(
    gateway: ResponsesOf, vendor: Vendor, stream: bool
) -> None:
    gateway.plays(vendor, Said(text=('{"a"', ": 1}")))
    form = {"type": "json_schema", "name": "found", "schema": SCHEMA, "strict": True}

    answer = await gateway.ask(vendor, {"text": {"format": form}}, stream=stream)

    assert json.loads(answer.output_text) == {"a": 1}
    assert gateway.received(vendor).schema == SCHEMA


@of_chats
async def test_the_client_parses_an_answer_into_its_own_type(
    gateway: ResponsesOf, vendor: Vendor
) -> None:
    gateway.plays(vendor, Said(text=('{"a"', ": 1}")))

    answer = await gateway.client.responses.parse(model=vendor.name, input="hi", text_format=Found)

    assert answer.output_parsed == Found(a=1)


@of_chats
async def test_an_image_travels_with_its_message(gateway: ResponsesOf, vendor: Vendor) -> None:
    gateway.plays(vendor, Said())
    content = [{"type": "input_text", "text": "What is it?"}, IMAGE]

    answer = await gateway.ask(
        vendor, {"input": [{"role": "user", "content": content}]}, stream=False
    )

    assert answer.output_text == "Hello 🌍"
    turns = [(one.text, one.images) for one in gateway.received(vendor).turns]
    assert turns == [("What is it?", (PIXEL,))]


@of_chats
async def test_an_image_in_an_output_reaches_the_model(
    gateway: ResponsesOf, vendor: Vendor
) -> None:
    gateway.plays(vendor, Said(text=(), calls=MADE["single"]))
    asked = await gateway.ask(vendor, {"tools": TOOLS}, stream=False)
    gateway.plays(vendor, Said())
    output = [{"type": "input_text", "text": "21 degrees"}, IMAGE]

    answer = await gateway.ask(vendor, fed_back(asked, output), stream=False)

    assert answer.output_text == "Hello 🌍"
    sent = gateway.setting.server.requests[-1].body
    assert b"21 degrees" in sent
    assert PIXEL.encode() in sent


def thoughts(answer: Response) -> list[str]:
    """The readable text of each reasoning item, wherever it is."""
    found = [one for one in answer.output if one.type == "reasoning"]
    return ["".join(part.text for part in (*(one.content or ()), *one.summary)) for one in found]


@of_others
@either_way
@pytest.mark.parametrize("summary", [None, "auto"])
async def test_reasoning_comes_out_and_goes_back_as_it_was(
    gateway: ResponsesOf, vendor: Vendor, stream: bool, summary: str | None
) -> None:
    gateway.plays(vendor, Said(thought=THOUGHT, proof=PROOF))
    body: Json = {"reasoning": {"summary": summary}}
    first = await gateway.ask(vendor, body, stream=stream)

    await gateway.ask(vendor, {"input": [HI, *returned(first), HI]}, stream=stream)

    assert [one.type for one in first.output] == ["reasoning", "message"]
    assert thoughts(first) == [THOUGHT]
    (summarised,) = [bool(one.summary) for one in first.output if one.type == "reasoning"]
    assert summarised == (summary is not None)
    _, said, _ = gateway.received(vendor).turns
    assert said.text == "Hello 🌍"
    assert said.thoughts == ((THOUGHT, PROOF if vendor.proofs else ""),)


@of_every_dialect([one for one in CHATTING if one.proofs and one.name != "openai-responses"])
@either_way
async def test_reasoning_before_calls_goes_back_with_them_without_its_text(
    gateway: ResponsesOf, vendor: Vendor, stream: bool
) -> None:
    calls = MADE["parallel"]
    gateway.plays(vendor, Said(text=(), thought=THOUGHT, proof=PROOF, calls=calls))
    asked = await gateway.ask(vendor, {"tools": TOOLS}, stream=stream)
    body = fed_back(asked)
    items: list[Json] = [
        {**one, "summary": NONE, "content": None} if one["type"] == "reasoning" else one
        for one in dicts(body["input"])
    ]

    await gateway.ask(vendor, {**body, "input": items}, stream=stream)

    (said,) = [one for one in gateway.received(vendor).turns if one.calls]
    assert said.thoughts == ((THOUGHT, PROOF),)
    assert len(said.calls) == 2


@of_others
async def test_reasoning_that_openai_encrypted_is_left_out_and_named(
    gateway: ResponsesOf, vendor: Vendor
) -> None:
    """A server whose model does not say who made it may be OpenAI's."""
    gateway.plays(vendor, Said())
    sealed = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": NONE,
        "encrypted_content": "gAAAAABpM0Yj",
    }
    said = {"type": "message", "role": "assistant", "content": "Hello."}
    body = {"model": vendor.name, "input": [HI, sealed, said, HI]}

    async with httpx.AsyncClient(base_url=gateway.setting.gateway.url, timeout=60) as client:
        answer = await client.post("/v1/responses", json=body)

    assert answer.status_code == 200, answer.text
    arrives = b"gAAAAABpM0Yj" in gateway.setting.server.requests[-1].body
    named = "input.reasoning" in answer.headers.get("x-gateway-dropped-params", "")
    unknown = vendor.name == "openai"
    assert (arrives, named) == (unknown, not unknown)


AGENTS: Json = {
    "instructions": "You are a coding agent.",
    "input": [
        {
            "type": "message",
            "role": "developer",
            "content": [{"type": "input_text", "text": "Be careful."}],
        },
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "hi", "mark": 1}],
        },
        {
            "type": "message",
            "id": "msg_1",
            "status": "completed",
            "role": "assistant",
            "phase": "commentary",
            "content": [{"type": "output_text", "text": "I look.", "annotations": NONE}],
        },
        {"type": "function_call", "call_id": "abcdefgh1", "name": "clock", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "abcdefgh1", "output": "broken"},
    ],
    "tools": [
        *TOOLS,
        {
            "type": "custom",
            "name": "patch",
            "description": "Apply a patch.",
            "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"},
        },
    ],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "reasoning": {"effort": "medium", "summary": "auto"},
    "text": {"verbosity": "low"},
    "store": True,
    "include": ["reasoning.encrypted_content", "web_search_call.action.sources"],
    "truncation": "auto",
    "metadata": {"run": "7"},
    "prompt_cache_key": "run-7",
    "safety_identifier": "user-7",
    "service_tier": "auto",
    "client_metadata": {"x-codex-turn-metadata": "{}"},
    "stream_options": {"include_obfuscation": True},
}


@of_others
@either_way
async def test_what_agents_send_costs_no_one_the_answer_and_what_is_lost_is_named(
    gateway: ResponsesOf, vendor: Vendor, stream: bool
) -> None:
    gateway.plays(vendor, Said())
    body = {"model": vendor.name, "stream": stream, **AGENTS}
    async with httpx.AsyncClient(base_url=gateway.setting.gateway.url, timeout=60) as client:
        answer = await client.post("/v1/responses", json=body)

    sent = gateway.setting.server.requests[-1].body
    dropped = answer.headers.get("x-gateway-dropped-params", "").split(", ")
    assert answer.status_code == 200, answer.text
    assert b'"phase"' not in sent
    assert b'"mark"' not in sent
    assert b'"metadata"' not in sent
    assert b'"client_metadata"' not in sent
    assert b"start: /.+/" in sent
    assert {
        "client_metadata",
        "include",
        "input[].content[].mark",
        "input[].phase",
        "store",
        "tools[].format",
        "truncation",
    } <= set(dropped)


@of_others
@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"tools": [{"type": "computer"}]}, "computer"),
        ({"max_tool_calls": 3}, "max_tool_calls"),
        ({"background": True}, "background"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt"),
        ({"reasoning": {"mode": "pro"}}, "reasoning.mode"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "item_reference"),
        ({"input": [{"id": "msg_1"}]}, "item_reference"),
        (
            {
                "input": [
                    {"role": "user", "content": [{"type": "input_image", "file_id": "file_1"}]}
                ]
            },
            "file_id",
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "file_1"}]}]},
            "file|input.opaque",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_only_openai_has_is_refused_by_name(
    gateway: ResponsesOf, vendor: Vendor, more: Json, named: str
) -> None:
    gateway.plays(vendor, Said())

    with pytest.raises(REFUSED, match=named):
        await gateway.ask(vendor, more, stream=False)

    assert not gateway.setting.server.requests
