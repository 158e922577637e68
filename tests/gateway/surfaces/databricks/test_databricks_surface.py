"""The request tables of the Databricks seed against the local engine, field by field."""

import json
from collections.abc import AsyncGenerator
from typing import cast

import httpx
import pytest

from tests.gateway.serving import Serving
from tests.gateway.surfaces.databricks.databricks_seed import (
    BODIES,
    INSTRUCTION,
    TABLES,
    Field,
    sent,
)

pytest.importorskip("torch")

pytestmark = pytest.mark.anyio

CONFIG = """
providers:
  - {here}
models:
  - {{name: chat, backends: [{{provider: here, model: tiny}}]}}
  - {{name: caller, backends: [{{provider: here, model: caller}}]}}
  - {{name: org/embed, backends: [{{provider: here, model: mini}}]}}
"""
MODELS = {"chat": "chat", "completions": "chat", "embeddings": "org/embed"}
PATHS = {"chat": "chat/completions", "completions": "completions", "embeddings": "embeddings"}
ROWS = [
    pytest.param(table, field, id=f"{table}-{field.name}")
    for table, fields in TABLES.items()
    for field in fields
]
NEEDS_TOOLS = {"tools", "tool_choice"}
"""The bundled model knows none."""

QUESTION, ANSWER = "What is 17 + 25?", "17 + 25 = 42."
LONG = "How many? " * 400
"""More tokens than the model reads here."""


@pytest.fixture
async def client(gateway: Serving) -> AsyncGenerator[httpx.AsyncClient, None]:
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
        yield client


class Completed:
    """The answer to a completion at temperature 0."""

    def __init__(self, answer: httpx.Response) -> None:
        assert answer.status_code == 200, answer.text
        self.body = cast(dict[str, object], answer.json())
        choices = cast(list[dict[str, object]], self.body["choices"])
        self.texts = [cast(str, one["text"]) for one in choices]
        self.indexes = [one["index"] for one in choices]
        self.finishes = [one["finish_reason"] for one in choices]
        self.usage = cast(dict[str, int], self.body["usage"])


async def complete(client: httpx.AsyncClient, **body: object) -> Completed:
    sent = {"prompt": QUESTION, "temperature": 0, **body}
    return Completed(await client.post("/serving-endpoints/chat/invocations", json=sent))


@pytest.mark.parametrize(("table", "field"), ROWS)
async def test_every_value_of_the_seeds_tables_is_answered(
    table: str, field: Field, client: httpx.AsyncClient
) -> None:
    model = "caller" if field.name in NEEDS_TOOLS else MODELS[table]
    for value in field.accepted:
        body = {"max_tokens": 24, **sent(table, field, value)}
        if table == "embeddings":
            del body["max_tokens"]

        invoked = await client.post(f"/serving-endpoints/{model}/invocations", json=body)
        named = await client.post(
            f"/serving-endpoints/{PATHS[table]}", json={**body, "model": model}
        )

        for answer in (invoked, named):
            assert answer.status_code == 200, f"{value}: {answer.text}"
            kind = "text/event-stream" if body.get("stream") else "application/json"
            assert answer.headers["content-type"].startswith(kind)
            assert answer.headers["served-model-name"].startswith("here/")
            assert "x-gateway-dropped-params" not in answer.headers


@pytest.mark.parametrize(("table", "field"), ROWS)
async def test_every_other_value_is_refused_in_the_services_envelope(
    table: str, field: Field, client: httpx.AsyncClient
) -> None:
    for value in field.bad:
        body = sent(table, field, value)
        path = f"/serving-endpoints/{MODELS[table]}/invocations"

        answer = await client.post(path, json=body)

        error = answer.json()
        assert answer.status_code == 400, f"{value}: {answer.text}"
        assert set(error) == {"error_code", "message"}
        assert error["error_code"] == "BAD_REQUEST"
        assert field.name in error["message"]


