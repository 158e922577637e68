"""A MindIE server behind the gateway: what clients of every surface get from it."""

from pathlib import Path
from typing import cast

import pytest
from openai import AsyncOpenAI

from tests.gateway.backends.end_to_end.mindie_backend import Pair, chunks, pair
from tests.stand_ins.mindie_model import says, text_of

pytestmark = pytest.mark.anyio

SAID = says([5, 6, 7])
IDS = [one for one, _ in SAID]

Json = dict[str, object]


def choice(body: object) -> Json:
    return cast("list[Json]", cast("Json", body)["choices"])[0]


async def test_a_chat_is_answered_with_its_usage(tmp_path: Path) -> None:
    async with pair(tmp_path) as here:
        answer = await here.chat(max_completion_tokens=3)

        body = answer.json()
        assert answer.status_code == 200
        assert answer.headers["x-gateway-backend"] == "ascend/tiny-mindie"
        assert choice(body)["finish_reason"] == "length"
        assert "tool_calls" not in cast("Json", choice(body)["message"])
        assert body["usage"]["completion_tokens"] == 3
        (sent,) = here.server.bodies("/v1/chat/completions")
        assert sent["max_tokens"] == 3
        assert "max_completion_tokens" not in sent


async def test_the_official_client_streams_a_chat_with_usage_in_its_own_chunk(
    tmp_path: Path,
) -> None:
    async with (
        pair(tmp_path) as here,
        AsyncOpenAI(base_url=f"{here.gateway.url}/v1", api_key="none") as client,
    ):
        stream = await client.chat.completions.create(
            model="chat",
            messages=[{"role": "developer", "content": "Be brief."}],
            stream=True,
            stream_options={"include_usage": True},
        )
        found = [chunk async for chunk in stream]

        last = found[-1]
        assert last.choices == []
        assert last.usage is not None
        assert last.usage.completion_tokens == 7
        ends = [one.choices[0].finish_reason for one in found[:-1]]
        assert ends[-1] == "stop"
        assert "".join(one.choices[0].delta.content or "" for one in found[:-1])
        (sent,) = here.server.bodies("/v1/chat/completions")
        assert "stream_options" not in sent


async def test_a_stream_without_the_wish_for_usage_has_none(tmp_path: Path) -> None:
    async with pair(tmp_path) as here:
        answer = await here.chat(stream=True)

        assert all(not chunk.get("usage") for chunk in chunks(answer))
        (line,) = here.gateway.access_lines()
        assert line.completion_tokens == 7


async def test_several_choices_are_counted_together(tmp_path: Path) -> None:
    async with pair(tmp_path) as here:
        options = {"include_usage": True}
        answer = await here.chat(stream=True, n=2, temperature=0.5, stream_options=options)

        usage = cast("Json", chunks(answer)[-1]["usage"])
        assert usage["completion_tokens"] == 14
        assert usage["prompt_tokens"] == 4


async def test_an_answer_in_a_schema_and_its_thoughts_arrive(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"age": {"type": "integer"}}}
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": schema}}
    async with pair(tmp_path) as here:
        answer = await here.chat(
            response_format=form, chat_template_kwargs={"enable_thinking": True}
        )

        message = cast("Json", choice(answer.json())["message"])
        assert message["content"] == '{"age": 1}'
        assert "Let me think." in message.values()


async def test_log_probabilities_arrive(tmp_path: Path) -> None:
    async with pair(tmp_path) as here:
        answer = await here.chat(logprobs=True, top_logprobs=2, max_tokens=1)

        content = cast("list[Json]", cast("Json", choice(answer.json())["logprobs"])["content"])
        assert content[0]["logprob"] == -0.25
        assert len(cast("list[Json]", content[0]["top_logprobs"])) == 2


async def test_a_completion_goes_to_generate(tmp_path: Path) -> None:
    async with pair(tmp_path) as here:
        answer = await here.text(max_tokens=2, temperature=0)

        body = answer.json()
        assert choice(body)["finish_reason"] == "length"
        assert body["usage"] == {"prompt_tokens": 2, "completion_tokens": 2, "total_tokens": 4}
        assert here.server.bodies("/generate") == [
            {
                "inputs": "hi there",
                "parameters": {"details": True, "max_new_tokens": 2, "do_sample": False},
            }
        ]


async def test_a_streamed_completion_equals_a_whole_one(tmp_path: Path) -> None:
    async with pair(tmp_path) as here:
        whole = await here.text()
        streamed = await here.text(stream=True)

        text = "".join(str(choice(one)["text"]) for one in chunks(streamed))
        assert text == choice(whole.json())["text"]
        assert streamed.text.endswith("data: [DONE]\n\n")
        assert len(here.server.bodies("/generate_stream")) == 1


