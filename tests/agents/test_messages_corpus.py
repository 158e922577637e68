"""Requests in the shape of Claude's coding tool loop through the gateway to every vendor."""

import json
import re
from collections.abc import AsyncGenerator
from typing import cast

import anthropic
import httpx
import pytest
from anthropic.types.beta import BetaMessage

from tests.agents.messages_corpus import CONVERSATIONS, HEADERS, Conversation
from tests.gateway.backends.vendors.backend import Setting, answering, every_vendor
from tests.gateway.backends.vendors.dialect import Json, Said
from tests.gateway.backends.vendors.rows import VENDORS, Vendor, of_every_dialect
from tests.stand_ins.provider import Answer, Received

pytestmark = pytest.mark.anyio

CHATTING = [one for one in VENDORS if one.task == "chat"]
NAMED = (
    "anthropic-beta",
    "cache_control",
    "context_management",
    "eager_input_streaming",
    "is_error",
    "messages.reasoning",
    "output_config.effort",
    "thinking",
    "top_k",
    "metadata.user_id",
)
"""The last members of what a vendor may not get, and the client learns of."""

BETA = "anthropic-beta."
"""The beginning of a value of that header that a cloud does not take."""


@pytest.fixture(scope="module")
async def setting(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Setting, None]:
    async with every_vendor(tmp_path_factory.mktemp("run"), failing=False) as one:
        yield one


async def ask(setting: Setting, vendor: Vendor, body: Json, said: Said) -> tuple[BetaMessage, str]:
    """What the official client makes of the stream, and what was left out."""
    setting.plays(answering(vendor, said))
    url = setting.gateway.url
    sent = {"model": vendor.name, **body}
    async with anthropic.AsyncAnthropic(base_url=url, api_key="k", max_retries=0) as client:
        async with client.beta.messages.stream(
            model=vendor.name, max_tokens=1, messages=[], extra_body=sent, extra_headers=HEADERS
        ) as stream:
            answer = await stream.get_final_message()
            return answer, stream.response.headers.get("x-gateway-dropped-params", "")


@of_every_dialect(CHATTING)
@pytest.mark.parametrize("talk", CONVERSATIONS.values(), ids=CONVERSATIONS)
async def test_a_coding_tools_conversation_goes_to_its_end(
    setting: Setting, vendor: Vendor, talk: Conversation
) -> None:
    if vendor.name == "openai-responses" and talk.body["max_tokens"] == 1:
        pytest.skip("it answers with at least 16 tokens, and the client learns that")
    messages = [*cast("list[Json]", talk.body["messages"])]
    for place, said in enumerate(talk.said):
        answer, dropped = await ask(setting, vendor, {**talk.body, "messages": messages}, said)

        names = [one for one in dropped.split(", ") if one]
        assert [one for one in names if not one.endswith(NAMED) and not one.startswith(BETA)] == []
        texts = [one.text for one in answer.content if one.type == "text"]
        silent = vendor.name == "cohere" and said.calls  # a plan in place of a text
        assert "".join(texts) == ("" if silent else said.whole_text)
        calls = [(one.name, one.input) for one in answer.content if one.type == "tool_use"]
        assert calls == [(one.name, one.arguments) for one in said.calls]
        assert answer.stop_reason == ("tool_use" if said.calls else "end_turn")
        if place < len(talk.results):
            content = answer.model_dump(exclude_none=True, exclude_unset=True)["content"]
            results = renamed(talk.results[place], said, answer)
            messages += [
                {"role": "assistant", "content": content},
                {"role": "user", "content": results},
            ]
    check_received(setting, vendor, talk)


def renamed(results: object, said: Said, answer: BetaMessage) -> list[Json]:
    """Return the results for the ids that the calls have here: not every vendor names its calls."""
    made = [one.id for one in answer.content if one.type == "tool_use"]
    ids = dict(zip([one.id for one in said.calls], made, strict=True))
    return [
        {**one, "tool_use_id": ids[str(one["tool_use_id"])]} if "tool_use_id" in one else one
        for one in cast("list[Json]", results)
    ]


def check_received(setting: Setting, vendor: Vendor, talk: Conversation) -> None:
    """What the vendor got last has everything of the conversation."""
    body = setting.server.requests[-1].body.decode()
    got = setting.received(vendor)
    tools = cast("list[Json]", talk.body.get("tools", []))
    assert list(got.tools) == [one["name"] for one in tools]
    made = [one for turn in got.turns for one in turn.calls]
    expected = [one for said in talk.said[:-1] for one in said.calls]
    assert [(one.name, one.arguments) for one in made] == [
        (one.name, one.arguments) for one in expected
    ]
    if not talk.results:
        return
    results = [text for turn in got.turns for _, text in turn.results]
    assert [one.split("\n")[0] for one in results] == [
        "1\tassert a == b",
        "Exit code 1",
        "The file has been updated.",
    ]
    for text in ("Z\\u00fcrich", "The folder is /src.", "Do not mention this.", "iVBORw0KGgo="):
        assert text in json.dumps(json.loads(body)), text
    if talk.thinks and vendor.proofs:
        thoughts = [one for turn in got.turns for one in turn.thoughts]
        assert thoughts == [(one.thought, one.proof) for one in talk.said[:-1]]


async def test_claude_gets_the_corpus_byte_by_byte(setting: Setting) -> None:
    (vendor,) = [one for one in VENDORS if one.name == "anthropic"]
    for talk in CONVERSATIONS.values():
        setting.plays(answering(vendor, Said()))
        sent = json.dumps({"model": "anthropic", **talk.body}, indent=1).encode()
        url = setting.gateway.url
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            answer = await client.post("/v1/messages?beta=true", content=sent, headers=HEADERS)

        (request,) = setting.server.requests
        assert answer.status_code == 200, answer.text
        assert request.headers["anthropic-beta"] == HEADERS["anthropic-beta"]
        for name in ("system", "messages", "tools"):
            if name in talk.body:
                alone = json.dumps({name: talk.body[name]}, indent=1)
                value = alone.removeprefix(f'{{\n "{name}": ').removesuffix("\n}")
                assert value.encode() in request.body


@pytest.mark.parametrize("vendor", CHATTING, ids=lambda one: one.name)
async def test_a_count_is_exact_or_an_estimate_that_says_so(
    setting: Setting, vendor: Vendor
) -> None:
    setting.plays(counts)
    body = {**CONVERSATIONS["a budget"].body}
    del body["max_tokens"]
    async with httpx.AsyncClient(base_url=setting.gateway.url, timeout=60) as client:
        answer = await client.post(
            "/v1/messages/count_tokens?beta=true",
            json={"model": vendor.name, **body},
            headers=HEADERS,
        )

    assert answer.status_code == 200, answer.text
    if "x-gateway-estimated" in answer.headers:
        # MindIE counts without a chat template, so its number is an estimate, too.
        assert answer.json()["input_tokens"] >= 7
        assert vendor.name == "mindie" or not setting.server.requests
    else:
        assert answer.json() == {"input_tokens": 7}
        assert re.search("count|tokenize|tokens", setting.server.requests[-1].path, re.IGNORECASE)


async def counts(request: Received, answer: Answer) -> None:
    """Seven tokens, as each vendor says it that counts."""
    names = ("input_tokens", "inputTokens", "totalTokens", "count", "token_number")
    listed = [{"id": 1, "text": "a", "start": place, "stop": place + 1} for place in range(7)]
    await answer.json({**dict.fromkeys(names, 7), "tokenize_response": listed})