@pytest.mark.parametrize("table", TABLES)
async def test_an_answer_has_every_field_of_the_seeds_tables(
    table: str, client: httpx.AsyncClient
) -> None:
    path = f"/serving-endpoints/{MODELS[table]}/invocations"

    answer = (await client.post(path, json={**BODIES[table]})).json()

    if table == "embeddings":
        assert answer["object"] == "list"
        assert set(answer["data"][0]) == {"object", "index", "embedding"}
        assert "completion_tokens" not in answer["usage"]
    else:
        chat = table == "chat"
        assert answer["object"] == ("chat.completion" if chat else "text_completion")
        assert {"index", "message" if chat else "text", "finish_reason"} <= set(
            answer["choices"][0]
        )
        assert answer["created"] > 1_700_000_000
        assert answer["usage"]["completion_tokens"] > 0
    assert answer["id"]
    assert answer["model"]
    assert answer["usage"]["total_tokens"] >= answer["usage"]["prompt_tokens"] > 0


async def test_a_stream_names_the_role_first_and_the_reason_last(
    client: httpx.AsyncClient,
) -> None:
    body = {**BODIES["chat"], "stream": True, "temperature": 0}

    answer = await client.post("/serving-endpoints/chat/invocations", json=body)

    frames = answer.text.removesuffix("\n\n").split("\n\n")
    chunks = [json.loads(frame.removeprefix("data: ")) for frame in frames[:-1]]
    choices = [chunk["choices"][0] for chunk in chunks]
    assert frames[-1] == "data: [DONE]"
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert ["role" in choice["delta"] for choice in choices] == [True] + [False] * len(choices[1:])
    assert [choice["finish_reason"] for choice in choices][:-1] == [None] * len(choices[1:])
    assert choices[-1]["finish_reason"] == "stop"
    *begun, ending = (chunk["usage"] for chunk in chunks)
    assert begun == [{**ending, "completion_tokens": None, "total_tokens": None}] * len(begun)
    assert ending["completion_tokens"] > 0
    assert ending["total_tokens"] == ending["prompt_tokens"] + ending["completion_tokens"]


async def test_a_prompt_is_sent_as_a_chat_unless_it_is_raw(client: httpx.AsyncClient) -> None:
    asked = await complete(client)
    raw = await complete(client, use_raw_prompt=True, max_tokens=8)

    assert asked.texts == [ANSWER]
    assert raw.texts != [ANSWER]
    assert raw.usage["prompt_tokens"] < asked.usage["prompt_tokens"]


async def test_a_completion_continues_past_sixteen_tokens_without_a_limit(
    client: httpx.AsyncClient,
) -> None:
    endless = await complete(client, ignore_eos=True)
    short = await complete(client, ignore_eos=True, max_tokens=5)

    assert endless.usage["completion_tokens"] > 100
    assert endless.finishes == ["length"]
    assert short.usage["completion_tokens"] == 5


@pytest.mark.parametrize("stream", [False, True])
async def test_the_prompt_comes_before_an_answer_and_the_suffix_after_it(
    stream: bool, client: httpx.AsyncClient
) -> None:
    body = {
        "prompt": [QUESTION, "What is 1 + 2?"],
        "temperature": 0,
        "echo": True,
        "suffix": " -- the end",
        "stream": stream,
    }

    answer = await client.post("/serving-endpoints/chat/invocations", json=body)

    texts = ["", ""]
    if stream:
        for frame in answer.text.strip().split("\n\n")[:-1]:
            choice = json.loads(frame.removeprefix("data: "))["choices"][0]
            texts[choice["index"]] += choice["text"]
    else:
        texts = Completed(answer).texts
    assert texts == [f"{QUESTION}{ANSWER} -- the end", "What is 1 + 2?1 + 2 = 3. -- the end"]


