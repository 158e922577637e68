"""Every vendor behind the gateway gives Anthropic's client the same result."""

import json
from collections.abc import AsyncGenerator, Sequence

import anthropic
import httpx
import pytest
from anthropic.types import Message
from anthropic.types.beta import BetaMessageParam
from msgspec import Struct

from tests.gateway.backends.vendors.backend import Setting, answering, every_vendor
from tests.gateway.backends.vendors.dialect import USAGE, Call, Json, ReceivedRequest, Said
from tests.gateway.backends.vendors.rows import VENDORS, Vendor, of_every_dialect
from tests.gateway.surfaces.anthropic.claude import returned

pytestmark = pytest.mark.anyio

PIXEL = "iVBORw0KGgo="
PLACE: Json = {"type": "object", "properties": {"at": {"type": "string"}}}
TOOLS: Sequence[Json] = [
    {"name": "weather", "input_schema": PLACE},
    {"name": "clock", "input_schema": {"type": "object", "properties": {}}},
]
SCHEMA: Json = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
THOUGHT, PROOF = "Hm, let me see.", "cHJvb2Y="
NO_INPUT: Json = {}
USER: BetaMessageParam = {"role": "user", "content": "hi"}
HI: Json = {**USER}
MADE = {
    "single": (Call(id="abcdefgh1", name="weather", arguments={"at": "A"}, proof=PROOF),),
    "parallel": (
        Call(id="abcdefgh1", name="weather", arguments={"at": "A"}, proof=PROOF),
        Call(id="abcdefgh2", name="weather", arguments={"at": "B"}),
    ),
    "no argument": (Call(id="abcdefgh1", name="clock", proof=PROOF),),
}
CHATTING = [one for one in VENDORS if one.task == "chat"]


of_all = pytest.mark.parametrize("vendor", CHATTING, ids=lambda one: one.name)
of_chats = of_every_dialect(CHATTING)
either_way = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


class ClaudeOf(Struct, frozen=True, kw_only=True, eq=False):
    """Anthropic's client, and the setting that it is a client of."""

    setting: Setting
    client: anthropic.AsyncAnthropic

    def plays(self, vendor: Vendor, said: Said) -> None:
        self.setting.plays(answering(vendor, said))

    def received(self, vendor: Vendor) -> ReceivedRequest:
        return self.setting.received(vendor)

    async def ask(self, vendor: Vendor, body: Json | None = None, *, stream: bool) -> Message:
        """Post with Anthropic's client. body: fields besides the model's name."""
        sent = {"messages": [HI], **(body or {})}
        messages = self.client.messages
        if stream:
            async with messages.stream(
                model=vendor.name, max_tokens=2000, messages=[], extra_body=sent
            ) as events:
                return await events.get_final_message()
        return await messages.create(
            model=vendor.name, max_tokens=2000, messages=[], extra_body=sent
        )


