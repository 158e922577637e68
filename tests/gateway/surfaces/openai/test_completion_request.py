"""Completion requests: accepted fields, and parsing of prompts."""

import msgspec
import pytest
from msgspec import UNSET

from strowger_gateway.gateway.surfaces.openai.parse import COMPLETION_MAX_TOKENS, parse_completion
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.sampling import Sampling
from tests.gateway.surfaces.bodies import completion, refused


@pytest.mark.parametrize(
    ("prompt", "prompts", "batch"),
    [
        ("once", ("once",), False),
        ("", ("",), False),
        (["once"], ("once",), True),
        (["once", "twice"], ("once", "twice"), True),
        ([1, 2, 3], ((1, 2, 3),), False),
        ([0], ((0,),), False),
        ([[1, 2], [3]], ((1, 2), (3,)), True),
    ],
)
def test_a_prompt_has_one_of_four_forms(
    prompt: object, prompts: tuple[object, ...], batch: bool
) -> None:
    request = completion(prompt=prompt)

    assert request.prompts == prompts
    assert request.batch is batch


@pytest.mark.parametrize(
    ("prompt", "param"),
    [
        (None, "prompt"),
        (5, "prompt"),
        ({"text": "x"}, "prompt"),
        ((), "prompt"),
        (["a", 1], "prompt"),
        (["a", [1]], "prompt"),
        ([1, [1]], "prompt"),
        ([[1], ()], "prompt[1]"),
        ([True], "prompt[0]"),
        ([1, -1], "prompt[1]"),
        ([1, 1.5], "prompt[1]"),
        ([1, 2**31], "prompt[1]"),
        ([[1], [2, "x"]], "prompt[1][1]"),
        ([None], "prompt[0]"),
    ],
)
def test_a_prompt_of_any_other_form_is_refused(prompt: object, param: str) -> None:
    error = refused(completion, prompt=prompt)

    assert error.param == param
    assert param in error.message


def test_a_request_without_a_prompt_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="prompt is required"):
        parse_completion(b'{"model":"m"}')


def test_what_is_peculiar_to_completions_arrives() -> None:
    request = completion(
        echo=True,
        suffix="the end",
        best_of=3,
        n=2,
        logprobs=5,
        max_tokens=0,
        error_behavior="truncate",
    )

    assert request.echo is True
    assert request.suffix == "the end"
    assert request.error_behavior == "truncate"
    assert request.sampling == Sampling(best_of=3, n=2, logprobs=True, top_logprobs=5, max_tokens=0)


def test_the_backend_decides_the_number_of_tokens() -> None:
    assert completion().sampling.max_tokens is UNSET
    assert COMPLETION_MAX_TOKENS == 16


def test_no_logprobs_is_not_the_same_as_logprobs_of_no_rivals() -> None:
    assert completion().sampling.logprobs is UNSET
    assert completion(logprobs=0).sampling == Sampling(logprobs=True, top_logprobs=0)


@pytest.mark.parametrize(
    ("fields", "param", "said"),
    [
        ({"logprobs": 6}, "logprobs", "an integer from 0 to 5"),
        ({"logprobs": True}, "logprobs", "an integer from 0 to 5"),
        ({"max_tokens": 0}, "max_tokens", "0 with echo"),
        ({"max_tokens": 0, "echo": False}, "max_tokens", "0 with echo"),
        ({"max_tokens": -1}, "max_tokens", "0 with echo"),
        ({"n": 3, "best_of": 2}, "best_of", "at least n"),
        ({"n": 2, "best_of": 3, "stream": True}, "best_of", "must equal n if"),
        ({"best_of": 0}, "best_of", "1 or more"),
        ({"echo": "yes"}, "echo", "true or false"),
        ({"suffix": 5}, "suffix", "a string"),
        ({"error_behavior": "ignore"}, "error_behavior", '"error" or "truncate"'),
        ({"use_raw_prompt": 1}, "use_raw_prompt", "true or false"),
        ({"temperature": 2.5}, "temperature", "a number from 0 to 2"),
    ],
)
def test_a_field_that_cannot_be_right_is_refused(
    fields: dict[str, object], param: str, said: str
) -> None:
    error = refused(completion, **fields)

    assert error.param == param
    assert said in error.message


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"n": 5}, "n"),
        ({"prompt": ["a", "b", "c"], "n": 2}, "n"),
        ({"prompt": ["a"] * 5}, "prompt"),
        ({"prompt": ["a", "b"], "best_of": 3}, "best_of"),
    ],
)
def test_prompts_times_choices_are_bounded(fields: dict[str, object], param: str) -> None:
    body = msgspec.json.encode({"model": "m", "prompt": "x", **fields})

    with pytest.raises(InvalidRequest) as caught:
        parse_completion(body, max_choices=4)

    assert caught.value.param == param
    assert "4" in caught.value.message
    assert parse_completion(body, max_choices=6)


@pytest.mark.parametrize(
    ("sent", "raw_prompt", "template"),
    [
        (None, True, False),
        (None, False, True),
        (True, False, False),
        (False, True, True),
    ],
)
def test_a_prompt_is_raw_unless_the_request_or_the_surface_says_otherwise(
    sent: bool | None, raw_prompt: bool, template: bool
) -> None:
    body = msgspec.json.encode({"model": "m", "prompt": "x", "use_raw_prompt": sent})

    assert parse_completion(body, raw_prompt=raw_prompt).template is template


def test_as_many_candidates_as_answers_can_be_streamed() -> None:
    assert completion(n=2, best_of=2, stream=True).sampling.best_of == 2


def test_the_rest_is_as_in_chat() -> None:
    request = completion(
        stream=True,
        stream_options={"include_usage": True},
        user="u",
        priority=1,
        timeout=3,
        stop="x",
        something="else",
    )

    assert request.stream
    assert request.include_usage
    assert (request.user, request.priority, request.timeout_s) == ("u", 1, 3)
    assert request.sampling.stop == ("x",)
    assert set(request.extra) == {"something"}
