"""One token per row: drawn from the right distribution, and dependent only on the row."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from torch import Tensor

from strowger_gateway.local_engine.sampling.batch_params import SamplingRows
from strowger_gateway.local_engine.sampling.logits_processors import Allowed
from strowger_gateway.local_engine.sampling.sampler import probabilities, sample
from strowger_gateway.local_engine.sampling.sampling_params import RowParams
from strowger_gateway.local_engine.sampling.token_history import new_history
from tests.local_engine.tensor_values import integers, numbers

CPU = torch.device("cpu")
DRAWS = 20_000
STEPS = 5
"""Draws of each row, at successive positions."""

MODES = {
    "free": RowParams(temperature=1.2),
    "top_k": RowParams(top_k=5),
    "top_p": RowParams(temperature=0.8, top_p=0.8),
    "widened top_p": RowParams(temperature=2.0, top_p=0.9),
    "min_p": RowParams(min_p=0.1),
    "typical_p": RowParams(typical_p=0.7),
    "top_k and top_p": RowParams(temperature=0.9, top_k=50, top_p=0.9),
    "wide top_k": RowParams(temperature=1.5, top_k=80),
}


def batch(*params: RowParams, positions: list[int] | None = None, vocabulary: int) -> SamplingRows:
    return SamplingRows(params, positions or [0] * len(params), vocabulary=vocabulary, device=CPU)


def random_logits(seed: int, rows: int, vocabulary: int, spread: float = 2.0) -> Tensor:
    return torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(seed)) * spread


def chi_square(counts: Tensor, shares: Tensor) -> tuple[float, int]:
    """The statistic and its degrees of freedom; tokens expected under 5 times are pooled."""
    expected = shares.to(torch.float64) * counts.sum()
    rare = expected < 5
    observed = torch.cat((counts[~rare], counts[rare].sum().unsqueeze(0))).to(torch.float64)
    wanted = torch.cat((expected[~rare], expected[rare].sum().unsqueeze(0)))
    used = wanted > 0
    statistic = ((observed - wanted)[used] ** 2 / wanted[used]).sum()
    return float(statistic), int(used.sum()) - 1


ALONG = [("seeds", mode) for mode in MODES] + [
    ("positions", "free"),
    ("positions", "top_p"),
    *(
        pytest.param("positions", mode, marks=pytest.mark.nightly)
        for mode in MODES
        if mode not in ("free", "top_p")
    ),
]
"""Filters depend only on parameters; two modes suffice to show that positions act like seeds."""


@pytest.mark.parametrize(
    "vocabulary",
    [6, 500, *(pytest.param(size, marks=pytest.mark.nightly) for size in (200, 1000))],
)
@pytest.mark.parametrize(("along", "mode"), ALONG)
def test_draws_follow_the_closed_form(mode: str, vocabulary: int, along: str) -> None:
    logits = random_logits(vocabulary, 1, vocabulary)
    params, counts = MODES[mode], torch.zeros(vocabulary, dtype=torch.int64)
    size = DRAWS // STEPS
    seeds = range(size) if along == "seeds" else [11] * size
    rows = [replace(params, seed=seed) for seed in seeds]
    positions = None if along == "seeds" else list(range(0, DRAWS, STEPS))
    drawn = batch(*rows, positions=positions, vocabulary=vocabulary)
    for _ in range(STEPS):
        ids = sample(logits.expand(size, vocabulary), drawn).ids
        counts += torch.bincount(ids, minlength=vocabulary)
        drawn.advance()

    shares = probabilities(logits, batch(params, vocabulary=vocabulary))[0]
    statistic, freedom = chi_square(counts, shares)
    assert int(counts[shares == 0].sum()) == 0
    assert statistic < freedom + 4.5 * (2 * freedom) ** 0.5 + 12  # far under 1 in 10,000
    total_variation = (counts / DRAWS - shares).abs().sum() / 2
    assert float(total_variation) < 1.5 * (vocabulary / DRAWS) ** 0.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("vocabulary", [1, 50, 64, 151_936])
def test_temperature_zero_is_argmax_with_the_lowest_id_among_equals(
    vocabulary: int, dtype: torch.dtype
) -> None:
    logits = random_logits(3, 5, vocabulary).to(dtype)

    ids = sample(logits, batch(*[RowParams(temperature=0.0)] * 5, vocabulary=vocabulary)).ids

    assert ids.dtype == torch.int64
    assert torch.equal(ids, logits.to(torch.float32).argmax(-1))


ROWS = st.builds(
    RowParams,
    temperature=st.sampled_from((0.0, 0.3, 0.8, 1.0, 2.5)),
    top_k=st.sampled_from((0, 0, 1, 5, 50, 64, 65, 700, 1500)),
    top_p=st.sampled_from((1.0, 1.0, 0.0, 0.5, 0.9, 0.99)),
    min_p=st.sampled_from((0.0, 0.0, 0.05, 0.5)),
    typical_p=st.sampled_from((1.0, 1.0, 1.0, 0.7)),
    seed=st.integers(-(2**63), 2**63 - 1),
    repetition_penalty=st.sampled_from((1.0, 1.3)),
    presence_penalty=st.sampled_from((0.0, 0.5)),
    no_repeat_ngram_size=st.sampled_from((0, 1, 2)),
    logit_bias=st.sampled_from(((), ((3, 5.0), (7, -5.0)))),
    logprobs=st.sampled_from((-1, 0, 3)),
)


@given(
    st.lists(ROWS, min_size=1, max_size=7),
    st.integers(0, 6),
    st.integers(0, 2**31),
    st.sampled_from((40, 500, 2600)),
)
def test_a_seeded_rows_tokens_do_not_depend_on_the_batch_around_it(
    params: list[RowParams], at: int, seed: int, vocabulary: int
) -> None:
    at %= len(params)
    steps = random_logits(seed, 3 * len(params), vocabulary).view(3, len(params), vocabulary)
    prompt = [1, 2, 3, 1, 2]

    together = rows_of(params, [5, 0, 9, 2, 7, 1, 3][: len(params)], prompt, vocabulary)
    alone = rows_of([params[at]], [[5, 0, 9, 2, 7, 1, 3][at]], prompt, vocabulary)

    for logits in steps:
        mine = sample(logits, together)
        own = sample(logits[at : at + 1], alone)
        assert int(mine.ids[at]) == int(own.ids[0])
        together.advance(integers(mine.ids))
        alone.advance(integers(own.ids))


def rows_of(
    params: list[RowParams], positions: list[int], prompt: list[int], vocabulary: int
) -> SamplingRows:
    histories = [new_history(row, prompt, len(prompt)) for row in params]
    return SamplingRows(params, positions, histories, vocabulary=vocabulary, device=CPU)


@settings(max_examples=settings().max_examples // 2)
@given(ROWS, st.integers(0, 2**31), st.integers(1, 30))
def test_a_row_that_leaves_and_comes_back_goes_on_as_if_it_had_stayed(
    params: RowParams, seed: int, pause: int
) -> None:
    logits = random_logits(seed, 40, 300).unsqueeze(1).unbind(0)
    prompt = [4, 5, 6]
    stayed = rows_of([params], [0], prompt, 300)
    tokens: list[int] = []
    for step in logits:
        tokens += integers(sample(step, stayed).ids)
        stayed.advance(tokens[-1:])

    history = new_history(params, [*prompt, *tokens[:pause]], len(prompt))
    back = SamplingRows([params], [pause], [history], vocabulary=300, device=CPU)
    for step, token in zip(logits[pause:], tokens[pause:], strict=True):
        assert integers(sample(step, back).ids) == [token]
        back.advance([token])


def test_another_seed_or_another_position_draws_other_tokens() -> None:
    logits = torch.zeros(4, 1000)
    params = [RowParams(seed=seed) for seed in (1, 1, 2, 1)]
    rows = batch(*params, positions=[0, 0, 0, 1], vocabulary=1000)

    first, again, other_seed, other_position = integers(sample(logits, rows).ids)

    assert first == again
    assert len({first, other_seed, other_position}) == 3


def test_noise_goes_with_the_token_and_not_with_its_rank() -> None:
    """A change of a logit's last bit may swap ranks; the draw must stay."""
    logits = torch.zeros(1, 100)
    nudged = logits.clone()
    nudged[0, 50:] += 1e-7
    drawn: list[list[int]] = []
    for values in (logits, nudged):
        rows = batch(*[RowParams(seed=s, top_k=99) for s in range(200)], vocabulary=100)
        drawn.append(integers(sample(values.expand(200, 100), rows).ids))

    same = sum(a == b for a, b in zip(*drawn, strict=True))

    assert same >= 195


