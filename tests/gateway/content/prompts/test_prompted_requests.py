"""Requests that name a prompt: what the vendor gets, what clients see, and what is recorded."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from openai.types.responses import ResponseCompletedEvent

from tests.gateway.content.prompts.prompted import (
    TEXTS,
    messages,
    past,
    prompted_gateway,
    recorded,
    send,
    texts,
    written,
)
from tests.gateway.content.stored_responses.archives import ON, archived, ask
from tests.gateway.serving import Serving
from tests.stand_ins.provider import Provider

pytestmark = pytest.mark.anyio

HI = [{"role": "user", "content": "hi"}]
COMPANY = "You help customers of Example Ltd."
Gateway = tuple[Serving, Provider]


@pytest.fixture(scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Gateway, None]:
    async with prompted_gateway(tmp_path_factory.mktemp("run")) as found:
        yield found


def error_of(answer: Any) -> tuple[str, str]:
    error = answer.json()["error"]
    return error["param"], error["message"]


async def test_a_request_without_a_prompt_is_sent_as_it_is(gateway: Gateway) -> None:
    running, vendor = gateway

    answer = await send(running, {"messages": HI})

    assert answer.status_code == 200
    assert texts(vendor) == [("user", "hi")]
    assert not recorded(running)


async def test_a_client_of_ollamas_loads_a_model_and_names_a_prompt(gateway: Gateway) -> None:
    running, vendor = gateway
    before = len(vendor.requests)

    loaded = await send(running, {"messages": []}, path="/api/chat")
    sent = len(vendor.requests) - before
    await send(running, {"messages": HI, "prompt_id": "support"}, path="/api/chat")

    assert (loaded.json()["done_reason"], sent) == ("load", 0)
    assert texts(vendor) == [("system", COMPANY), ("user", "hi")]


async def test_a_request_without_a_version_gets_the_default_one(gateway: Gateway) -> None:
    running, vendor = gateway

    await send(running, {"messages": HI, "prompt_id": "support"})

    assert texts(vendor) == [("system", COMPANY), ("user", "hi")]
    assert vendor.requests[-1].json.keys().isdisjoint({"prompt_id", "prompt_version"})
    found = recorded(running)
    assert found["prompt"] == "support@1"
    assert len(str(found["prompt_digest"])) == 12


@pytest.mark.parametrize("version", ["2", 2])
async def test_a_request_gets_the_version_that_it_names_with_its_values(
    gateway: Gateway, version: object
) -> None:
    running, vendor = gateway
    body = {
        "messages": [{"role": "system", "content": "Answer in German."}, *HI],
        "prompt_id": "support",
        "prompt_version": version,
        "prompt_variables": {"customer": "{{ company }}", "company": "Acme"},
    }

    await send(running, body)

    assert texts(vendor) == [
        ("system", "You help {{ company }} of Acme.\n\nAnswer in German."),
        ("user", "My name is {{ company }}."),
        ("assistant", "Hello!"),
        ("user", "hi"),
    ]
    assert recorded(running)["prompt"] == "support@2"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_header_names_a_prompt_for_clients_that_cannot_add_fields(
    gateway: Gateway, stream: bool
) -> None:
    running, vendor = gateway
    headers = {"x-gateway-prompt": "support@1"}

    answer = await send(running, {"messages": HI, "stream": stream}, headers=headers)

    assert answer.status_code == 200
    assert texts(vendor)[0] == ("system", COMPANY)


@pytest.mark.parametrize("given", [{}, {"messages": []}])
async def test_a_prompt_with_a_user_section_needs_no_message(
    gateway: Gateway, given: dict[str, object]
) -> None:
    running, vendor = gateway

    await send(running, {**given, "prompt_id": "summary", "prompt_variables": {"text": "x"}})

    assert texts(vendor) == [("system", "Be brief."), ("user", "Summarise: x")]


async def test_openais_client_names_a_prompt_in_the_responses_api(gateway: Gateway) -> None:
    running, vendor = gateway
    base = f"{running.url}/v1"

    async with openai.AsyncOpenAI(base_url=base, api_key="x", max_retries=0) as client:
        whole = await client.responses.create(
            model="chat",
            prompt={
                "id": "support",
                "version": "2",
                "variables": {"customer": {"type": "input_text", "text": "Ada"}},
            },
            input="hi",
            instructions="Answer in German.",
        )
        sent = texts(vendor)
        stream = await client.responses.create(
            model="chat", prompt={"id": "summary", "variables": {"text": "x"}}, stream=True
        )
        events = [event async for event in stream]

    last = events[-1]
    assert isinstance(last, ResponseCompletedEvent)
    assert whole.output_text == "hello"
    for response, version in ((whole, "2"), (last.response, None)):
        assert response.prompt is not None
        assert response.prompt.version == version
    assert whole.prompt is not None
    assert whole.prompt.id == "support"
    assert sent == [
        ("system", "You help Ada of Example Ltd.\n\nAnswer in German."),
        ("user", "My name is Ada."),
        ("assistant", "Hello!"),
        ("user", "hi"),
    ]
    assert texts(vendor) == [("system", "Be brief."), ("user", "Summarise: x")]


async def test_anthropics_client_names_a_prompt_in_its_extra_body(gateway: Gateway) -> None:
    running, vendor = gateway

    async with anthropic.AsyncAnthropic(base_url=running.url, api_key="x") as client:
        await client.messages.create(
            model="chat",
            max_tokens=10,
            system="Answer in German.",
            messages=[],
            extra_body={"prompt_id": "summary", "prompt_variables": {"text": "x"}},
        )

    assert texts(vendor) == [
        ("system", "Be brief.\n\nAnswer in German."),
        ("user", "Summarise: x"),
    ]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/messages/count_tokens", {"messages": HI}),
        ("/v1/responses/input_tokens", {"input": "hi"}),
    ],
)
async def test_tokens_are_counted_with_the_prompt(
    gateway: Gateway, path: str, body: dict[str, object]
) -> None:
    running, _ = gateway
    values = {"customer": "Ada " * 100}

    bare = await send(running, body, path)
    more = {"prompt_id": "support", "prompt_version": "2", "prompt_variables": values}
    prompted = await send(running, {**body, **more}, path)

    assert prompted.json()["input_tokens"] >= bare.json()["input_tokens"] + 150


@pytest.mark.parametrize(
    ("given", "status", "field", "says"),
    [
        ({"prompt_id": "suport"}, 404, "prompt_id", 'did you mean "support"?'),
        (
            {"prompt_id": "support", "prompt_version": "7"},
            404,
            "prompt_version",
            'support has no version \'7\'; versions: "1", "2"',
        ),
        (
            {"prompt_id": "support", "prompt_version": 2, "prompt_variables": {"custmer": "x"}},
            400,
            "prompt_variables.customer",
            "the prompt support@2 has the fields customer, company (optional), and no 'custmer'",
        ),
        (
            {"prompt_id": "support", "prompt_variables": {"company": [7]}},
            400,
            "prompt_variables.company",
            "must be a string",
        ),
        (
            {"prompt_id": "support", "prompt_variables": {"company": "x" * 2001}},
            400,
            "prompt_variables.company",
            "has 2001 characters; the prompt support takes at most 2000",
        ),
        ({"prompt_variables": {"a": "b"}}, 400, "prompt_id", "needs prompt_id"),
        ({"prompt": "support"}, 400, "prompt", "an object with id, version and variables"),
        ({"prompt_version": "1"}, 400, "prompt_id", "needs prompt_id"),
        ({"prompt_id": "support", "prompt_variables": []}, 400, "prompt_variables", "an object"),
        ({"prompt_id": ["support"]}, 400, "prompt_id", "must be a string"),
        ({"prompt": {"id": "support", "x": 1}}, 400, "prompt", "no 'x'"),
        ({"prompt": {"version": "1"}}, 400, "prompt.id", "is required"),
        ({"prompt": {"id": "support"}, "prompt_id": "support"}, 400, "prompt", "only one of them"),
    ],
)
async def test_an_error_names_the_field_and_what_exists(
    gateway: Gateway, given: dict[str, object], status: int, field: str, says: str
) -> None:
    running, vendor = gateway
    before = len(vendor.requests)

    answer = await send(running, {"messages": HI, **given})

    assert answer.status_code == status, answer.text
    param, message = error_of(answer)
    assert param == field
    assert says in message
    assert len(vendor.requests) == before


@pytest.mark.parametrize(
    ("path", "empty", "field"),
    [
        ("/v1/chat/completions", {"messages": []}, "messages"),
        ("/v1/chat/completions", {"messages": [], "prompt_id": "support"}, "messages"),
        ("/v1/messages", {"messages": [], "max_tokens": 5}, "messages"),
        ("/v1/responses", {}, "input"),
        ("/v1/responses", {"prompt": {"id": "support"}}, "input"),
    ],
)
async def test_a_conversation_that_no_prompt_begins_needs_a_message(
    gateway: Gateway, path: str, empty: dict[str, object], field: str
) -> None:
    running, _ = gateway

    answer = await send(running, empty, path)

    assert answer.status_code == 400
    assert f"{field} is empty" in answer.json()["error"]["message"]


async def test_a_value_that_no_field_takes_is_left_out_and_named(gateway: Gateway) -> None:
    running, _ = gateway
    values = {"company": "Acme", "mood": "x", "odd name\r\n": "y"}

    chat = await send(running, {"messages": HI, "prompt_id": "support", "prompt_variables": values})
    response = await send(
        running,
        {"input": "hi", "prompt": {"id": "support", "variables": values}},
        "/v1/responses",
    )

    assert chat.headers["x-gateway-repairs"] == (
        "prompt_variables.mood:unused_variable, prompt_variables:unused_variable"
    )
    assert response.headers["x-gateway-repairs"] == (
        "prompt.variables.mood:unused_variable, prompt.variables:unused_variable"
    )


@pytest.mark.parametrize(
    ("value", "text"), [(30, "30"), (-0.5, "-0.5"), (10**30, "1" + "0" * 30), (True, "true")]
)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_number_or_boolean_is_a_text_and_named(
    gateway: Gateway, stream: bool, value: object, text: str
) -> None:
    running, vendor = gateway
    values = {"company": value, "mood": 3}
    of_chat = {"messages": HI, "prompt_id": "support", "prompt_variables": values}
    of_responses = {"input": "hi", "prompt": {"id": "support", "variables": values}}
    tried = (
        ("/v1/chat/completions", of_chat, "prompt_variables"),
        ("/v1/messages", {**of_chat, "max_tokens": 9}, "prompt_variables"),
        ("/v1/responses", of_responses, "prompt.variables"),
    )

    for path, body, field in tried:
        answer = await send(running, {**body, "stream": stream}, path)

        assert answer.status_code == 200, answer.text
        assert texts(vendor)[0] == ("system", f"You help customers of {text}.")
        assert answer.headers["x-gateway-repairs"] == (
            f"{field}.mood:unused_variable, {field}.company:as_text"
        )


@pytest.mark.parametrize(
    "given", [{"prompt_id": None, "prompt_variables": None}, {"prompt_variables": {}}]
)
async def test_fields_that_say_nothing_name_no_prompt(
    gateway: Gateway, given: dict[str, object]
) -> None:
    running, vendor = gateway

    answer = await send(running, {"messages": HI, **given})

    assert answer.status_code == 200, answer.text
    assert texts(vendor) == [("user", "hi")]
    assert "prompt_variables" not in vendor.requests[-1].json


@pytest.mark.parametrize(
    ("path", "body"),
    [("/v1/completions", {"prompt": "hi"}), ("/v1/embeddings", {"input": "hi"})],
)
async def test_prompts_are_for_conversations(
    gateway: Gateway, path: str, body: dict[str, object]
) -> None:
    running, _ = gateway

    plain = await send(running, body, path)
    answer = await send(running, {**body, "prompt_id": "support"}, path)

    assert plain.status_code == 200
    assert answer.status_code == 400
    assert error_of(answer)[0] == "prompt_id"


async def test_a_continued_response_that_names_its_prompt_again_begins_with_it(
    tmp_path: Path,
) -> None:
    async with archived(tmp_path, f"{ON}\n{written(tmp_path)}") as up:
        prompt = {"id": "support", "version": "2", "variables": {"customer": "Ada"}}
        first = await ask(up.ann, input="one", prompt=prompt)
        await ask(up.ann, input="two", prompt=prompt, previous_response_id=first.id)

        assert [one["content"] for one in up.sent()] == [
            "You help Ada of Example Ltd.",
            "My name is Ada.",
            "Hello!",
            "one",
            first.output_text,
            "two",
        ]


async def test_guardrails_and_the_cache_see_the_rendered_prompt(tmp_path: Path) -> None:
    more = (
        "guardrails: [{name: names, use: patterns, where: input, mode: mask, "
        "settings: {patterns: [{name: name, regex: Ada}]}}]\n"
        "cache: {}\n"
    )
    async with prompted_gateway(tmp_path, more) as (running, vendor):

        async def asked(customer: str) -> str:
            body: dict[str, object] = {
                "messages": HI,
                "prompt_id": "support",
                "prompt_version": "2",
                "prompt_variables": {"customer": customer},
            }
            answer = await send(running, body, headers={"x-gateway-cache": "on"})
            assert answer.status_code == 200, answer.text
            return answer.headers["x-gateway-cache"]

        assert [await asked(one) for one in ("Bob", "Bob", "Eve", "Ada")] == [
            "miss",
            "hit",
            "miss",
            "bypass",
        ]
        assert "Ada" not in str(messages(vendor))


async def test_operators_see_the_prompt_of_a_request(gateway: Gateway) -> None:
    running, _ = gateway

    answer = await send(running, {"messages": HI, "prompt_id": "support"})

    assert (await past(running, answer))["attributes"]["prompt"] == "support@1"


async def test_limits_count_the_rendered_prompt(tmp_path: Path) -> None:
    more = "limits: [{name: tokens, who: {any: true}, tokens: 200}]"
    async with prompted_gateway(tmp_path, more) as (running, vendor):
        body: dict[str, object] = {"messages": HI, "max_tokens": 5, "prompt_id": "summary"}
        short = await send(running, {**body, "prompt_variables": {"text": "x"}})
        long = await send(running, {**body, "prompt_variables": {"text": "word " * 200}})

    assert (short.status_code, long.status_code) == (200, 429)
    assert long.json()["error"]["code"] == "limit_exceeded"
    assert len(vendor.requests) == 1


async def test_a_mirror_gets_the_rendered_prompt(tmp_path: Path) -> None:
    async with prompted_gateway(tmp_path, "", "mirror: {backend: a/copy, share: 1}") as found:
        running, vendor = found
        await send(running, {"messages": HI, "prompt_id": "support"})
        await vendor.until(lambda: len(vendor.requests) == 2)

        bodies = {str(one.json["model"]): one.json["messages"] for one in vendor.requests}

    assert bodies["m"] == bodies["copy"]
    assert COMPANY in str(bodies["copy"])


async def test_a_prompt_cannot_become_larger_than_a_body_may_be(tmp_path: Path) -> None:
    """Clients cannot make a text many times as long as what they send."""
    files = {**TEXTS, "support@1": "{{ company }}" * 50}
    async with prompted_gateway(tmp_path, "server: {max_body_bytes: 20000}", "", files) as (
        running,
        vendor,
    ):
        body: dict[str, object] = {"messages": HI, "prompt_id": "support"}
        fits = await send(running, {**body, "prompt_variables": {"company": "x" * 400}})
        large = await send(running, {**body, "prompt_variables": {"company": "x" * 401}})

    assert fits.status_code == 200
    assert large.status_code == 400
    assert error_of(large) == (
        "prompt_variables",
        "prompt_variables: support@1 becomes 20050 characters with these values; at most 20000 "
        "are allowed",
    )
    assert len(vendor.requests) == 1
