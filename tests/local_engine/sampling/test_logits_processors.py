"""Penalties, bans, biases and grammars equal transformers' processors, and change no other row."""

from collections.abc import Callable
from random import Random
from typing import cast

import pytest
import torch
from torch import Tensor
from transformers.generation.logits_process import (
    LogitsProcessor,
    MinNewTokensLengthLogitsProcessor,
    NoBadWordsLogitsProcessor,
    NoRepeatNGramLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    SequenceBiasLogitsProcessor,
)

from strowger_gateway.local_engine.sampling.batch_params import SamplingRows
from strowger_gateway.local_engine.sampling.logits_processors import BANNED, Allowed, unpack_mask
from strowger_gateway.local_engine.sampling.sampler import processed, sample
from strowger_gateway.local_engine.sampling.sampling_params import RowParams
from strowger_gateway.local_engine.sampling.token_history import History, new_history
from tests.local_engine.tensor_values import finite_places, integers

CPU = torch.device("cpu")
V = 50


def rows_of(
    params: list[RowParams], texts: list[list[int]], prompts: list[int], vocabulary: int = V
) -> SamplingRows:
    """Return rows with partial answers. texts: prompt and output; prompts: the prompts' lengths."""
    histories = [new_history(p, t, n) for p, t, n in zip(params, texts, prompts, strict=True)]
    positions = [len(text) - prompt for text, prompt in zip(texts, prompts, strict=True)]
    return SamplingRows(params, positions, histories, vocabulary=vocabulary, device=CPU)


def theirs(processor: LogitsProcessor, text: list[int], logits: Tensor) -> Tensor:
    """Return transformers' result for one row, float32 [V]."""
    call = cast("Callable[[Tensor, Tensor], Tensor]", processor)
    return call(torch.tensor([text]), logits.clone().unsqueeze(0))[0]


def as_bans(values: Tensor) -> Tensor:
    """Our bans are the lowest finite number; theirs are -inf."""
    return values.masked_fill(values == BANNED, -torch.inf)


Oracle = Callable[[RowParams, list[int], int], LogitsProcessor]
ORACLES: dict[str, tuple[Callable[[Random], RowParams], Oracle]] = {
    "repetition_penalty": (
        lambda pick: RowParams(repetition_penalty=pick.choice([0.5, 1.1, 1.9])),
        lambda row, _text, _prompt: RepetitionPenaltyLogitsProcessor(row.repetition_penalty),
    ),
    "no_repeat_ngram_size": (
        lambda pick: RowParams(no_repeat_ngram_size=pick.choice([1, 2, 3, 5])),
        lambda row, _text, _prompt: NoRepeatNGramLogitsProcessor(row.no_repeat_ngram_size),
    ),
    "bad_words": (
        lambda pick: RowParams(
            bad_words=tuple(
                tuple(pick.randrange(6) for _ in range(pick.randint(1, 3))) for _ in range(5)
            )
        ),
        lambda row, _text, _prompt: NoBadWordsLogitsProcessor([list(w) for w in row.bad_words]),
    ),
    "min_tokens": (
        lambda pick: RowParams(min_tokens=pick.randint(0, 9), end_ids=(2, 4)),
        lambda row, _text, prompt: MinNewTokensLengthLogitsProcessor(
            prompt, row.min_tokens, list(row.end_ids)
        ),
    ),
    "logit_bias": (
        lambda pick: RowParams(
            logit_bias=tuple((t, pick.uniform(-9, 9)) for t in pick.sample(range(V), 4))
        ),
        lambda row, _text, _prompt: SequenceBiasLogitsProcessor(
            [[[token], value] for token, value in row.logit_bias]
        ),
    ),
}


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("seed", range(5))
def test_a_processor_changes_what_transformers_processor_changes(name: str, seed: int) -> None:
    """A batch of rows over several steps; each row is compared with transformers on its text."""
    pick = Random(seed)
    make, oracle = ORACLES[name]
    params = [make(pick) for _ in range(6)]
    texts = [[pick.randrange(6) for _ in range(pick.randint(4, 12))] for _ in params]
    prompts = [pick.randint(4, len(text)) for text in texts]
    rows = rows_of(params, texts, prompts)
    for _ in range(8):
        logits = torch.randn(6, V, generator=torch.Generator().manual_seed(pick.getrandbits(31)))

        ours = as_bans(processed(logits, rows))

        for at, (row, text, prompt) in enumerate(zip(params, texts, prompts, strict=True)):
            expected = theirs(oracle(row, text, prompt), text, logits[at])
            torch.testing.assert_close(ours[at], expected, rtol=1e-6, atol=1e-6)
        tokens = [pick.randrange(6) for _ in params]
        for text, token in zip(texts, tokens, strict=True):
            text.append(token)
        rows.advance(tokens)