def test_log_probabilities_are_the_models_and_only_for_rows_that_request_them() -> None:
    logits = random_logits(9, 4, 500)
    params = [
        RowParams(temperature=0.0, logprobs=2, logit_bias=((17, 100.0),)),
        RowParams(temperature=0.0),
        RowParams(seed=1, temperature=0.5, top_k=3, logprobs=0),
        RowParams(seed=2, logprobs=5),
    ]

    sampled = sample(logits, batch(*params, vocabulary=500))

    assert sampled.logprobs is not None
    expected = logits.log_softmax(-1)
    assert int(sampled.ids[0]) == 17
    assert sampled.logprobs.places == (0, 2, 3)
    for at, place in enumerate((0, 2, 3)):
        chosen = expected[place, int(sampled.ids[place])]
        assert numbers(sampled.logprobs.chosen[at]) == pytest.approx(numbers(chosen), rel=1e-5)
        best = expected[place].topk(5)
        assert torch.equal(sampled.logprobs.top_ids[at], best.indices)
        torch.testing.assert_close(sampled.logprobs.top[at], best.values)


def test_log_probabilities_are_computed_only_if_requested() -> None:
    assert sample(torch.zeros(2, 9), batch(RowParams(), RowParams(), vocabulary=9)).logprobs is None


