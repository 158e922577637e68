"""A Triton server behind the gateway: text and tokens, whole and streamed, for any client."""

import asyncio
import json
from pathlib import Path

import numpy as np
import openai
import pytest
from tokenizers import Tokenizer

from tests.gateway.backends.end_to_end.triton_backend import (
    PROMPT,
    TOKENIZER,
    data_of,
    expected,
    expected_text,
    expected_tokens,
    pair,
    streamed_text,
)
from tests.gateway.surfaces.kserve import triton
from tests.stand_ins.triton_models import (
    END_ID,
    SIZE,
    Wanted,
    continuation,
    logits_of,
    logprob_of,
    text_of,
)

pytestmark = pytest.mark.anyio


async def test_openais_client_gets_a_completion_with_usage(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        async with openai.AsyncOpenAI(base_url=f"{both.gateway.url}/v1", api_key="x") as client:
            answer = await client.completions.create(
                model="text", prompt=PROMPT, max_tokens=8, seed=5
            )

    (choice,) = answer.choices
    assert choice.text == expected_text(8, seed=5)
    assert choice.finish_reason == "length"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (6, 8)


async def test_a_stream_is_the_whole_answer_in_pieces(tmp_path: Path) -> None:
    """An ensemble decodes each token by itself, BLS the text so far: a character in two tokens."""
    async with pair(tmp_path) as both:
        for bound in (1, 2, 8, 60):
            pieces = "".join(text_of([one]) for one in expected(bound))
            for model, streamed in (("text", pieces), ("bls", expected_text(bound))):
                whole = await both.text(model, max_tokens=bound)
                stream = await both.text(model, max_tokens=bound, stream=True)

                assert whole.json()["choices"][0]["text"] == expected_text(bound)
                assert streamed_text(stream) == streamed
                assert data_of(stream)[-1] == "[DONE]"


@pytest.mark.parametrize("stream", [False, True])
async def test_the_llm_apis_model_says_why_it_ended(tmp_path: Path, stream: bool) -> None:
    stop = text_of(expected(4)[3:])

    async with pair(tmp_path) as both:
        answer = await both.text("llm", stream=stream, stop=[stop])
        longer = await both.text("llm", stream=stream)

    if stream:
        assert streamed_text(answer) == expected_text(3)
        assert streamed_text(longer) == expected_text(8)
        return
    (choice,) = answer.json()["choices"]
    assert (choice["text"], choice["finish_reason"]) == (expected_text(3), "stop")
    assert longer.json()["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_stop_string_ends_the_answer_and_is_not_in_it(tmp_path: Path, stream: bool) -> None:
    stop = text_of(expected(4)[3:])

    async with pair(tmp_path) as both:
        answer = await both.text(stop=[stop], stream=stream)

    text = streamed_text(answer) if stream else answer.json()["choices"][0]["text"]
    assert text == expected_text(3)
    assert both.server.inferences[0].tensors["stop_words"].items == [stop]


async def test_several_answers_are_those_of_the_server(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        answer = (await both.text(n=3)).json()

    texts = [choice["text"] for choice in answer["choices"]]
    assert texts == [expected_text(8, seed) for seed in range(3)]
    assert answer["usage"]["completion_tokens"] == sum(len(expected(8, one)) for one in range(3))


async def test_a_completion_without_a_limit_gets_the_dialects_own_and_reports_it(
    tmp_path: Path,
) -> None:
    async with pair(tmp_path) as both:
        answer = await both.text(max_tokens=None)

    assert answer.json()["choices"][0]["text"] == expected_text(16)
    assert answer.headers["x-gateway-defaulted-params"] == "max_tokens=16"


async def test_the_operator_can_give_the_bound(tmp_path: Path) -> None:
    async with pair(tmp_path, defaults=", defaults: {max_tokens: 3}") as both:
        answer = await both.text(max_tokens=None)

    assert answer.json()["choices"][0]["text"] == expected_text(3)


async def test_routing_finds_the_provider_that_can_take_the_request(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        text = await both.text("either")
        tokens = await both.tokens("either", max_new_tokens=3)

    assert text.headers["x-gateway-backend"] == "trt/ensemble"
    assert tokens.headers["x-gateway-backend"] == "ids/tensorrt_llm"
    assert [one.door for one in both.server.inferences] == ["generate", "infer"]


@pytest.mark.parametrize(("model", "door"), [("tokens", "infer"), ("live", "generate")])
async def test_mindies_client_reaches_tensorrt_llm(tmp_path: Path, model: str, door: str) -> None:
    async with pair(tmp_path) as both:
        answer = await both.tokens(
            model,
            max_new_tokens=6,
            seed=4,
            do_sample=True,
            temperature=0.5,
            top_k=7,
            top_p=0.75,
            repetition_penalty=1.25,
            details=True,
        )

    details = answer.json()["details"]
    assert details["generated_token_ids"] == expected_tokens(6, seed=4)
    assert details["finish_reason"] == "length"
    (asked,) = both.server.inferences
    assert asked.door == door
    carried = {name: one.items for name, one in asked.tensors.items()}
    assert carried == {
        "input_ids": [5, 6, 7],
        "input_lengths": [3],
        "request_output_len": [6],
        "exclude_input_in_output": [True],
        "seed": [4],
        "temperature": [0.5],
        "runtime_top_k": [7],
        "runtime_top_p": [0.75],
        "repetition_penalty": [1.25],
    }


@pytest.mark.parametrize("model", ["tokens", "live"])
async def test_mindies_client_gets_a_stream_of_tokens(tmp_path: Path, model: str) -> None:
    async with pair(tmp_path) as both:
        answer = await both.tokens(model, stream=True, max_new_tokens=5)

    ids = [json.loads(one)["token"]["id"] for one in data_of(answer)]
    assert ids == expected_tokens(5)


def asked(bound: int, **more: triton.Array) -> dict[str, triton.Array]:
    return {
        "input_ids": np.array([[5, 6, 7]], np.int32),
        "request_output_len": np.array([[bound]], np.int32),
        **more,
    }


async def test_a_client_of_tritons_text_models_reaches_one_through_the_gateway(
    tmp_path: Path,
) -> None:
    body = {
        "text_input": PROMPT,
        "max_tokens": 6,
        "random_seed": 3,
        "return_num_output_tokens": True,
    }

    async with pair(tmp_path) as both:
        whole = await both.post("/v2/models/text/generate", body)
        stream = await both.post("/v2/models/bls/generate_stream", {**body, "stream": True})

    assert whole.json()["text_output"] == expected_text(6, seed=3)
    assert whole.json()["num_output_tokens"] == 6
    pieces = [json.loads(one)["text_output"] for one in data_of(stream)]
    assert "".join(pieces) == expected_text(6, seed=3)


async def test_tritons_own_client_reaches_triton_through_the_gateway(tmp_path: Path) -> None:
    tensors = asked(
        4,
        random_seed=np.array([[9]], np.uint64),
        return_log_probs=np.array([[True]]),
        end_id=np.array([[50]], np.int32),
    )

    async with pair(tmp_path) as both:
        answer = await asyncio.to_thread(triton.infer, both.gateway.url, "tokens", tensors)

    ids = expected_tokens(4, seed=9)
    assert answer.tensors["output_ids"].flatten().tolist() == ids
    scores = [logprob_of(one) for one in ids]
    assert answer.tensors["output_log_probs"].flatten().tolist() == scores
    assert answer.tensors["cum_log_probs"].flatten().tolist() == [sum(scores)]
    assert both.server.inferences[0].tensors["seed"].items == [9]


@pytest.mark.parametrize("datatype", ["FP32", "FP16"])
async def test_logits_cross_the_gateway_for_every_type_of_the_engine(
    tmp_path: Path, datatype: str
) -> None:
    flag = np.array([[True]])

    async with pair(tmp_path) as both:
        both.server.logits = datatype
        tensors = asked(2, return_context_logits=flag, return_generation_logits=flag)
        answer = await asyncio.to_thread(triton.infer, both.gateway.url, "tokens", tensors)

    context = answer.tensors["context_logits"].reshape(3, SIZE)
    generation = answer.tensors["generation_logits"].reshape(2, SIZE)
    assert context.tolist() == [logits_of(one) for one in (5, 6, 7)]
    assert generation.tolist() == [logits_of(one) for one in expected_tokens(2)]


async def test_tensors_of_an_adapter_cross_the_gateway(tmp_path: Path) -> None:
    table = np.arange(8, dtype=np.float16).reshape(1, 2, 4)
    bias = np.zeros((1, SIZE), np.float32)
    tensors = asked(
        2,
        prompt_embedding_table=table,
        prompt_vocab_size=np.array([[SIZE]], np.int32),
        embedding_bias=bias,
        bad_words_list=np.array([[[3, 4, 5], [2, 3, -1]]], np.int32),
    )

    async with pair(tmp_path) as both:
        await asyncio.to_thread(triton.infer, both.gateway.url, "tokens", tensors)

    (seen,) = both.server.inferences
    assert seen.tensors["prompt_embedding_table"].items == table.flatten().tolist()
    assert seen.tensors["embedding_bias"].shape == (1, SIZE)
    assert seen.tensors["bad_words_list"].items == [3, 4, 5, 2, 3, -1]


def text_read(ids: list[int]) -> str:
    return Tokenizer.from_file(str(TOKENIZER)).decode(ids)


def ids_read(text: str) -> list[int]:
    return Tokenizer.from_file(str(TOKENIZER)).encode(text).ids


@pytest.mark.parametrize("stream", [False, True])
async def test_text_reaches_a_model_of_tensors_through_the_providers_tokenizer(
    tmp_path: Path, stream: bool
) -> None:
    prompt = ids_read("12+5=")
    ids = continuation(prompt, Wanted(bound=6, end_id=END_ID))

    async with pair(tmp_path) as both:
        answer = await both.text("spelt", prompt="12+5=", max_tokens=6, stream=stream)

    text = streamed_text(answer) if stream else answer.json()["choices"][0]["text"]
    assert text == text_read(ids)
    carried = both.server.inferences[0].tensors
    assert carried["input_ids"].items == prompt
    assert carried["end_id"].items == [END_ID]


async def test_several_answers_of_a_model_that_gives_one_are_several_requests(
    tmp_path: Path,
) -> None:
    prompt = ids_read("12+5=")

    async with pair(tmp_path) as both:
        answer = await both.text("spelt", prompt="12+5=", max_tokens=4, n=2, seed=5)

    assert len(both.server.inferences) == 2
    seeds = [int(one.tensors["seed"].items[0]) for one in both.server.inferences]
    texts = [
        text_read(continuation(prompt, Wanted(bound=4, seed=seed, end_id=END_ID))) for seed in seeds
    ]
    assert sorted(one["text"] for one in answer.json()["choices"]) == sorted(texts)


async def test_beams_are_one_search_and_one_request(tmp_path: Path) -> None:
    tensors = asked(4, beam_width=np.array([[3]], np.int32))

    async with pair(tmp_path) as both:
        answer = await asyncio.to_thread(triton.infer, both.gateway.url, "tokens", tensors)

    beams = answer.tensors["output_ids"].reshape(3, 4).tolist()
    assert beams == [expected_tokens(4, seed) for seed in range(3)]
    assert len(both.server.inferences) == 1


KEYS = """
auth:
  mode: keys
  keys: [{name: team-a, key: key-of-team-a}, {name: team-b, key: key-of-team-b}]
"""


async def test_a_loras_id_is_its_keys_own_on_the_server_too(tmp_path: Path) -> None:
    tensors = asked(2, lora_task_id=np.array([[7]], np.uint64))

    async with pair(tmp_path, more=KEYS) as both:
        for team in ("team-a", "team-b", "team-a"):
            headers = {"authorization": f"Bearer key-of-{team}"}
            await asyncio.to_thread(
                triton.infer, both.gateway.url, "tokens", tensors, headers=headers
            )

    first, second, third = (one.tensors["lora_task_id"].items for one in both.server.inferences)
    assert first == third
    assert len({*first, *second, 7}) == 3


async def test_without_keys_a_loras_id_is_the_clients(tmp_path: Path) -> None:
    tensors = asked(2, lora_task_id=np.array([[7]], np.uint64))

    async with pair(tmp_path) as both:
        await asyncio.to_thread(triton.infer, both.gateway.url, "tokens", tensors)

    assert both.server.inferences[0].tensors["lora_task_id"].items == [7]
