"""OpenAI's own client in front of the gateway, a Databricks workspace with OAuth behind it."""

import asyncio
import json
import random
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import openai
import pytest
from msgspec import Struct
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

from tests.gateway.serving import Serving, serving
from tests.stand_ins.databricks_answers import PROMPT_TOKENS, SIGNATURE, THOUGHT, vector
from tests.stand_ins.databricks_server import DatabricksServer, databricks_server

pytestmark = pytest.mark.anyio

CONFIG = """
providers:
  - name: dbx
    adapter: databricks
    base_url: {url}
    oauth: {{client_id: {id}, client_secret: "{secret}"}}
    timeouts: {{connect_s: 20, first_token_s: 2, between_tokens_s: 1, total_s: 5}}
models:
  - name: chat
    retry: {{backoff_s: 0.01, max_backoff_s: 0.05}}
    breaker: {{min_requests: 1000}}
    backends: [{{provider: dbx, model: databricks-claude}}]
  - name: one-of-two
    backends: [{{provider: dbx, model: split/served-b}}]
"""
HELLO: ChatCompletionMessageParam = {"role": "user", "content": "hi there"}
WEATHER: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
    },
}


class Setting(Struct, frozen=True, kw_only=True, eq=False):
    """A workspace, the gateway in front of it, and a client of the gateway."""

    server: DatabricksServer
    gateway: Serving
    client: openai.AsyncOpenAI


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncGenerator[Setting, None]:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(databricks_server())
        config = CONFIG.format(
            url=server.base_url, id=server.client_id, secret=server.client_secret
        )
        gateway = await stack.enter_async_context(serving(config, tmp_path))
        client = await stack.enter_async_context(
            openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="any", max_retries=0)
        )
        yield Setting(server=server, gateway=gateway, client=client)


async def test_a_chat_is_answered_with_a_token_of_the_workspace(setting: Setting) -> None:
    answer = await setting.client.chat.completions.create(
        model="chat", messages=[{"role": "system", "content": "Be brief."}, HELLO], max_tokens=9
    )

    [request] = setting.server.requests
    assert answer.choices[0].message.content == "You said hi there"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == PROMPT_TOKENS
    assert request.path == "/serving-endpoints/databricks-claude/invocations"
    assert request.headers["authorization"] == f"Bearer {setting.server.issued[0]}"
    assert setting.server.token_calls == 1


@pytest.mark.parametrize("seed", range(5))
async def test_a_stream_arrives_whole_however_it_is_cut(setting: Setting, seed: int) -> None:
    setting.server.fragment(seed=seed)

    stream = await setting.client.chat.completions.create(
        model="chat", messages=[HELLO], stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]

    text = "".join(one.choices[0].delta.content or "" for one in chunks if one.choices)
    usages = [one.usage for one in chunks if one.usage is not None]
    assert text == "You said hi there"
    assert len(usages) == 1
    assert usages[0].completion_tokens == 3
    assert "stream_options" not in setting.server.bodies[0]


async def test_inputs_become_vectors(setting: Setting) -> None:
    plain = await setting.client.embeddings.create(model="chat", input=["a", "b"])
    instructed = await setting.client.embeddings.create(
        model="chat", input="a", extra_body={"instruction": "Represent: "}
    )

    assert [one.embedding for one in plain.data] == [vector("a"), vector("b")]
    assert instructed.data[0].embedding == vector("Represent: a")


async def test_prompts_are_completed_in_their_order(setting: Setting) -> None:
    answer = await setting.client.completions.create(
        model="chat", prompt=["one", "two"], n=2, echo=True
    )

    assert [choice.text for choice in answer.choices] == [
        "oneraw answer to one #0",
        "oneraw answer to one #1",
        "tworaw answer to two #0",
        "tworaw answer to two #1",
    ]


async def test_several_choices_and_their_log_probabilities(setting: Setting) -> None:
    answer = await setting.client.chat.completions.create(
        model="chat", messages=[HELLO], n=2, logprobs=True, stop=[" there"]
    )

    assert [choice.message.content for choice in answer.choices] == ["You said hi"] * 2
    assert answer.choices[0].logprobs is not None
    assert answer.choices[0].logprobs.content is not None
    assert answer.choices[0].logprobs.content[0].logprob == -0.5


@pytest.mark.parametrize("stream", [False, True])
async def test_the_served_model_that_answered_is_reported(setting: Setting, stream: bool) -> None:
    body = {"model": "chat", "messages": [HELLO], "stream": stream}

    answer = await post(setting, body)

    first = answer.partition(b"\n")[0].removeprefix(b"data: ") if stream else answer
    assert json.loads(first)["served_model_name"] == "served-1"


