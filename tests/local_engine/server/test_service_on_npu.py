"""Every kind of request on an engine on the stand-in's NPU, against the same on a CPU."""

import asyncio
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import msgspec
import pytest
from msgspec import Raw, structs

from strowger_gateway.local_engine.config import LoraConfig
from strowger_gateway.local_engine.server.service import Service
from strowger_gateway.schemas.answers import Answer
from strowger_gateway.schemas.messages import ResponseFormat
from strowger_gateway.schemas.requests import GenerateRequest
from strowger_gateway.schemas.sampling import Sampling
from tests.local_engine.conftest import Folder
from tests.local_engine.embeddings.embedding_services import (
    embed,
    embedding_config,
    inputs,
    listed,
)
from tests.local_engine.embeddings.tiny_embedders import CASES, TEXTS, save_embedder
from tests.local_engine.peft.random_adapters import random_pairs, save_adapter
from tests.local_engine.services import MODEL, ask, chat, completion, config, serving
from tests.local_engine.stand_ins.npu_device import launched
from tests.local_engine.stand_ins.npu_graph import state
from tests.local_engine.stand_ins.npu_installed import npu_installed

pytestmark = pytest.mark.anyio

PROMPT = "the lazy dog jumps"
PLAIN = Sampling(temperature=0.9, seed=7, max_tokens=12, ignore_eos=True)


def only(**changes: object) -> Sampling:
    return msgspec.structs.replace(PLAIN, **changes)


def formed(form: ResponseFormat) -> GenerateRequest:
    request = chat("go on", Sampling(seed=1, temperature=1.2, max_tokens=60))
    return msgspec.structs.replace(request, response_format=form)


REGEX = Raw(b'{"type": "regex", "pattern": "[a-m ]{5,20}\\\\d{3}!"}')
SCHEMA = Raw(
    b'{"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"],'
    b' "additionalProperties": false}'
)
SAMPLED = {
    "greedy": only(temperature=0.0),
    "seed": only(),
    "top-k": only(top_k=20),
    "top-p": only(top_p=0.8),
    "min-p": only(min_p=0.05),
    "typical-p": only(typical_p=0.7),
    "top-p that decays": only(top_p=0.9, top_p_decay=0.8, top_p_min=0.2),
    "log probabilities": only(logprobs=True, top_logprobs=4),
    "greedy log probabilities": only(temperature=0.0, logprobs=True, top_logprobs=1),
    "three choices": only(n=3),
    "the best of four": only(n=1, best_of=4),
    "beams": only(beam_width=3, n=2, temperature=0.0),
    "penalties": only(repetition_penalty=1.3, frequency_penalty=0.5, presence_penalty=0.3),
    "biases": only(logit_bias={5: 3.0, 9: -4.0}),
    "bans": only(bad_word_ids=((8,), (9, 10)), no_repeat_ngram_size=2, min_tokens=3),
    "stop strings": only(stop=("e",), max_tokens=40),
}
REQUESTS: dict[str, GenerateRequest] = {
    **{name: completion(PROMPT, sampling) for name, sampling in SAMPLED.items()},
    "a chat": chat(PROMPT, PLAIN),
    "tokens in and out": completion(tuple(range(40, 90)), PLAIN),
    "a regular expression": formed(ResponseFormat(type="opaque", raw=REGEX)),
    "a JSON schema": formed(ResponseFormat(type="json_schema", schema=SCHEMA)),
}


WITH_KERNELS = ("seed", "log probabilities", "min-p", "typical-p", "beams", "a JSON schema")


@pytest.fixture(scope="module", autouse=True)
def installed() -> Generator[None]:
    with npu_installed():
        yield


@pytest.fixture(scope="module")
def loras(folder: Folder, tmp_path_factory: pytest.TempPathFactory) -> tuple[LoraConfig, ...]:
    path = save_adapter(tmp_path_factory.mktemp("lora"), random_pairs(folder("llama"), 3))
    return (LoraConfig(name="adapted", path=str(path), base=MODEL),)


@pytest.fixture(scope="module")
async def here(folder: Folder, loras: tuple[LoraConfig, ...]) -> AsyncGenerator[Service, None]:
    settings = config(folder("llama"), device="cpu", kv_cache=1 << 22, loras=loras)
    async with serving(settings) as service:
        yield service