@pytest.mark.parametrize(("n", "indexes"), [(None, [0, 1, 2]), (1, [0, 1, 2]), (2, [0, 1, 2, 3])])
async def test_a_choices_index_is_that_of_its_prompt(
    n: int | None, indexes: list[int], client: httpx.AsyncClient
) -> None:
    """With n answers to each prompt, prompt x n and the answer's own."""
    prompts = [f"What is {number} + 2?" for number in range(1, 4)][: len(indexes) // (n or 1)]

    answer = await complete(client, prompt=prompts, n=n, echo=True)

    assert answer.indexes == indexes
    for index, text in zip(answer.indexes, answer.texts, strict=True):
        assert text.startswith(prompts[cast(int, index) // (n or 1)])


@pytest.mark.parametrize("behaviour", [None, "error"])
async def test_a_prompt_that_is_too_long_is_an_error(
    behaviour: str | None, client: httpx.AsyncClient
) -> None:
    body = {"prompt": LONG, "error_behavior": behaviour, "max_tokens": 5}

    answer = await client.post("/serving-endpoints/chat/invocations", json=body)

    assert answer.status_code == 400
    assert answer.json()["error_code"] == "BAD_REQUEST"
    assert "1024" in answer.json()["message"]


async def test_a_prompt_that_is_too_long_is_cut_if_the_client_would_have_it(
    client: httpx.AsyncClient,
) -> None:
    answer = await complete(client, prompt=LONG, error_behavior="truncate", max_tokens=5)

    assert 5 < answer.usage["prompt_tokens"] <= 1019
    assert answer.usage["completion_tokens"] <= 5


async def test_an_answer_whose_time_is_over_is_cut_if_the_client_would_have_it(
    client: httpx.AsyncClient,
) -> None:
    body = {"prompt": QUESTION, "ignore_eos": True, "n": 8, "timeout": 0.05}
    path = "/serving-endpoints/chat/invocations"

    late = await client.post(path, json=body)
    cut = await client.post(path, json={**body, "error_behavior": "truncate"})

    assert late.status_code == 504
    assert late.json()["error_code"] == "DEADLINE_EXCEEDED"
    assert set(Completed(cut).finishes) == {"length"}


async def test_an_instruction_goes_before_each_input(client: httpx.AsyncClient) -> None:
    path, text = "/serving-endpoints/org/embed/invocations", "the quick brown fox"

    async def vector(**body: object) -> list[float]:
        answer = await client.post(path, json=body)
        return cast(list[float], answer.json()["data"][0]["embedding"])

    plain = await vector(input=text)
    instructed = await vector(input=text, instruction="query : ")
    quoted = await vector(input=text, instruction=INSTRUCTION)

    assert instructed == pytest.approx(await vector(input=f"query : {text}"), abs=1e-6)
    assert quoted == pytest.approx(await vector(input=f"{INSTRUCTION}{text}"), abs=1e-6)
    assert instructed != pytest.approx(plain, abs=1e-3)


async def test_tools_are_called_and_their_results_read(client: httpx.AsyncClient) -> None:
    """The seed's ToolChoiceObject, with its own function name."""
    field = next(one for one in TABLES["chat"] if one.name == "tool_choice")
    choice = {"type": "function", "function": {"name": "my_function"}}
    path = "/serving-endpoints/caller/invocations"

    asked = {**sent("chat", field, choice), "parallel_tool_calls": False, "seed": 1}
    answer = (await client.post(path, json=asked)).json()
    message = answer["choices"][0]["message"]
    (call,) = message["tool_calls"]
    result = {"role": "tool", "tool_call_id": call["id"], "content": "42"}
    messages = [*cast(list[object], BODIES["chat"]["messages"]), message, result]
    after = await client.post(path, json={"messages": messages, "max_tokens": 16})

    assert call["function"]["name"] == "my_function"
    assert json.loads(call["function"]["arguments"])["a"] in (17, 25)
    assert answer["choices"][0]["finish_reason"] == "tool_calls"
    assert after.status_code == 200
