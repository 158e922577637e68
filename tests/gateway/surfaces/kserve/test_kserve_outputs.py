"""Answers of unequal length as rectangular tensors, in TensorRT-LLM's shapes."""

import msgspec
import pytest

from strowger_gateway.gateway.surfaces.kserve.outputs import Outputs, TextOutputs
from strowger_gateway.gateway.surfaces.kserve.tensors import float32, int32
from strowger_gateway.schemas.answers import Answer, Choice
from strowger_gateway.schemas.errors import UpstreamBroken
from strowger_gateway.schemas.events import Finished, Started, TokenLogprob, Usage
from strowger_gateway.schemas.tensors import Tensor


def choice(
    ids: list[int],
    *,
    logprobs: list[float] | None = None,
    logits: Tensor | None = None,
    text: str | None = None,
) -> Choice:
    return Choice(
        index=0,
        text=text,
        tool_calls=[],
        logprobs=[TokenLogprob(token="", logprob=one) for one in logprobs or []],
        token_ids=ids,
        opaque={},
        generation_logits=logits,
        finish=Finished(reason="stop"),
    )


def outputs(*choices: Choice, context: Tensor | None = None, with_input: bool = False) -> Outputs:
    answer = Answer(started=Started(), choices=list(choices), context_logits=context)
    return Outputs(answer, prompt=(1, 2), pad=9, with_input=with_input)


def test_shorter_rows_are_padded_and_their_length_is_reported() -> None:
    found = outputs(choice([5, 6, 7]), choice([8]))

    assert found.tensor("output_ids") == int32((2, 3), (5, 6, 7, 8, 9, 9))
    assert found.tensor("sequence_length") == int32((2,), (3, 1))
    assert found.tensor("num_input_tokens") == int32((1,), (2,))
    assert found.tensor("num_output_tokens") == int32((1,), (4,))


def test_the_prompt_precedes_every_row_and_counts_if_it_is_requested() -> None:
    found = outputs(choice([5, 6]), choice([8]), with_input=True)

    assert found.tensor("output_ids") == int32((2, 4), (1, 2, 5, 6, 1, 2, 8, 9))
    assert found.tensor("sequence_length") == int32((2,), (4, 3))


def test_log_probs_and_logits_of_shorter_rows_end_in_zeros() -> None:
    long = choice([5, 6], logprobs=[-0.5, -1.0], logits=float32((2, 2), (1, 2, 3, 4)))
    short = choice([8], logprobs=[-2.0], logits=float32((1, 2), (5, 6)))

    found = outputs(long, short, context=float32((2, 2), (7, 8, 9, 10)))

    assert found.tensor("output_log_probs") == float32((1, 2, 2), (-0.5, -1.0, -2.0, 0.0))
    assert found.tensor("cum_log_probs") == float32((1, 2), (-1.5, -2.0))
    assert found.tensor("generation_logits") == float32((1, 2, 2, 2), (1, 2, 3, 4, 5, 6, 0, 0))
    assert found.tensor("context_logits") == float32((1, 2, 2), (7, 8, 9, 10))


def test_a_sum_that_the_backend_reported_is_taken() -> None:
    reported = choice([5], logprobs=[-1.0])
    reported.finish = msgspec.structs.replace(Finished(reason="stop"), cum_logprob=-3.0)

    assert outputs(reported).tensor("cum_log_probs") == float32((1, 1), (-3.0,))


@pytest.mark.parametrize("name", ["output_log_probs", "context_logits", "generation_logits"])
def test_a_backend_that_leaves_a_tensor_out_is_at_fault(name: str) -> None:
    with pytest.raises(UpstreamBroken, match=f"lacks the requested {name}"):
        outputs(choice([5])).tensor(name)


def test_text_is_a_tensor_of_strings_with_numbers_next_to_it() -> None:
    answer = Answer(
        started=Started(),
        choices=[
            choice([], text="ab", logprobs=[-0.5, -0.5]),
            choice([], text="c", logprobs=[-2.0]),
        ],
        usage=Usage(prompt_tokens=4, completion_tokens=3),
    )

    found = TextOutputs(answer)

    assert found.tensor("text_output") == ("ab", "c")
    assert found.tensor("output_log_probs") == float32((1, 2, 2), (-0.5, -0.5, -2.0, 0.0))
    assert found.tensor("cum_log_probs") == float32((1, 2), (-1.0, -2.0))
    assert found.tensor("num_input_tokens") == int32((1,), (4,))
    assert found.tensor("num_output_tokens") == int32((1,), (3,))


@pytest.mark.parametrize("name", ["output_log_probs", "num_input_tokens", "num_output_tokens"])
def test_text_without_the_requested_numbers_is_an_error(name: str) -> None:
    answer = Answer(started=Started(), choices=[choice([], text="a")])

    with pytest.raises(UpstreamBroken, match=f"lacks the requested {name}"):
        TextOutputs(answer).tensor(name)