@pytest.mark.parametrize("seed", range(5))
def test_frequency_and_presence_count_only_the_output(seed: int) -> None:
    pick = Random(seed)
    params = [
        RowParams(frequency_penalty=pick.uniform(-2, 2), presence_penalty=pick.uniform(-2, 2)),
        RowParams(frequency_penalty=1.5, repetition_penalty=1.2),
        RowParams(presence_penalty=-1.0),
    ]
    prompt = [pick.randrange(V) for _ in range(10)]
    outputs: list[list[int]] = [[pick.randrange(9) for _ in range(n)] for n in (0, 3, 20)]
    rows = rows_of(params, [prompt + output for output in outputs], [10] * 3)
    for _ in range(30):
        logits = torch.randn(3, V, generator=torch.Generator().manual_seed(pick.getrandbits(31)))

        ours = processed(logits, rows)

        for at, (row, output) in enumerate(zip(params, outputs, strict=True)):
            expected = logits[at].clone()
            for token in range(V):
                count = output.count(token)
                if row.repetition_penalty != 1 and (count or token in prompt):
                    factor = row.repetition_penalty
                    expected[token] *= factor if expected[token] <= 0 else 1 / factor
                expected[token] -= row.frequency_penalty * count + row.presence_penalty * (
                    count > 0
                )
            torch.testing.assert_close(ours[at], expected, rtol=1e-5, atol=1e-5)
        tokens = [pick.randrange(V) for _ in range(3)]
        for output, token in zip(outputs, tokens, strict=True):
            output.append(token)
        rows.advance(tokens)


def test_everything_at_once_is_everything_in_order() -> None:
    """Bias, then repetition, frequency and presence, then bans; worked out by hand."""
    params = RowParams(
        logit_bias=((0, 4.0), (3, -1.0)),
        embedding_bias=torch.full((6,), 1.0),
        repetition_penalty=2.0,
        frequency_penalty=0.5,
        presence_penalty=0.25,
        bad_words=((5,),),
        min_tokens=9,
        end_ids=(4,),
    )
    rows = rows_of([params], [[0, 1, 3, 3]], [2], vocabulary=6)

    values = processed(torch.tensor([[1.0, -3.0, 2.0, 1.0, 7.0, 7.0]]), rows)[0]

    # 0: (1+1+4)/2; 1: (-3+1)*2; 2: 2+1; 3: (1+1-1)/2 - 2*.5 - .25; 4 and 5 are banned
    assert torch.equal(values, torch.tensor([3.0, -4.0, 3.0, -0.75, BANNED, BANNED]))


def test_rows_without_processors_are_unchanged_and_not_copied() -> None:
    params = [RowParams(), RowParams(repetition_penalty=1.5, logit_bias=((1, 3.0),)), RowParams()]
    logits = torch.randn(3, V)

    mixed = processed(logits, rows_of(params, [[1, 2]] * 3, [2] * 3))
    plain = processed(logits, rows_of(params[:1] * 3, [[1, 2]] * 3, [2] * 3))

    assert torch.equal(mixed[[0, 2]], logits[[0, 2]])
    assert not torch.equal(mixed[1], logits[1])
    assert plain is logits


def test_a_grammars_mask_leaves_only_what_it_allows() -> None:
    logits = torch.randn(3, V)
    mask = torch.zeros(2, V, dtype=torch.bool)
    mask[0, 7], mask[1, [3, 9]] = True, True
    rows = rows_of([RowParams(temperature=0.0)] * 3, [[1]] * 3, [1] * 3)

    some = processed(logits, rows, Allowed(mask=mask, rows=torch.tensor([2, 0])))
    every = processed(logits, rows, Allowed(mask=mask[[0, 0, 1]]))

    assert finite_places(some[2]) == {7}
    assert finite_places(some[0]) == {3, 9}
    assert torch.equal(some[1], logits[1])
    assert finite_places(every[1]) == {7}