async def test_a_stop_string_ends_a_completion_and_is_not_in_it(tmp_path: Path) -> None:
    async with pair(tmp_path) as here:
        whole = choice((await here.text()).json())
        last = str(whole["text"]).split()[2]

        answer = choice((await here.text(stop=[last])).json())

        assert (answer["finish_reason"], answer["native_finish_reason"]) == (
            "stop",
            "stop_sequence",
        )
        assert last not in str(answer["text"])
        assert str(whole["text"]).startswith(str(answer["text"]))


@pytest.mark.parametrize("old", [False, True])
async def test_tokens_in_are_tokens_out(tmp_path: Path, old: bool) -> None:
    async with pair(tmp_path, old=old) as here:
        answer = await here.tokens(
            details=True, top_k=10, top_p=0.95, typical_p=0.5, seed=7, priority=2, timeout=10
        )

        assert answer.json() == {
            "generated_text": text_of(SAID),
            "details": {
                "finish_reason": "eos_token",
                "generated_tokens": len(SAID),
                "generated_token_ids": IDS,
                "seed": 7,
            },
        }
        assert answer.headers["x-gateway-dropped-params"] == "parameters.typical_p"
        (sent,) = here.server.bodies("/infer_token")
        assert sent == {
            "input_id": [5, 6, 7],
            "stream": True,
            "parameters": {
                "details": True,
                "max_new_tokens": 20,
                "top_k": 10,
                "top_p": 0.95,
                "do_sample": True,
                "seed": 7,
                "priority": 2,
                "timeout": 10,
            },
        }


@pytest.mark.parametrize("old", [False, True])
async def test_a_stream_of_tokens_keeps_the_servers_times(tmp_path: Path, old: bool) -> None:
    async with pair(tmp_path, old=old) as here:
        answer = await here.tokens(stream=True, details=True, max_new_tokens=3)

        frames = chunks(answer)
        assert [cast("Json", one["token"])["id"] for one in frames] == IDS[:3]
        assert [one["prefill_time"] for one in frames] == [45.5, None, None]
        assert [one["decode_time"] for one in frames] == [None, 16.75, 16.75]
        assert frames[-1]["generated_text"] == text_of(SAID[:3])
        assert cast("Json", frames[-1]["details"])["finish_reason"] == "length"
        assert "[DONE]" not in answer.text


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/v1/chat/completions", {"messages": [], "logit_bias": {"5": 1}}, "logit_bias"),
        ("/v1/chat/completions", {"messages": [], "store": True}, "store"),
        ("/v1/chat/completions", {"messages": [], "seed": -1}, "seed"),
        ("/v1/completions", {"prompt": "x", "logprobs": 1}, "logprobs"),
        ("/v1/completions", {"prompt": [1, 2]}, "prompt.tokens"),
        ("/v1/embeddings", {"input": "x"}, "embeddings"),
    ],
)
async def test_what_mindie_cannot_do_is_refused_by_name(
    tmp_path: Path, path: str, body: Json, field: str
) -> None:
    hello = [{"role": "user", "content": "hi"}]
    asked = {**body, "model": "chat", **({"messages": hello} if "messages" in body else {})}
    async with pair(tmp_path) as here:
        answer = await here.post(path, asked)

        assert answer.status_code == 400
        assert field in answer.json()["error"]["message"]
        assert not here.server.requests


async def test_errors_that_only_the_server_can_know_keep_its_message(tmp_path: Path) -> None:
    async with pair(tmp_path) as here:
        answer = await here.chat(n=2)

        assert answer.status_code == 422
        assert "when temperature is 0 or not set" in answer.json()["error"]["message"]


@pytest.mark.parametrize("seed", range(4))
async def test_however_the_network_cuts_the_bytes_the_answers_are_the_same(
    tmp_path: Path, seed: int
) -> None:
    async with pair(tmp_path, cut=seed) as here:
        streams = [await here.tokens(stream=True), await here.text(stream=True)]
        wholes = [await here.tokens(), await here.text()]

        assert chunks(streams[0])[-1]["generated_text"] == text_of(SAID)
        assert wholes[0].json() == {"generated_text": text_of(SAID)}
        text = "".join(str(choice(one)["text"]) for one in chunks(streams[1]))
        assert text == choice(wholes[1].json())["text"]
        assert await chat_text(here, stream=True) == await chat_text(here, stream=False)


async def chat_text(here: Pair, *, stream: bool) -> str:
    answer = await here.chat(stream=stream)
    if not stream:
        return str(cast("Json", choice(answer.json())["message"])["content"])
    deltas = [cast("Json", choice(one)["delta"]) for one in chunks(answer)]
    return "".join(str(one.get("content") or "") for one in deltas)
