"""The effect of each of TensorRT-LLM's LoRA and prompt-tuning tensors on an answer."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import msgspec
import pytest
import torch

from strowger_gateway.local_engine.config import LoraConfig
from strowger_gateway.local_engine.protocol.frames import decode_request, encode_request
from strowger_gateway.local_engine.server.service import Service
from strowger_gateway.schemas.errors import InvalidRequest, UpstreamBusy
from strowger_gateway.schemas.events import Tokens
from strowger_gateway.schemas.requests import LoraRequest, PromptTable, TokenRequest
from strowger_gateway.schemas.sampling import Sampling
from tests.local_engine.peft.random_adapters import (
    Pairs,
    random_pairs,
    save_adapter,
    save_merged,
    trt_lora,
    wire,
)
from tests.local_engine.services import MODEL, Oracle, chat, config, events, serving
from tests.local_engine.tiny import VOCABULARY as V
from tests.local_engine.tiny import save_model

pytestmark = pytest.mark.anyio

COUNT = 12
PROMPT = tuple(range(50, 70))
PLAIN = TokenRequest(
    model=MODEL,
    tokens=PROMPT,
    sampling=Sampling(temperature=0.0, max_tokens=COUNT, ignore_eos=True),
)
LARGEST_TASK = (1 << 64) - 1


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("base"), "llama", tie_word_embeddings=False)


@pytest.fixture(scope="module")
def pairs(base: Path) -> list[Pairs]:
    return [random_pairs(base, seed) for seed in range(4)]


@pytest.fixture(scope="module")
def oracles(
    base: Path, pairs: list[Pairs], tmp_path_factory: pytest.TempPathFactory
) -> list[list[int]]:
    """Return the answers of models with merged adapters to PROMPT; the last one has no adapter."""
    folder = tmp_path_factory.mktemp("merged")
    folders = [save_merged(folder / str(i), base, each) for i, each in enumerate(pairs)]
    return [Oracle(each).greedy(list(PROMPT), COUNT) for each in (*folders, base)]


@pytest.fixture
async def service(base: Path) -> AsyncGenerator[Service, None]:
    async with serving(config(base, accept_lora=True, max_loras=2)) as service:
        yield service


def with_lora(lora: LoraRequest) -> TokenRequest:
    return msgspec.structs.replace(PLAIN, lora=lora)


async def tokens(
    service: Service, request: TokenRequest, tenant: str = "", *, model: str = MODEL
) -> list[int]:
    got = await events(service, request, tenant, model=model)
    return [id for event in got if isinstance(event, Tokens) for id in event.ids]


async def refused(service: Service, request: TokenRequest, tenant: str = "") -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        await tokens(service, request, tenant)
    return caught.value


async def test_weights_are_sent_once_and_reused_by_task_id(
    service: Service, pairs: list[Pairs], oracles: list[list[int]]
) -> None:
    first = await tokens(service, with_lora(trt_lora(LARGEST_TASK, pairs[0])))
    again = await tokens(service, with_lora(LoraRequest(task_id=LARGEST_TASK)))
    without = await tokens(service, PLAIN)

    assert first == again == oracles[0]
    assert without == oracles[-1] != first


async def test_the_configuration_says_where_the_weights_go(
    service: Service, pairs: list[Pairs], oracles: list[list[int]]
) -> None:
    """Module 5 is the gate and 7 the gated projection; both have the same shape."""
    lora = trt_lora(1, pairs[0])
    config = torch.frombuffer(bytearray(_config(lora)), dtype=torch.int32).reshape(-1, 3).clone()
    gate, up = config[:, 0] == 5, config[:, 0] == 7
    config[gate, 0], config[up, 0] = 7, 5
    swapped = LoraRequest(task_id=2, weights=lora.weights, config=wire(config))

    right = await tokens(service, with_lora(lora))
    wrong = await tokens(service, with_lora(swapped))

    assert right == oracles[0]
    assert wrong != right


def _config(lora: LoraRequest) -> bytes:
    assert lora.config is not msgspec.UNSET
    return lora.config.data


async def test_task_ids_are_scoped_to_their_tenant(
    service: Service, pairs: list[Pairs], oracles: list[list[int]]
) -> None:
    await tokens(service, with_lora(trt_lora(7, pairs[0])), "a")

    unknown = await refused(service, with_lora(LoraRequest(task_id=7)), "b")
    theirs = await tokens(service, with_lora(trt_lora(7, pairs[1])), "b")
    mine = await tokens(service, with_lora(LoraRequest(task_id=7)), "a")

    assert unknown.param == "lora_task_id"
    assert "7 is not in the adapter cache; send lora_weights and lora_config" in unknown.message
    assert (mine, theirs) == (oracles[0], oracles[1])


async def test_a_third_task_evicts_the_least_recently_used_one(
    service: Service, pairs: list[Pairs], oracles: list[list[int]]
) -> None:
    for task in (0, 1):
        await tokens(service, with_lora(trt_lora(task, pairs[task])))
    await tokens(service, with_lora(LoraRequest(task_id=0)))

    third = await tokens(service, with_lora(trt_lora(2, pairs[2])))
    kept = await tokens(service, with_lora(LoraRequest(task_id=0)))
    gone = await refused(service, with_lora(LoraRequest(task_id=1)))

    assert (third, kept) == (oracles[2], oracles[0])
    assert gone.param == "lora_task_id"


async def test_adapters_in_use_stay_and_an_abandoned_answer_releases_its_own(
    service: Service, pairs: list[Pairs], oracles: list[list[int]]
) -> None:
    endless = msgspec.structs.replace(PLAIN, sampling=Sampling(temperature=0.0, ignore_eos=True))
    streams = [
        service.generate(
            msgspec.structs.replace(endless, lora=trt_lora(task, pairs[task])), model=MODEL
        )
        for task in (0, 1)
    ]
    async with aclosing(streams[0]), aclosing(streams[1]):
        for stream in streams:
            await anext(stream)
        with pytest.raises(UpstreamBusy, match="the adapter cache is full"):
            await tokens(service, with_lora(trt_lora(2, pairs[2])))

    assert await tokens(service, with_lora(trt_lora(2, pairs[2]))) == oracles[2]


async def test_new_weights_replace_a_tasks_old_ones(
    service: Service, pairs: list[Pairs], oracles: list[list[int]]
) -> None:
    answers = [await tokens(service, with_lora(trt_lora(1, each))) for each in (pairs[0], pairs[1])]
    after = await tokens(service, with_lora(LoraRequest(task_id=1)))

    assert answers == oracles[:2]
    assert after == oracles[1]


async def test_halves_of_an_adapter_and_impossible_ids_are_refused(
    service: Service, pairs: list[Pairs]
) -> None:
    whole = trt_lora(1, pairs[0])
    faults = [
        await refused(service, with_lora(lora))
        for lora in (
            msgspec.structs.replace(whole, weights=msgspec.UNSET),
            msgspec.structs.replace(whole, config=msgspec.UNSET),
            LoraRequest(task_id=-1),
            LoraRequest(task_id=LARGEST_TASK + 1),
        )
    ]

    assert [fault.param for fault in faults] == [
        "lora_weights",
        "lora_config",
        "lora_task_id",
        "lora_task_id",
    ]


async def test_an_engine_without_accept_lora_rejects_adapters(
    base: Path, pairs: list[Pairs]
) -> None:
    async with serving(config(base)) as service:
        weights = await refused(service, with_lora(trt_lora(1, pairs[0])))
        id = await refused(service, with_lora(LoraRequest(task_id=1)))

    assert (weights.param, id.param) == ("lora_weights", "lora_task_id")
    assert "accept_lora" in weights.message
    assert "accept_lora" in id.message


async def test_a_configured_adapter_is_a_model_with_its_own_name(
    base: Path, pairs: list[Pairs], oracles: list[list[int]], tmp_path: Path
) -> None:
    folder = save_adapter(tmp_path / "sql", pairs[0])
    loras = (LoraConfig(name="sql", path=str(folder), base=MODEL),)
    async with serving(config(base, loras=loras, accept_lora=True)) as service:
        adapted = await tokens(service, PLAIN, model="sql")
        plain = await tokens(service, PLAIN)
        chatted = await events(service, chat("hello", PLAIN.sampling), model="sql")
        with pytest.raises(InvalidRequest, match="this model is already an adapter") as caught:
            await tokens(service, with_lora(trt_lora(1, pairs[1])), model="sql")

        assert service.models == (MODEL, "sql")
        assert list(service.stats()) == [MODEL]
    assert adapted == oracles[0]
    assert plain == oracles[-1]
    assert chatted
    assert caught.value.param == "lora_task_id"


async def test_a_table_replaces_ids_past_the_vocabulary_also_with_an_adapter(
    service: Service, base: Path, pairs: list[Pairs], oracles: list[list[int]]
) -> None:
    """The table contains the prompt's embeddings, so that the oracles' answers are expected."""
    rows = Oracle(base).embeddings(PROMPT)
    virtual = tuple(V + place for place in range(len(PROMPT)))
    table = PromptTable(table=wire(rows), vocab_size=len(PROMPT))
    other = PromptTable(table=wire(rows.flip(0)), vocab_size=len(PROMPT))
    sent = msgspec.structs.replace(PLAIN, tokens=virtual, prompt_table=table)

    answers = [
        await tokens(service, sent),
        await tokens(service, msgspec.structs.replace(sent, lora=trt_lora(1, pairs[0]))),
        await tokens(service, msgspec.structs.replace(sent, prompt_table=other)),
    ]

    assert answers[:2] == [oracles[-1], oracles[0]]
    assert answers[2] != answers[0]
    assert (
        await refused(service, msgspec.structs.replace(PLAIN, tokens=virtual))
    ).param == "tokens"


async def test_requests_keep_their_tensors_on_the_way_to_the_engine(pairs: list[Pairs]) -> None:
    request = with_lora(trt_lora(LARGEST_TASK, pairs[0]))

    assert decode_request(encode_request(request)) == request
