"""OpenAI's own client in front of the gateway, a Bedrock runtime behind it."""

import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import cast

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

from strowger_gateway.gateway.config.aws import aws_region
from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.config.schema.connection import Aws
from tests.gateway.backends.vendors.alone import HELLO, Json, Setting, in_front_of
from tests.gateway.serving import serving
from tests.stand_ins.aws_signing import signed_by
from tests.stand_ins.bedrock_server import FAILING, bedrock
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

CONFIG = """
providers:
  - name: aws
    adapter: bedrock
    base_url: {url}
    api_key: bedrock-api-key-0123456789
    timeouts: {{connect_s: 20, first_token_s: 2, between_tokens_s: 1, total_s: 5}}
models:
  - name: chat
    retry: {{backoff_s: 0.01, max_backoff_s: 0.05}}
    breaker: {{min_requests: 1000}}
    backends: [{{provider: aws, model: "eu.anthropic.claude-x-v1:0"}}]
  - name: llama
    backends: [{{provider: aws, model: "us.meta.llama4-scout-17b-instruct-v1:0"}}]
  - name: titan
    backends: [{{provider: aws, model: "amazon.titan-embed-text-v2:0"}}]
  - name: cohere
    backends: [{{provider: aws, model: "cohere.embed-v4:0"}}]
"""
TOOLS: list[ChatCompletionToolParam] = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
        },
    },
    {"type": "function", "function": {"name": "clock"}},
]


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncGenerator[Setting, None]:
    async with in_front_of(bedrock, CONFIG, tmp_path) as one:
        yield one


async def test_effort_is_a_hint_for_a_model_that_does_not_reason(setting: Setting) -> None:
    reported = await setting.client.chat.completions.with_raw_response.create(
        model="llama", messages=[HELLO], reasoning_effort="low"
    )

    assert reported.headers["x-gateway-dropped-params"] == "reasoning_effort"
    assert setting.sent() == {"messages": [{"role": "user", "content": [{"text": "hi"}]}]}


async def test_a_chat_is_answered_with_its_thoughts_and_its_usage(setting: Setting) -> None:
    answer = await setting.client.chat.completions.create(
        model="chat", messages=[HELLO], max_completion_tokens=9
    )

    (choice,) = answer.choices
    assert choice.message.content == "Hello 🌍"
    assert getattr(choice.message, "reasoning_content", None) == "Hm."
    assert choice.finish_reason == "stop"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (31, 5)
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.cached_tokens == 20
    assert setting.sent() == {
        "messages": [{"role": "user", "content": [{"text": "hi"}]}],
        "inferenceConfig": {"maxTokens": 9},
    }


async def test_a_key_is_a_bearer_and_a_model_one_step_of_the_path(setting: Setting) -> None:
    await setting.client.chat.completions.create(model="chat", messages=[HELLO])

    request = setting.server.requests[-1]
    assert request.path == "/model/eu.anthropic.claude-x-v1%3A0/converse"
    assert request.headers["authorization"] == "Bearer bedrock-api-key-0123456789"


async def test_tools_are_called_and_their_results_go_back_with_the_thought(
    setting: Setting,
) -> None:
    first = await setting.client.chat.completions.create(
        model="chat", messages=[HELLO], tools=TOOLS
    )
    asked = first.choices[0].message.model_dump(exclude_none=True)
    calls = [(one["id"], cast("Json", one["function"])) for one in asked["tool_calls"]]
    assert [(id, call["name"], json.loads(str(call["arguments"]))) for id, call in calls] == [
        ("tooluse_1", "weather", {"at": "A"}),
        ("tooluse_2", "clock", {}),
    ]

    results: list[ChatCompletionMessageParam] = [
        {"role": "tool", "tool_call_id": str(id), "content": "21"} for id, _ in calls
    ]
    answer = await setting.client.chat.completions.create(
        model="chat",
        messages=[HELLO, cast("ChatCompletionMessageParam", asked), *results],
        tools=TOOLS,
    )

    assert answer.choices[0].message.content == "Hello 🌍"
    turns = cast("list[dict[str, list[Json]]]", setting.sent()["messages"])
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    assert turns[1]["content"] == [
        {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "proof="}}},
        {"text": "I look."},
        {"toolUse": {"toolUseId": "tooluse_1", "name": "weather", "input": {"at": "A"}}},
        {"toolUse": {"toolUseId": "tooluse_2", "name": "clock", "input": {}}},
    ]
    assert turns[2]["content"] == [
        {"toolResult": {"toolUseId": id, "content": [{"text": "21"}]}} for id, _ in calls
    ]