def test_the_logits_are_unchanged() -> None:
    logits = random_logits(1, 8, 700)
    before = logits.clone()
    params = [*MODES.values()]
    biased = [RowParams(logit_bias=((3, 1.0),), bad_words=((4,),)) for _ in params]
    mask = torch.ones(8, 700, dtype=torch.bool)

    sample(logits, batch(*params, vocabulary=700))
    sample(logits, batch(*biased, vocabulary=700), Allowed(mask=mask))

    assert torch.equal(logits, before)


@pytest.mark.parametrize("mode", MODES)
def test_masked_tokens_are_never_drawn_and_an_empty_row_does_no_harm(mode: str) -> None:
    logits = random_logits(2, 3, 300)
    logits[0] = -torch.inf
    logits[1, 5:] = -torch.inf
    logits[2, :299] = -torch.inf

    for position in range(50):
        rows = batch(*[MODES[mode]] * 3, positions=[position] * 3, vocabulary=300)
        empty, few, one = integers(sample(logits, rows).ids)

        assert 0 <= empty < 300
        assert few < 5
        assert one == 299


def test_an_empty_batch_draws_nothing() -> None:
    rows = batch(vocabulary=10)

    ids = sample(torch.zeros(0, 10), rows).ids
    rows.advance([])

    assert ids.dtype == torch.int64
    assert ids.shape == (0,)


def test_mismatched_shapes_are_reported() -> None:
    rows = batch(RowParams(), RowParams(), vocabulary=10)

    with pytest.raises(ValueError, match=r"logits: \[2, 11\].*\[2, 10\]"):
        sample(torch.zeros(2, 11), rows)
    with pytest.raises(ValueError, match="2 rows, 1 positions"):
        SamplingRows([RowParams()] * 2, [0], vocabulary=10, device=CPU)
    with pytest.raises(ValueError, match="histories: row 1"):
        batch(RowParams(), RowParams(presence_penalty=1.0), vocabulary=10)