@pytest.fixture(scope="module")
async def there(folder: Folder, loras: tuple[LoraConfig, ...]) -> AsyncGenerator[Service, None]:
    settings = config(folder("llama"), device="npu", kv_cache=1 << 22, loras=loras)
    async with serving(settings) as service:
        yield service


def said(answer: Answer) -> list[tuple[str | None, list[tuple[str, int]]]]:
    """Texts, and the tokens of log probabilities with thousandths."""
    return [
        (choice.text, [(one.token, round(1000 * (one.logprob or 0))) for one in choice.logprobs])
        for choice in answer.choices
    ]


@pytest.mark.parametrize("kind", REQUESTS)
async def test_an_npu_gives_the_answer_of_the_cpu(kind: str, here: Service, there: Service) -> None:
    before = launched.get("index_select", 0)

    answer = await ask(there, REQUESTS[kind])

    expected = await ask(here, REQUESTS[kind])
    assert said(answer) == said(expected)
    assert any(choice.text for choice in answer.choices)
    assert launched["index_select"] > before, "the model ran on the device"


async def test_an_adapter_changes_the_answer_as_on_the_cpu(here: Service, there: Service) -> None:
    request = completion(PROMPT, only(temperature=0.0))

    adapted = [said(await ask(one, request, model="adapted")) for one in (here, there)]

    assert adapted[0] == adapted[1]
    assert adapted[0] != said(await ask(there, request))


async def test_all_kinds_in_one_batch_are_answered_as_alone(here: Service, there: Service) -> None:
    requests = [*REQUESTS.values()]

    together = await asyncio.gather(*(ask(there, request) for request in requests))

    alone = [said(await ask(here, request)) for request in requests]
    assert [said(answer) for answer in together] == alone


@pytest.mark.parametrize(
    "family", ["llama", pytest.param("gemma3_text", marks=pytest.mark.nightly)]
)
async def test_with_the_kernels_answers_complete_and_a_seed_replays(
    family: str, folder: Folder
) -> None:
    """Two-byte models use the NPU's kernels; answers without a seed, its sampling operator."""
    settings = config(folder(family), device="npu", dtype="bfloat16", kv_cache=1 << 23)
    free = completion(PROMPT, only(seed=None, top_k=20, top_p=0.9))
    requests = [REQUESTS[kind] for kind in WITH_KERNELS]
    captured = len(state.graphs)
    async with serving(settings) as service:
        first = await asyncio.gather(*(ask(service, one) for one in (*requests, free)))
        again = await ask(service, requests[0])
    assert any(one.replays > 1 for one in state.graphs[captured:]) == (family == "llama")

    for answer in first:
        for choice in answer.choices:
            assert choice.finish is not None
            assert choice.finish.reason in ("length", "stop")
    assert [choice.text for choice in again.choices] == [one.text for one in first[0].choices]


@pytest.mark.nightly
async def test_every_kind_of_request_is_answered_alike_with_graphs_and_without(
    folder: Folder,
) -> None:
    settings = config(folder("llama"), device="npu", dtype="float16", kv_cache=1 << 24)
    captured = len(state.graphs)
    answers: list[list[object]] = []
    for graphs in (True, False):
        async with serving(structs.replace(settings, graphs=graphs)) as service:
            answers.append([said(await ask(service, one)) for one in REQUESTS.values()])

    assert answers[0] == answers[1]
    assert sum(one.replays for one in state.graphs[captured:]) > 100


@pytest.mark.nightly
async def test_graphs_can_be_switched_off(folder: Folder) -> None:
    settings = config(folder("llama"), device="npu", dtype="bfloat16", kv_cache=1 << 23)
    captured = len(state.graphs)

    async with serving(structs.replace(settings, graphs=False)) as service:
        await ask(service, REQUESTS["greedy"])

    assert len(state.graphs) == captured


@pytest.mark.parametrize(
    "case",
    [
        "bert-cls",
        pytest.param("qwen3-last", marks=pytest.mark.nightly),
        pytest.param("gemma3-residual", marks=pytest.mark.nightly),
    ],
)
async def test_embeddings_are_those_of_the_cpu(
    case: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path: Path = save_embedder(tmp_path_factory.mktemp(case), CASES[case])
    vectors: list[list[list[float]]] = []
    for device in ("cpu", "npu"):
        async with serving(embedding_config(path, device=device, dtype="float32")) as service:
            vectors.append(listed(await embed(service, inputs(*TEXTS))))

    for ours, expected in zip(vectors[1], vectors[0], strict=True):
        assert ours == pytest.approx(expected, abs=1e-5)
