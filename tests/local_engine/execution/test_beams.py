"""Beam search: the hypotheses equal those of transformers' generation."""

# transformers annotates generate in part only:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import cast

import pytest
import torch
from transformers.modeling_utils import PreTrainedModel
from transformers.models.auto.modeling_auto import AutoModelForCausalLM

from strowger_gateway.local_engine.execution.jobs import Beams
from strowger_gateway.local_engine.server.service import Service
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.holdings import Holder
from strowger_gateway.schemas.requests import TokenRequest
from strowger_gateway.schemas.sampling import Sampling
from tests.examples import by_day
from tests.local_engine.conftest import Folder
from tests.local_engine.execution.lane_runs import Runs, hosted
from tests.local_engine.services import MODEL, ask, config, serving

pytestmark = pytest.mark.anyio

PROMPTS = ((7, 8, 9, 10, 11), tuple(range(20, 61)), (300,))
END = 2

CASES: tuple[tuple[str, dict[str, object]], ...] = (
    ("three beams", {"num_beams": 3}),
    ("five beams stop early", {"num_beams": 5, "early_stopping": True}),
    ("never stop early", {"num_beams": 3, "early_stopping": "never", "length_penalty": 0.5}),
    ("long answers win", {"num_beams": 4, "length_penalty": 2.0}),
    ("short answers win", {"num_beams": 4, "length_penalty": -1.0}),
    ("no length counts", {"num_beams": 2, "length_penalty": 0.0}),
    ("no token twice", {"num_beams": 3, "repetition_penalty": 1.7}),
    ("no pair of tokens twice", {"num_beams": 3, "no_repeat_ngram_size": 2}),
)


@cache
def model_of(folder: Path) -> PreTrainedModel:
    """Load transformers' model, once for each folder."""
    return cast(
        PreTrainedModel,
        AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager"),
    ).eval()


def beams_of(folder: Path, prompt: tuple[int, ...], terms: Mapping[str, object]) -> list[list[int]]:
    """Return all hypotheses of generate(), best first, without padding."""
    tokens = torch.tensor([prompt])
    out = model_of(folder).generate(  # pyright: ignore  # transformers annotates no argument
        tokens,
        attention_mask=torch.ones_like(tokens),
        max_new_tokens=12,
        do_sample=False,
        eos_token_id=END,
        pad_token_id=0,
        num_return_sequences=terms["num_beams"],
        **terms,
    )
    rows = cast(list[list[int]], out[:, len(prompt) :].tolist())  # pyright: ignore  # as above
    return [row[: row.index(END) + 1] if END in row else row for row in rows]


def request(prompt: tuple[int, ...], terms: Mapping[str, object], **more: object) -> TokenRequest:
    named = {"beam_width" if name == "num_beams" else name: terms[name] for name in terms}
    sampling = Sampling(max_tokens=12, end_id=END, **named, **more)  # pyright: ignore[reportArgumentType]  # a table of fields
    return TokenRequest(model=MODEL, tokens=prompt, sampling=sampling)


async def hypotheses(service: Service, sent: TokenRequest) -> list[list[int]]:
    answer = await ask(service, sent)
    return [choice.token_ids for choice in answer.choices]


@pytest.fixture(scope="module")
async def service(folder: Folder) -> AsyncGenerator[Service, None]:
    async with serving(config(folder("llama"))) as running:
        yield running


@pytest.mark.parametrize(("name", "terms"), CASES, ids=[name for name, _ in CASES])
async def test_hypotheses_equal_those_of_generate(
    service: Service, folder: Folder, name: str, terms: dict[str, object]
) -> None:
    expected = [beams_of(folder("llama"), prompt, terms) for prompt in PROMPTS]

    found = [await hypotheses(service, request(prompt, terms)) for prompt in PROMPTS]

    assert found == expected, name


@pytest.mark.parametrize(
    "family",
    by_day(["qwen2", "qwen3", "mistral", "gemma3_text", "granite"], ("qwen3", "gemma3_text")),
)
@pytest.mark.parametrize("prefix_cache", [True, False])
async def test_other_families_search_as_generate_does(
    folder: Folder, family: str, prefix_cache: bool
) -> None:
    terms: dict[str, object] = {"num_beams": 3}
    path = folder(family)
    expected = beams_of(path, PROMPTS[1], terms)

    async with serving(config(path, prefix_cache=prefix_cache, max_step_tokens=16)) as service:
        found = await hypotheses(service, request(PROMPTS[1], terms))

    assert found == expected