def test_where_all_that_a_grammar_allows_is_banned_the_grammar_wins() -> None:
    mask = torch.zeros(1, V, dtype=torch.bool)
    mask[0, 4] = True
    for temperature in (0.0, 1.0):
        params = RowParams(temperature=temperature, min_tokens=5, end_ids=(4,))

        ids = sample(torch.randn(1, V), rows_of([params], [[1]], [1]), Allowed(mask=mask)).ids

        assert integers(ids) == [4]


@pytest.mark.parametrize("vocabulary", [1, 31, 32, 33, 100, 256])
def test_a_bit_mask_unpacks_to_its_bits(vocabulary: int) -> None:
    bools = torch.rand(3, vocabulary, generator=torch.Generator().manual_seed(vocabulary)) < 0.5
    words = (vocabulary + 31) // 32
    padded = torch.zeros(3, words * 32, dtype=torch.int64)
    padded[:, :vocabulary] = bools
    packed = (padded.view(3, words, 32) << torch.arange(32)).sum(-1)

    assert torch.equal(unpack_mask(packed.to(torch.int32), vocabulary), bools)


def test_a_minimum_length_stops_applying_once_reached() -> None:
    params = [RowParams(min_tokens=2, end_ids=(1,)), RowParams(min_tokens=4, end_ids=(0, 1))]
    rows = SamplingRows(params, [0, 1], vocabulary=3, device=CPU)

    banned: list[list[int]] = []
    for _ in range(4):
        banned.append(integers((processed(torch.zeros(2, 3), rows) == BANNED).sum(1)))
        rows.advance()

    assert banned == [[1, 2], [1, 2], [0, 2], [0, 0]]


def test_advancing_requires_tokens_if_processors_need_them() -> None:
    rows = rows_of([RowParams(), RowParams(presence_penalty=1.0)], [[1], [1]], [1, 1])

    assert rows.needs_tokens
    with pytest.raises(ValueError, match=r"tokens: .*all 2"):
        rows.advance()
    with pytest.raises(ValueError, match=r"tokens: .*all 2"):
        rows.advance([3])


def test_rows_of_a_prompt_table_are_not_tokens_and_change_no_neighbour() -> None:
    params = RowParams(repetition_penalty=2.0, no_repeat_ngram_size=1)
    table = [V, V + 3]
    histories = [
        new_history(params, [*table, 5], 3, vocabulary=V),
        new_history(RowParams(), [1], 1),
    ]
    rows = SamplingRows([params, RowParams()], [0, 0], histories, vocabulary=V, device=CPU)
    logits = torch.ones(2, V)

    values = processed(logits, rows)

    assert torch.equal(values[1], logits[1])
    assert integers((values[0] != 1).nonzero()) == [5]
    with pytest.raises(ValueError, match="histories: a token is not in the vocabulary"):
        rows_of([params], [[*table, 5]], [3])


def test_an_answer_that_needs_no_memory_has_none() -> None:
    plain = RowParams(top_k=5, seed=3, bad_words=((4,),), logit_bias=((1, 1.0),), min_tokens=3)

    assert new_history(plain, [1, 2, 3], 2) is None
    assert new_history(RowParams(no_repeat_ngram_size=2), [1], 1) is not None


@pytest.mark.parametrize("name", ["repetition_penalty", "no_repeat_ngram_size", "bad_words"])
def test_a_forked_answer_continues_independently(name: str) -> None:
    params = ORACLES[name][0](Random(3))
    text = [1, 2, 3, 1, 2]
    first = History(params, text, 3, V)
    second = first.fork()

    first.append(4)
    second.append(5)

    for history, last in ((first, 4), (second, 5)):
        fresh = History(params, [*text, last], 3, V)
        ours = SamplingRows([params], [3], [history], vocabulary=V, device=CPU)
        anew = SamplingRows([params], [3], [fresh], vocabulary=V, device=CPU)
        logits = torch.randn(1, V)
        assert torch.equal(processed(logits, ours), processed(logits, anew))
