"""Drafts, from the request and from prompt lookup: they change the time, never the answer."""

from collections import Counter
from typing import cast

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.local_engine.execution.prompt_lookup import PromptLookup
from strowger_gateway.schemas.sampling import Sampling
from tests.local_engine.conftest import Folder
from tests.local_engine.execution.lane_runs import Runs, hosted
from tests.local_engine.tiny import VOCABULARY

PROMPT = (7, 8, 9, 10, 11, 12, 13)
OTHER = (30, 31, 32)
MODES = {
    "greedy": Sampling(temperature=0.0, max_tokens=24),
    "seeded": Sampling(temperature=0.7, seed=11, max_tokens=24),
    "filtered": Sampling(temperature=0.8, top_k=9, top_p=0.9, seed=12, max_tokens=24),
    "penalised": Sampling(
        temperature=0.5, seed=13, repetition_penalty=1.3, no_repeat_ngram_size=3, max_tokens=24
    ),
}


plain_answers: dict[str, list[list[int]]] = {}
"""Without drafts, by mode."""


def expected_of(folder: Folder, mode: str) -> list[list[int]]:
    if mode not in plain_answers:
        plain_answers[mode] = answers(Runs(hosted(folder("llama")).lane), MODES[mode])
    return plain_answers[mode]


def answers(runs: Runs, sampling: Sampling, drafts: tuple[int, ...] = ()) -> list[list[int]]:
    runs.add(PROMPT, sampling, drafts=drafts)
    runs.add(OTHER, sampling)
    return runs.finish()


@pytest.mark.parametrize("mode", MODES)
def test_right_drafts_save_steps_and_change_nothing(folder: Folder, mode: str) -> None:
    expected = expected_of(folder, mode)

    drafted = Runs(hosted(folder("llama")).lane)
    found = answers(drafted, MODES[mode], tuple(expected[0][:10]))

    stats = drafted.lane.stats()
    assert found == expected
    assert stats.total_accepted_draft_tokens == stats.total_draft_tokens == 10


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("right", [0, 1, 4])
def test_a_wrong_draft_is_replaced_and_those_after_it_dropped(
    folder: Folder, mode: str, right: int
) -> None:
    expected = expected_of(folder, mode)
    wrong = (expected[0][right] + 1) % VOCABULARY

    drafted = Runs(hosted(folder("llama")).lane)
    found = answers(drafted, MODES[mode], (*expected[0][:right], wrong, 5, 6))

    assert found == expected
    assert drafted.lane.stats().total_accepted_draft_tokens == right


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("changes", [{}, {"max_step_tokens": 8}, {"kv_cache": 1 << 14}])
def test_looked_up_drafts_change_no_answer(
    folder: Folder, mode: str, changes: dict[str, int]
) -> None:
    """In small steps, and with a cache so small that answers are preempted."""
    expected = expected_of(folder, mode)

    found = answers(Runs(hosted(folder("llama"), draft_tokens=6, **changes).lane), MODES[mode])

    assert found == expected


def test_text_that_repeats_itself_takes_fewer_steps(folder: Folder) -> None:
    sampling = Sampling(temperature=0.0, max_tokens=60, logit_bias={40: 1000.0})
    plain, drafted = (Runs(hosted(folder("llama"), draft_tokens=drafts).lane) for drafts in (0, 8))
    for runs in (plain, drafted):
        runs.add(PROMPT, sampling)

    tokens = [runs.finish() for runs in (plain, drafted)]

    assert tokens[0] == tokens[1]
    assert drafted.lane.stats().steps < plain.lane.stats().steps / 3


def test_drafts_never_continue_past_an_end_token(folder: Folder) -> None:
    """The draft contains an end token and more; the answer ends only where the model ends it."""
    expected = expected_of(folder, "greedy")

    runs = Runs(hosted(folder("llama")).lane)
    found = answers(runs, MODES["greedy"], (expected[0][0], 2, 2, 2))

    assert found == expected


def test_drafts_with_logits_do_not_change_the_distribution(folder: Folder) -> None:
    """Chi-square of the first token over many seeds; q is far from p, so most are rejected."""
    lane = hosted(folder("llama"), max_sequences=64, kv_cache=1 << 22).lane
    guess = torch.zeros(VOCABULARY)
    guess[:40] = 3.0
    shares = guess.softmax(-1)
    drafted, plain = Runs(lane), Runs(lane)
    generator = torch.Generator().manual_seed(5)
    drafts = cast(
        list[int],
        torch.multinomial(shares, DRAWS, replacement=True, generator=generator).tolist(),  # pyright: ignore[reportUnknownMemberType]  # torch
    )
    for seed, draft in enumerate(drafts):
        sampling = Sampling(temperature=1.0, top_k=8, seed=seed, max_tokens=1 + 1)
        drafted.add(PROMPT, sampling, drafts=[draft], proposal=guess.unsqueeze(0))
    first = Counter(tokens[0] for tokens in drafted.finish())
    for seed in range(DRAWS):
        sampling = Sampling(temperature=1.0, top_k=8, seed=DRAWS + seed, max_tokens=1)
        plain.add(PROMPT, sampling)
    expected = Counter(tokens[0] for tokens in plain.finish())

    statistic = sum(
        (first[token] - expected[token]) ** 2 / (first[token] + expected[token])
        for token in first | expected
    )

    assert set(first) == set(expected)
    assert statistic < 24.3, "chi-square, 7 degrees of freedom, p = 0.001"


DRAWS = 1200


def test_drafts_that_the_model_would_draw_itself_are_nearly_all_accepted(folder: Folder) -> None:
    """q = p: rejection sampling accepts always, where equality alone would accept p(d)."""
    lane = hosted(folder("llama"), max_sequences=64, kv_cache=1 << 22).lane
    runs = Runs(lane)
    row = first_logits(folder)
    generator = torch.Generator().manual_seed(6)
    drafts = torch.multinomial(row.softmax(-1), 100, replacement=True, generator=generator)
    for seed, draft in enumerate(drafts):
        sampling = Sampling(temperature=1.0, seed=seed, max_tokens=2)
        runs.add(PROMPT, sampling, drafts=[int(draft)], proposal=row.unsqueeze(0))

    runs.finish()

    assert lane.stats().total_accepted_draft_tokens >= 98


def first_logits(folder: Folder) -> torch.Tensor:
    from transformers.models.auto.modeling_auto import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder("llama"))  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # transformers
    with torch.inference_mode():
        logits = model(torch.tensor([PROMPT])).logits  # pyright: ignore  # as above
    return cast(torch.Tensor, logits)[0, -1].float()


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.integers(1, 9))
def test_a_proposal_is_what_followed_the_same_tokens_before(tokens: list[int], most: int) -> None:
    found = PromptLookup(most).propose(tokens)

    assert len(found) <= max(1, most // 2)
    places = [
        end
        for size in (2, 3)
        for end in range(size, len(tokens))
        if tokens[end - size : end] == tokens[-size:]
    ]
    assert bool(found) == bool(places)
    rounds = [(tokens[end:] * len(found))[: len(found)] for end in places]
    assert not found or found in rounds


def test_useless_proposals_become_rare() -> None:
    lookup = PromptLookup(8)
    tokens = [1, 2, 3, 1, 2, 3]
    proposed = 0
    for _ in range(100):
        drafts = lookup.propose(tokens)
        proposed += bool(drafts)
        lookup.learn(len(drafts), 0)

    assert proposed < 10