async def test_a_throttling_server_is_retried_and_then_abandoned(setting: Setting) -> None:
    with pytest.raises(openai.RateLimitError, match="aws: Too many requests"):
        await setting.client.chat.completions.create(
            model="chat", messages=[{"role": "user", "content": FAILING}]
        )

    assert len(setting.server.requests) > 1


async def test_what_converse_cannot_express_is_refused_by_name(setting: Setting) -> None:
    with pytest.raises(openai.BadRequestError, match="seed") as caught:
        await setting.client.chat.completions.create(model="chat", messages=[HELLO], seed=1)

    assert caught.value.param == "seed"
    assert not setting.server.requests


async def test_texts_become_vectors(setting: Setting) -> None:
    one = await setting.client.embeddings.create(model="titan", input="one", dimensions=256)
    two = await setting.client.embeddings.create(
        model="cohere", input=["one", "two"], extra_body={"input_type": "search_query"}
    )

    assert [one.embedding for one in one.data] == [[0.5, -1.0]]
    assert one.usage.prompt_tokens == 4
    assert [one.embedding for one in two.data] == [[0.5, -1.0], [0.5, -1.0]]
    assert setting.server.requests[0].json == {"inputText": "one", "dimensions": 256}
    assert setting.sent() == {"texts": ["one", "two"], "input_type": "search_query"}


async def test_texts_for_a_model_that_takes_one_go_one_by_one(setting: Setting) -> None:
    answer = await setting.client.embeddings.create(model="titan", input=["one", "two"])

    assert [one.index for one in answer.data] == [0, 1]
    assert answer.usage.prompt_tokens == 8
    assert [one.json for one in setting.server.requests] == [
        {"inputText": "one"},
        {"inputText": "two"},
    ]


SIGNING = """
providers:
  - name: aws
    adapter: bedrock
    base_url: {url}
    aws: {{region: eu-west-1, access_key_id: AKIDEXAMPLE, secret_access_key: of-the-operator}}
models:
  - name: chat
    backends: [{{provider: aws, model: "{arn}"}}]
"""
ARN = "arn:aws:bedrock:eu-west-1:000000000000:inference-profile/eu.anthropic.claude-x-v1:0"


@pytest.mark.parametrize("stream", [False, True])
async def test_without_a_key_every_request_is_signed(tmp_path: Path, stream: bool) -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(provider(bedrock))
        config = SIGNING.format(url=server.origin, arn=ARN)
        gateway = await stack.enter_async_context(serving(config, tmp_path))
        client = openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="x", max_retries=0)
        await stack.enter_async_context(client)
        answer = await client.chat.completions.create(model="chat", messages=[HELLO], stream=stream)
        if isinstance(answer, openai.AsyncStream):
            assert [chunk async for chunk in answer]

    request = server.requests[-1]
    assert "%3Ainference-profile%2Feu.anthropic" in request.path
    assert signed_by(request, {"AKIDEXAMPLE": "of-the-operator"}) == ("AKIDEXAMPLE", "eu-west-1")


def test_a_region_is_address_enough() -> None:
    text = """
providers: [{name: aws, adapter: bedrock, api_key: k, aws: {region: eu-west-1}}]
models: [{name: chat, backends: [{provider: aws, model: m}]}]
"""

    config = read_config(text, source="config.yaml", env={})

    assert config.providers[0].base_url == "https://bedrock-runtime.eu-west-1.amazonaws.com"


@pytest.mark.parametrize(
    ("host", "region"),
    [
        ("bedrock-runtime.us-east-1.amazonaws.com", "us-east-1"),
        ("bedrock-runtime-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
        ("vpce-0a1b-2c3d.bedrock-runtime.eu-west-1.vpce.amazonaws.com", "eu-west-1"),
        ("bedrock-runtime.eu-central-1.api.aws", "eu-central-1"),
        ("proxy.test", ""),
    ],
)
def test_an_address_of_aws_contains_its_region(host: str, region: str) -> None:
    assert aws_region(Aws(), f"https://{host}") == region