@pytest.fixture(scope="module")
async def claude(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[ClaudeOf, None]:
    async with every_vendor(tmp_path_factory.mktemp("run"), failing=False) as setting:
        url = setting.gateway.url
        async with anthropic.AsyncAnthropic(base_url=url, api_key="x", max_retries=0) as client:
            yield ClaudeOf(setting=setting, client=client)


def texts(answer: Message) -> str:
    return "".join(one.text for one in answer.content if one.type == "text")


def fed_back(asked: Message, content: object = "21 degrees") -> Json:
    """The conversation with its calls and what came of them."""
    results = [
        {"type": "tool_result", "tool_use_id": one.id, "content": content}
        for one in asked.content
        if one.type == "tool_use"
    ]
    user: Json = {"role": "user", "content": [*results, {"type": "text", "text": "And?"}]}
    return {"messages": [HI, returned(asked), user], "tools": TOOLS}


@of_all
@either_way
async def test_an_answer_has_its_text_its_end_and_its_usage(
    claude: ClaudeOf, vendor: Vendor, stream: bool
) -> None:
    claude.plays(vendor, Said())

    answer = await claude.ask(vendor, {"system": "Be brief."}, stream=stream)

    assert (texts(answer), answer.stop_reason) == ("Hello 🌍", "end_turn")
    counted = answer.usage.input_tokens, answer.usage.output_tokens
    assert counted == (USAGE if vendor.usages else (0, 0))
    turns = [one for one in claude.received(vendor).turns if one.role == "user"]
    assert [one.text for one in turns] == ["hi"]


@of_chats
@either_way
@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
async def test_tools_are_called_and_their_results_go_back(
    claude: ClaudeOf, vendor: Vendor, stream: bool, made: tuple[Call, ...]
) -> None:
    claude.plays(vendor, Said(text=(), calls=made))
    asked = await claude.ask(vendor, {"tools": TOOLS}, stream=stream)
    claude.plays(vendor, Said())

    answer = await claude.ask(vendor, fed_back(asked), stream=stream)

    calls = [one for one in asked.content if one.type == "tool_use"]
    assert asked.stop_reason == "tool_use"
    assert [(one.name, one.input) for one in calls] == [(one.name, one.arguments) for one in made]
    assert texts(answer) == "Hello 🌍"
    received = claude.received(vendor)
    assert received.tools == ("weather", "clock")
    turns = [one for one in received.turns if one.calls]
    assert [(one.name, one.arguments) for one in turns[0].calls] == [
        (one.name, one.arguments) for one in made
    ]
    ids = [one.id for one in turns[0].calls]
    results = [result for one in received.turns for result in one.results]
    assert results == [(id, "21 degrees") for id in ids]
    assert vendor.name != "gemini" or turns[0].calls[0].proof == PROOF


@of_chats
@either_way
async def test_an_answer_keeps_to_a_schema(claude: ClaudeOf, vendor: Vendor, stream: bool) -> None:
    claude.plays(vendor, Said(text=('{"a"', ": 1}")))
    output = {"format": {"type": "json_schema", "schema": SCHEMA}}

    answer = await claude.ask(vendor, {"output_config": output}, stream=stream)

    assert json.loads(texts(answer)) == {"a": 1}
    assert claude.received(vendor).schema == SCHEMA


@of_chats
async def test_an_image_travels_with_its_message(claude: ClaudeOf, vendor: Vendor) -> None:
    claude.plays(vendor, Said())
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    content = [{"type": "text", "text": "What is it?"}, {"type": "image", "source": source}]

    answer = await claude.ask(
        vendor, {"messages": [{"role": "user", "content": content}]}, stream=False
    )

    assert texts(answer) == "Hello 🌍"
    turns = [(one.text, one.images) for one in claude.received(vendor).turns]
    assert turns == [("What is it?", (PIXEL,))]


@of_chats
@either_way
async def test_thoughts_come_out_and_go_back_as_they_were(
    claude: ClaudeOf, vendor: Vendor, stream: bool
) -> None:
    claude.plays(vendor, Said(thought=THOUGHT, proof=PROOF))
    first = await claude.ask(vendor, stream=stream)

    await claude.ask(vendor, {"messages": [HI, returned(first), HI]}, stream=stream)

    assert [one.type for one in first.content] == ["thinking", "text"]
    assert first.content[0].to_dict()["thinking"] == THOUGHT
    _, said, _ = claude.received(vendor).turns
    assert said.text == "Hello 🌍"
    assert said.thoughts == ((THOUGHT, PROOF if vendor.proofs else ""),)


@of_every_dialect([one for one in CHATTING if one.proofs])
@either_way
async def test_a_thought_before_calls_goes_back_with_them(
    claude: ClaudeOf, vendor: Vendor, stream: bool
) -> None:
    calls = MADE["parallel"]
    claude.plays(vendor, Said(text=(), thought=THOUGHT, proof=PROOF, calls=calls))
    asked = await claude.ask(vendor, {"tools": TOOLS}, stream=stream)

    await claude.ask(vendor, fed_back(asked), stream=stream)

    (said,) = [one for one in claude.received(vendor).turns if one.calls]
    assert said.thoughts == ((THOUGHT, PROOF),)
    assert len(said.calls) == 2


@of_chats
async def test_an_image_in_a_result_reaches_the_model(claude: ClaudeOf, vendor: Vendor) -> None:
    claude.plays(vendor, Said(text=(), calls=MADE["single"]))
    asked = await claude.ask(vendor, {"tools": TOOLS}, stream=False)
    claude.plays(vendor, Said())
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    content = [{"type": "text", "text": "21 degrees"}, {"type": "image", "source": source}]

    answer = await claude.ask(vendor, fed_back(asked, content), stream=False)

    assert texts(answer) == "Hello 🌍"
    sent = claude.setting.server.requests[-1].body
    assert b"21 degrees" in sent
    assert PIXEL.encode() in sent


AGENTS: Json = {
    "system": [{"type": "text", "text": "Be", "cache_control": {"type": "ephemeral"}}],
    "tools": [{**TOOLS[0], "cache_control": {"type": "ephemeral"}}, TOOLS[1]],
    "metadata": {"user_id": "user_1"},
    "thinking": {"type": "disabled"},
    "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]},
    "service_tier": "auto",
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "hi"},
                {"type": "text", "text": "!", "cache_control": {"type": "ephemeral"}},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "abcdefgh1", "name": "clock", "input": NO_INPUT}
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "abcdefgh1",
                    "is_error": True,
                    "content": [{"type": "text", "text": "broken"}],
                    "cache_control": {"type": "ephemeral"},
                }
            ],
        },
    ],
}


