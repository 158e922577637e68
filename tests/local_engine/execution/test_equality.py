"""Tokens depend only on the request: not on batch, chunks, preemption, cache or implementation."""

import random
from pathlib import Path

import pytest
import torch

from strowger_gateway.schemas.sampling import Sampling
from tests.examples import by_day
from tests.local_engine.conftest import Folder
from tests.local_engine.execution.lane_runs import Runs, hosted
from tests.local_engine.services import Oracle
from tests.local_engine.tiny import FAMILIES, VOCABULARY, save_model

COUNT = 16
SIX = ("llama", "qwen2", "qwen3", "mistral", "gemma3_text", "granite")
GREEDY = Sampling(temperature=0.0, max_tokens=COUNT, ignore_eos=True)
SEEDED = Sampling(
    temperature=0.9, top_p=0.95, seed=11, max_tokens=COUNT, repetition_penalty=1.3, ignore_eos=True
)


def prompts(count: int = 5) -> list[list[int]]:
    source = random.Random(3)
    return [[source.randrange(5, VOCABULARY) for _ in range(2 + 9 * i)] for i in range(count)]


def answers(folder: Path, sampling: Sampling, **changes: object) -> list[list[int]]:
    runs = Runs(hosted(folder, **changes).lane)
    for prompt in prompts():
        runs.add(prompt, sampling)
    return runs.finish()


generated: dict[Path, list[list[int]]] = {}
"""By the model's folder."""


def expected_of(path: Path, guesses: list[list[int]]) -> list[list[int]]:
    """Return what transformers generates after each prompt; computed once per model."""
    if path not in generated:
        oracle = Oracle(path)
        generated[path] = [
            oracle.greedy(prompt, COUNT, guess)
            for prompt, guess in zip(prompts(), guesses, strict=True)
        ]
    return generated[path]


DAY = (
    "llama",
    "qwen3",
    "gemma3_text",
    "gemma3n_text",
    "gpt_oss",
    "deepseek_v3",
    "llama4_text",
    "gpt2",
)
"""Families that differ in attention, positions, normalisation or mixture; the others at night."""


@pytest.mark.parametrize("family", by_day(FAMILIES, DAY))
def test_greedy_tokens_are_those_of_transformers_generate(family: str, folder: Folder) -> None:
    together = answers(folder(family), GREEDY)
    chunked = answers(folder(family), GREEDY, max_step_tokens=7, prefix_cache=False)

    expected = expected_of(folder(family), together)
    assert together == expected
    assert chunked == expected


@pytest.mark.parametrize("family", ["qwen3", "gemma3_text"])
@pytest.mark.parametrize("compile", ["auto", "off"])
def test_sixteen_bit_weights_and_compiled_kernels_change_no_token(
    family: str, compile: str, tmp_path: Path
) -> None:
    path = save_model(tmp_path, family, rounded=True)

    tokens = answers(path, GREEDY, compile=compile, max_step_tokens=40)

    assert tokens == expected_of(path, tokens)


@pytest.mark.parametrize("sampling", [GREEDY, SEEDED], ids=["greedy", "seeded"])
def test_an_answer_is_the_same_alone_and_in_any_batch(sampling: Sampling, folder: Folder) -> None:
    alone: list[list[int]] = []
    lane = hosted(folder("llama")).lane
    for prompt in prompts():
        runs = Runs(lane)
        runs.add(prompt, sampling)
        alone += runs.finish()

    assert answers(folder("llama"), sampling) == alone
    assert answers(folder("llama"), sampling, max_step_tokens=3) == alone
    assert answers(folder("llama"), sampling, prefix_cache=False) == alone


@pytest.mark.parametrize("sampling", [GREEDY, SEEDED], ids=["greedy", "seeded"])
@pytest.mark.parametrize("prefix_cache", [True, False])
def test_preempted_answers_resume_with_the_same_tokens(
    sampling: Sampling, prefix_cache: bool, folder: Folder
) -> None:
    expected = answers(folder("qwen3"), sampling)
    one_block = 16 * 2 * 2 * 2 * 8 * 4
    cramped = hosted(folder("qwen3"), kv_cache=6 * one_block, prefix_cache=prefix_cache)
    runs = Runs(cramped.lane)
    for prompt in prompts():
        runs.add(prompt, sampling)

    assert runs.finish() == expected
    assert cramped.lane.stats().preemptions > 0
    assert cramped.lane.stats().blocks_free == 6


@pytest.mark.parametrize("family", by_day(SIX, ("llama", "gemma3_text")))
@pytest.mark.parametrize("prefix_cache", [True, pytest.param(False, marks=pytest.mark.nightly)])
def test_preempted_answers_of_each_family_are_those_of_generate(
    family: str, prefix_cache: bool, folder: Folder
) -> None:
    roomy = hosted(folder(family)).lane.stats()
    six_blocks = 6 * roomy.cache_bytes // roomy.blocks_total
    lane = hosted(
        folder(family), kv_cache=six_blocks, prefix_cache=prefix_cache, max_step_tokens=20
    ).lane
    runs = Runs(lane)
    for prompt in prompts():
        runs.add(prompt, GREEDY)

    tokens = runs.finish()

    assert tokens == expected_of(folder(family), tokens)
    assert lane.stats().preemptions > 0


def test_a_cached_prefix_is_not_computed_again_and_changes_nothing(folder: Folder) -> None:
    beginning = [5 + i for i in range(40)]
    lane = hosted(folder("gemma3_text")).lane
    first = Runs(lane)
    first.add([*beginning, 7], GREEDY, salt=b"a")
    first.finish()

    again = Runs(lane)
    again.add([*beginning, 7], GREEDY, salt=b"a")
    again.add([*beginning, 9], GREEDY, salt=b"a")
    stranger = again.add([*beginning, 7], GREEDY, salt=b"b")
    again.finish()

    assert again.tokens(1) == first.tokens(1)
    assert again.tokens(stranger) == first.tokens(1)
    assert again.cached == {1: 32, 2: 32, stranger: 0}


def test_rows_can_be_wider_than_the_cache_is_contiguous(folder: Folder) -> None:
    """Answers that grow alternately leave no contiguous pages in a full cache."""
    expected = answers(folder("mistral"), GREEDY)
    one_block = 16 * 2 * 2 * 2 * 8 * 4
    lane = hosted(folder("mistral"), kv_cache=18 * one_block, prefix_cache=False).lane
    for round in range(3):
        runs = Runs(lane)
        order = random.Random(round).sample(prompts(), 5)
        ids = {tuple(prompt): runs.add(prompt, GREEDY) for prompt in order}
        runs.finish()
        assert [runs.tokens(ids[tuple(prompt)]) for prompt in prompts()] == expected


def test_a_step_leaves_no_gradient_and_no_global_state(folder: Folder) -> None:
    before = torch.random.get_rng_state()

    answers(folder("llama"), SEEDED)

    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.is_grad_enabled()