THOUGHTFUL = {
    "role": "assistant",
    "content": [
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": THOUGHT, "signature": SIGNATURE}],
        },
        {"type": "text", "text": "Hm."},
    ],
}
ENCRYPTED = {
    "role": "assistant",
    "content": [
        {"type": "reasoning", "summary": [{"type": "summary_encrypted_text", "data": "ZQ=="}]},
        {"type": "text", "text": "Hm."},
    ],
}


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [HELLO], "max_tokens": 9, "temperature": 0.5, "top_p": 0.5, "top_k": 3},
        {"messages": [HELLO], "stop": ["x"], "n": 2, "logprobs": True, "top_logprobs": 2},
        {"messages": [HELLO], "tools": [WEATHER], "tool_choice": "required"},
        {"messages": [HELLO], "response_format": {"type": "json_object"}},
        {"messages": [HELLO], "reasoning_effort": "low", "usage_context": {"team": "a"}},
        {"messages": [HELLO, THOUGHTFUL, HELLO], "thinking": {"type": "enabled"}},
        {"messages": [HELLO, ENCRYPTED, HELLO]},
        {"prompt": "one", "use_raw_prompt": True, "max_tokens": 5},
        {"prompt": ["one", "two"], "suffix": "!", "echo": True, "error_behavior": "truncate"},
        {"input": ["a", "b"], "instruction": "Represent: "},
    ],
    ids="+".join,
)
async def test_databricks_own_fields_go_through_unchanged(
    setting: Setting, body: dict[str, object]
) -> None:
    """From a client of the gateway's Databricks surface; `stream` alone is always said."""
    async with httpx.AsyncClient(timeout=60) as client:
        url = f"{setting.gateway.url}/serving-endpoints/chat/invocations"
        answer = await client.post(url, json=body)

    [arrived] = setting.server.bodies
    assert answer.status_code == 200, answer.text
    assert {**arrived, "stream": False} == {**body, "stream": False}


async def test_one_served_model_is_reached_past_the_split(setting: Setting) -> None:
    await setting.client.chat.completions.create(model="one-of-two", messages=[HELLO])

    [request] = setting.server.requests
    assert request.path == "/serving-endpoints/split/served-models/served-b/invocations"


async def test_a_field_that_databricks_lacks_is_refused_by_name(setting: Setting) -> None:
    with pytest.raises(openai.BadRequestError, match="seed"):
        await setting.client.chat.completions.create(model="chat", messages=[HELLO], seed=1)

    assert setting.server.requests == []


async def test_refusals_of_the_workspace_keep_its_message(setting: Setting) -> None:
    with pytest.raises(openai.BadRequestError, match="only allowed as the first message"):
        await setting.client.chat.completions.create(
            model="chat", messages=[HELLO, {"role": "system", "content": "Be brief."}]
        )


@pytest.mark.parametrize("stream", [False, True])
async def test_no_answer_that_was_cut_passes_for_a_whole_one(
    setting: Setting, stream: bool
) -> None:
    """Cut at random places; what is cut before its first word is asked for again.

    Nine times, because the budget for second tries is ten.
    """
    body = {"model": "chat", "messages": [HELLO], "stream": stream}
    length = len(await post(setting, body))
    outcomes: list[str] = []

    for place in random.Random(20_26).sample(range(1, length), 9):
        setting.server.cut_short(bytes_sent=place)
        said = await post(setting, body)
        if b"[DONE]" in said or not stream:
            outcomes.append(message_of(said, stream=stream)["content"])
        else:
            assert b'"error"' in said

    assert set(outcomes) == {"You said hi there"}
    assert stream == (len(outcomes) < 9)


@pytest.mark.parametrize("status", [401, 403])
async def test_a_revoked_token_is_replaced_without_the_clients_noticing(
    setting: Setting, status: int
) -> None:
    setting.server.expired_is = status
    await setting.client.chat.completions.create(model="chat", messages=[HELLO])
    setting.server.revoke()

    answers = await asyncio.gather(
        *(setting.client.chat.completions.create(model="chat", messages=[HELLO]) for _ in range(20))
    )

    assert {answer.choices[0].message.content for answer in answers} == {"You said hi there"}
    assert setting.server.token_calls == 2
    assert {line.status for line in setting.gateway.access_lines()} == {200}


async def test_a_workspace_that_does_not_know_us_is_named_and_the_secret_is_not(
    setting: Setting,
) -> None:
    setting.server.fail_tokens(401, times=9)

    with pytest.raises(openai.APIStatusError) as caught:
        await setting.client.chat.completions.create(model="chat", messages=[HELLO])

    assert caught.value.status_code == 424
    assert "dbx: no access token: the token endpoint answered 401: invalid_client" in str(
        caught.value
    )
    assert setting.server.client_secret not in caught.value.response.text
    assert setting.server.requests == []


async def post(setting: Setting, body: object) -> bytes:
    """A chat request whose answer is wanted as it came."""
    async with httpx.AsyncClient(timeout=60) as client:
        answer = await client.post(f"{setting.gateway.url}/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    return answer.content


def message_of(answer: bytes, *, stream: bool) -> dict[str, str]:
    """The assistant's message, out of a body or out of the deltas of a stream."""
    if not stream:
        return json.loads(answer)["choices"][0]["message"]
    fields = dict.fromkeys(("content", "reasoning_content", "reasoning_signature"), "")
    for line in answer.splitlines():
        if line.startswith(b"data: {"):
            delta = json.loads(line.removeprefix(b"data: "))["choices"][0]["delta"]
            fields = {name: text + (delta.get(name) or "") for name, text in fields.items()}
    return fields | {"role": "assistant"}