@of_chats
@either_way
async def test_what_agents_send_costs_no_one_the_answer_and_what_is_lost_is_named(
    claude: ClaudeOf, vendor: Vendor, stream: bool
) -> None:
    claude.plays(vendor, Said())
    body = {"model": vendor.name, "max_tokens": 100, "stream": stream, **AGENTS}
    async with httpx.AsyncClient(base_url=claude.setting.gateway.url, timeout=60) as client:
        answer = await client.post(
            "/v1/messages", json=body, headers={"anthropic-beta": "a-2026-01-01"}
        )

    sent = claude.setting.server.requests[-1].body
    dropped = answer.headers.get("x-gateway-dropped-params", "").split(", ")
    assert answer.status_code == 200, answer.text
    if vendor.name in ("anthropic", "bedrock", "vertex-anthropic"):
        assert not [one for one in dropped if one.endswith(("cache_control", "is_error"))]
    elif vendor.name == "databricks":
        assert sent.count(b"cache_control") == 4
        assert not [one for one in dropped if one.endswith("cache_control")]
    else:
        assert b"cache_control" not in sent
        assert b"is_error" not in sent
        assert {
            "anthropic-beta",
            "context_management",
            "system[].cache_control",
            "messages[].content[].cache_control",
            "messages[].content[].is_error",
            "tools[].cache_control",
        } <= set(dropped)


@of_chats
@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "bash_20250124"),
        ({"mcp_servers": [{"type": "url", "url": "https://mcp.test", "name": "x"}]}, "mcp_servers"),
        ({"container": "container_1"}, "container"),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "image", "source": {"type": "file", "file_id": "f"}}],
                    }
                ]
            },
            "image|file_id",
        ),
    ],
    ids=["a tool of its own", "mcp", "container", "file"],
)
async def test_what_only_the_vendor_has_is_refused_by_name(
    claude: ClaudeOf, vendor: Vendor, more: Json, named: str
) -> None:
    claude_alone = vendor.name.endswith("anthropic")
    if claude_alone and named == "bash_20250124":
        pytest.skip("it has it")
    claude.plays(vendor, Said())

    with pytest.raises((anthropic.BadRequestError, anthropic.PermissionDeniedError), match=named):
        await claude.ask(vendor, more, stream=False)

    assert not claude.setting.server.requests


@of_chats
@either_way
async def test_a_tool_runner_stores_its_conversation_itself_where_it_cannot_be_stored(
    claude: ClaudeOf, vendor: Vendor, stream: bool
) -> None:
    """It asks for storage at the vendor first, and repeats its request when it learns why not."""
    claude.plays(vendor, Said())

    runner = claude.client.beta.messages.tool_runner(
        model=vendor.name, max_tokens=2000, messages=[USER], tools=[], stream=stream
    )
    answer = await runner.until_done()

    assert [one.text for one in answer.content if one.type == "text"] == ["Hello 🌍"]
    assert len(claude.setting.server.requests) == 1


@of_chats
async def test_an_error_about_storage_has_what_official_clients_act_on(
    claude: ClaudeOf, vendor: Vendor
) -> None:
    for thread in ({"type": "create"}, {"type": "continue", "previous_message_id": "msg_1"}):
        with pytest.raises(anthropic.BadRequestError) as refused:
            await claude.ask(vendor, {"thread": thread}, stream=False)

        body = refused.value.response.json()
        assert body["error"]["details"] == {
            "error_code": "thread_unsupported_request",
            "unsupported": ["thread"],
        }