@pytest.mark.parametrize(
    "family",
    [
        *("llama", "gemma3_text"),
        *(
            pytest.param(one, marks=pytest.mark.nightly)
            for one in ("qwen2", "qwen3", "mistral", "granite")
        ),
    ],
)
def test_searches_share_a_cache_that_is_too_small_for_all_of_them(
    folder: Folder, family: str
) -> None:
    """Beams are preempted and computed again; pages are checked after every step."""
    stats = hosted(folder(family)).lane.stats()
    page = stats.cache_bytes // stats.blocks_total
    alone = [run_search(folder(family), [prompt], 200 * page)[0][0] for prompt in PROMPTS]

    together, preemptions = run_search(folder(family), PROMPTS * 3, 18 * page)

    assert together == alone * 3
    assert preemptions > 0


@pytest.mark.parametrize(("places", "prefix_cache"), [(3, True), (5, False)])
def test_searches_of_several_keys_all_end_with_fewer_places_than_beams(
    folder: Folder, places: int, *, prefix_cache: bool
) -> None:
    """No key's beams are computed again and again while others' wait for their place."""
    alone = [run_search(folder("llama"), [prompt], 1 << 20)[0][0] for prompt in PROMPTS]

    together, preemptions = run_search(
        folder("llama"),
        PROMPTS * 2,
        1 << 20,
        keys=("a", "a", "b", "c", "b", "d"),
        max_sequences=places,
        prefix_cache=prefix_cache,
    )

    assert together == alone * 2
    assert preemptions > 0


def run_search(
    folder: Path,
    prompts: Sequence[tuple[int, ...]],
    kv_cache: int,
    keys: Sequence[str] = (),
    **settings: object,
) -> tuple[list[list[int]], int]:
    runs = Runs(hosted(folder, kv_cache=kv_cache, max_step_tokens=32, **settings).lane)
    sampling = Sampling(temperature=0.0, max_tokens=40)
    for number, prompt in enumerate(prompts):
        key = keys[number] if keys else ""
        runs.add(prompt, sampling, beams=Beams(width=3), salt=key.encode(), holder=Holder(key))
    return runs.finish(), runs.lane.stats().preemptions


def test_a_cancelled_search_leaves_nothing_behind(folder: Folder) -> None:
    lane = hosted(folder("llama"), prefix_cache=False).lane
    runs = Runs(lane)
    id = runs.add(PROMPTS[1], Sampling(temperature=0.0, max_tokens=40), beams=Beams(width=4))
    for _ in range(5):
        runs.step()

    lane.drop(id)

    lane.check()
    stats = lane.stats()
    assert not lane.busy
    assert (stats.running, stats.waiting, stats.blocks_free) == (0, 0, stats.blocks_total)


def test_a_search_that_is_out_of_time_ends_once(folder: Folder) -> None:
    runs = Runs(hosted(folder("llama")).lane)
    sampling = Sampling(temperature=0.0, max_tokens=40)
    id = runs.add(PROMPTS[0], sampling, beams=Beams(width=4), deadline=5.0)
    for _ in range(5):
        runs.step()

    runs.step(now=6.0)

    assert runs.outcomes == {id: "expired"}
    assert not runs.lane.busy


async def test_beams_do_not_change_sampled_answers_of_the_same_batch(service: Service) -> None:
    sampled = TokenRequest(
        model=MODEL, tokens=PROMPTS[0], sampling=Sampling(max_tokens=12, seed=5, end_id=-1)
    )
    search = request(PROMPTS[1], {"num_beams": 3})

    alone = [await hypotheses(service, sent) for sent in (sampled, search)]
    together = await asyncio.gather(
        *(hypotheses(service, sent) for sent in (sampled, search, sampled, search))
    )

    assert together == [*alone, *alone]


async def test_a_stop_word_ends_a_hypothesis(service: Service) -> None:
    """Without a length penalty a shorter beginning of the best hypothesis scores higher still."""
    terms: dict[str, object] = {"num_beams": 3, "length_penalty": 0.0}

    (best, *_) = await hypotheses(service, request(PROMPTS[0], terms))
    word = tuple(best[3:5])
    answer = await ask(service, request(PROMPTS[0], terms, stop_words=(word,)))

    assert answer.choices[0].token_ids == best[:5]
    assert answer.choices[0].finish is not None
    assert answer.choices[0].finish.native == "stop_sequence"


@pytest.mark.parametrize(
    ("sampling", "field"),
    [
        (Sampling(beam_width=3, top_p=0.5), "top_p"),
        (Sampling(beam_width=3, top_k=7), "top_k"),
        (Sampling(beam_width=0), "beam_width"),
        (Sampling(beam_width=3, n=4), "n"),
        (Sampling(beam_width=3, n=2, best_of=3), "best_of"),
        (Sampling(beam_width=60), "beam_width"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_fields_that_beam_search_does_not_support_are_rejected_by_name(
    service: Service, sampling: Sampling, field: str
) -> None:
    sent = TokenRequest(model=MODEL, tokens=PROMPTS[0], sampling=sampling)

    with pytest.raises(InvalidRequest) as refused:
        await ask(service, sent)

    assert refused.value.param == field
