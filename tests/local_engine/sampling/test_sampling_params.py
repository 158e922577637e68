"""A client's parameters become the sampler's, or an error that names the field."""

import struct

import pytest
import torch
from msgspec.structs import replace

from strowger_gateway.local_engine.sampling.sampling_params import (
    RowParams,
    TopPDecay,
    resolve_params,
)
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.sampling import Sampling
from strowger_gateway.schemas.tensors import Tensor

V = 8


def settled(sampling: Sampling) -> RowParams:
    return resolve_params(sampling, vocabulary=V, end_ids=(2, 3), seed=77)


def test_without_parameters_the_models_distribution_is_unchanged() -> None:
    assert settled(Sampling()) == RowParams(seed=77, end_ids=(2, 3))


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        (Sampling(temperature=0.0), RowParams(temperature=0.0)),
        (Sampling(temperature=0.7, do_sample=False), RowParams(temperature=0.0)),
        (Sampling(temperature=0.7, do_sample=True), RowParams(temperature=0.7)),
        (Sampling(temperature=40.0), RowParams(temperature=40.0)),
        (Sampling(top_k=None), RowParams()),
        (Sampling(top_k=-1), RowParams()),
        (Sampling(top_k=0), RowParams()),
        (Sampling(top_k=2000), RowParams(top_k=2000)),
        (Sampling(top_p=0.0), RowParams(top_p=0.0)),
        (Sampling(min_p=0.1, typical_p=0.2), RowParams(min_p=0.1, typical_p=0.2)),
        (Sampling(seed=None), RowParams()),
        (Sampling(seed=5), RowParams(seed=5, seeded=True)),
        (Sampling(seed=2**64 - 1), RowParams(seed=-1, seeded=True)),
        (Sampling(seed=-4), RowParams(seed=-4, seeded=True)),
        (Sampling(logprobs=True), RowParams(logprobs=0)),
        (Sampling(logprobs=True, top_logprobs=3), RowParams(logprobs=3)),
        (Sampling(top_logprobs=3), RowParams(logprobs=3)),
        (Sampling(logprobs=False), RowParams(logprobs=-1)),
        (Sampling(bad_word_ids=((1,), (2, 3))), RowParams(bad_words=((1,), (2, 3)))),
        (Sampling(logit_bias={3: -100.0}), RowParams(logit_bias=((3, -100.0),))),
        (Sampling(top_p=0.5, top_p_decay=0.9), RowParams(top_p=0.5, decay=TopPDecay(factor=0.9))),
        (
            Sampling(repetition_penalty=1.2, presence_penalty=-2.0, frequency_penalty=0.5),
            RowParams(repetition_penalty=1.2, presence_penalty=-2.0, frequency_penalty=0.5),
        ),
        (
            Sampling(min_tokens=4, no_repeat_ngram_size=3),
            RowParams(min_tokens=4, no_repeat_ngram_size=3),
        ),
    ],
)
def test_a_row_has_the_parameters_that_the_client_sends(
    sampling: Sampling, expected: RowParams
) -> None:
    seed = expected.seed or 77

    assert settled(sampling) == replace(expected, seed=seed, end_ids=(2, 3))


@pytest.mark.parametrize(
    ("sampling", "ends"),
    [
        (Sampling(), (2, 3)),
        (Sampling(end_id=5), (5,)),
        (Sampling(end_id=-1), ()),
        (Sampling(ignore_eos=True, stop_token_ids=(6,)), (6,)),
        (Sampling(stop_token_ids=(3, 6)), (2, 3, 6)),
        (Sampling(stop_words=((7,), (1, 2))), (2, 3, 7)),
    ],
)
def test_a_minimum_length_forbids_every_single_token_that_would_end_the_answer(
    sampling: Sampling, ends: tuple[int, ...]
) -> None:
    assert settled(sampling).end_ids == ends


@pytest.mark.parametrize("shape", [(V,), (1, V)])
def test_a_dense_bias_is_read_from_its_bytes(shape: tuple[int, ...]) -> None:
    values = [float(i) for i in range(V - 1)] + [float("-inf")]
    bias = Tensor(dtype="float32", shape=shape, data=struct.pack("<8f", *values))

    row = settled(Sampling(embedding_bias=bias))

    assert row.embedding_bias is not None
    assert torch.equal(row.embedding_bias, torch.tensor(values))


FOUR = Tensor(dtype="float32", shape=(4,), data=bytes(16))
INFINITE = Tensor(dtype="float32", shape=(V,), data=struct.pack("<8f", *[float("inf")] * V))


@pytest.mark.parametrize(
    ("field", "sampling"),
    [
        ("temperature", Sampling(temperature=-0.1)),
        ("temperature", Sampling(temperature=float("inf"))),
        ("temperature", Sampling(temperature=float("nan"))),
        ("top_p", Sampling(top_p=1.1)),
        ("top_p", Sampling(top_p=-0.1)),
        ("top_p", Sampling(top_p=float("nan"))),
        ("top_k", Sampling(top_k=-2)),
        ("min_p", Sampling(min_p=1.5)),
        ("typical_p", Sampling(typical_p=0.0)),
        ("typical_p", Sampling(typical_p=1.5)),
        ("repetition_penalty", Sampling(repetition_penalty=0.0)),
        ("repetition_penalty", Sampling(repetition_penalty=float("nan"))),
        ("presence_penalty", Sampling(presence_penalty=float("inf"))),
        ("frequency_penalty", Sampling(frequency_penalty=float("nan"))),
        ("no_repeat_ngram_size", Sampling(no_repeat_ngram_size=-1)),
        ("min_tokens", Sampling(min_tokens=-1)),
        ("seed", Sampling(seed=2**64)),
        ("seed", Sampling(seed=-(2**63) - 1)),
        ("logit_bias", Sampling(logit_bias={V: 1.0})),
        ("logit_bias", Sampling(logit_bias={-1: 1.0})),
        ("logit_bias", Sampling(logit_bias={1: float("nan")})),
        ("logit_bias", Sampling(logit_bias={1: float("inf")})),
        ("bad_words", Sampling(bad_word_ids=((),))),
        ("bad_words", Sampling(bad_word_ids=((1, V),))),
        ("embedding_bias", Sampling(embedding_bias=FOUR)),
        ("embedding_bias", Sampling(embedding_bias=INFINITE)),
        ("top_logprobs", Sampling(logprobs=True, top_logprobs=V + 1)),
        ("top_p_decay", Sampling(top_p_decay=0.0)),
        ("top_p_min", Sampling(top_p_min=2.0)),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(field: str, sampling: Sampling) -> None:
    with pytest.raises(InvalidRequest, match=rf"^{field}: ") as caught:
        settled(sampling)

    assert caught.value.param == field


def test_words_that_the_tokenizer_found_are_banned_as_well() -> None:
    sampling = Sampling(bad_word_ids=((1,),))

    row = resolve_params(sampling, vocabulary=V, end_ids=(), seed=0, bad_words=((4, 5),))

    assert row.bad_words == ((1,), (4, 5))
