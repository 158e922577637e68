"""Parse the flat JSON of Triton's generate extension.

https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_generate.md
"""

import json

import msgspec
import pytest
from msgspec import UNSET

from strowger_gateway.gateway.surfaces.base import Inbound
from strowger_gateway.gateway.surfaces.kserve.generate_parse import parse_generate
from strowger_gateway.gateway.surfaces.kserve.requests import (
    GenerateTextRequest,
    GenerateTokensRequest,
)
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.requests import Draft, LoraRequest

TEXT: dict[str, object] = {"text_input": "Hello", "max_tokens": 8}
TOKENS: dict[str, object] = {"input_ids": [5, 6, 7], "max_tokens": 8}


def parsed(
    body: dict[str, object], *, streams: bool = False
) -> GenerateTextRequest | GenerateTokensRequest:
    data = json.dumps(body).encode()
    return parse_generate(Inbound(body=data, model="m", max_choices=16), data, streams=streams)


def refused(body: dict[str, object], *, streams: bool = False) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        parsed(body, streams=streams)
    return caught.value


def test_text_goes_in_raw_and_ends_where_the_tokenizer_ends() -> None:
    request = parsed(TEXT)

    assert isinstance(request, GenerateTextRequest)
    assert (request.model, request.prompts, request.template) == ("m", ("Hello",), False)
    assert msgspec.to_builtins(request.sampling) == {"max_tokens": 8, "temperature": 0.0}
    assert not request.stream


def test_input_ids_make_a_request_of_tokens() -> None:
    request = parsed({**TOKENS, "lora_task_id": 3, "draft_input_ids": [8], "input_lengths": 2})

    assert isinstance(request, GenerateTokensRequest)
    assert request.tokens == (5, 6)
    assert request.lora == LoraRequest(task_id=3)
    assert request.draft == Draft(tokens=(8,))
    assert request.sampling.end_id is UNSET


TERMS: list[tuple[str, object, str, object]] = [
    ("temperature", 0.5, "temperature", 0.5),
    ("top_k", 7, "top_k", 7),
    ("runtime_top_k", 7, "top_k", 7),
    ("top_p", 0.25, "top_p", 0.25),
    ("runtime_top_p", 0.25, "top_p", 0.25),
    ("top_p_min", 0.25, "top_p_min", 0.25),
    ("runtime_top_p_decay", 0.5, "top_p_decay", 0.5),
    ("top_p_reset_ids", 9, "top_p_reset_id", 9),
    ("min_p", 0.25, "min_p", 0.25),
    ("repetition_penalty", 1.5, "repetition_penalty", 1.5),
    ("presence_penalty", -0.5, "presence_penalty", -0.5),
    ("frequency_penalty", 0.5, "frequency_penalty", 0.5),
    ("min_length", 3, "min_tokens", 3),
    ("min_tokens", 3, "min_tokens", 3),
    ("no_repeat_ngram_size", 3, "no_repeat_ngram_size", 3),
    ("random_seed", 2**64 - 1, "seed", 2**64 - 1),
    ("seed", 3, "seed", 3),
    ("end_id", -1, "end_id", -1),
    ("pad_id", 0, "pad_id", 0),
    ("stop_words", ["a", "", "b"], "stop", ("a", "b")),
    ("stop_words", "a", "stop", ("a",)),
    ("stop_words", [""], "stop", UNSET),
    ("bad_words", ["a"], "bad_words", ("a",)),
    ("return_log_probs", True, "logprobs", True),
]


@pytest.mark.parametrize(("name", "value", "field", "ours"), TERMS)
@pytest.mark.parametrize("nested", [False, True], ids=["flat", "in parameters"])
def test_a_term_is_a_field_of_ours_at_the_top_and_in_parameters(
    name: str, value: object, field: str, ours: object, nested: bool
) -> None:
    given = {"top_k": 5, name: value} if name != "runtime_top_k" else {name: value}

    request = parsed({**TEXT, "parameters": given} if nested else {**TEXT, **given})

    assert getattr(request.sampling, field) == ours


def test_a_tensor_of_one_element_may_be_a_list_of_one() -> None:
    listed: dict[str, object] = {
        "text_input": ["Hello"],
        "max_tokens": [8],
        "temperature": [0.5],
        "top_k": [5],
        "return_log_probs": [True],
    }

    request = parsed(listed)

    assert isinstance(request, GenerateTextRequest)
    assert request.prompts == ("Hello",)
    assert (request.sampling.max_tokens, request.sampling.temperature) == (8, 0.5)
    assert request.reply.log_probs


def test_beams_all_come_back_and_are_not_normalised_by_length() -> None:
    request = parsed({**TEXT, "beam_width": 3, "early_stopping": True})
    tokens = parsed({**TOKENS, "beam_width": 3, "len_penalty": 2})

    assert request.sampling.n == 3
    assert (request.sampling.beam_width, request.sampling.length_penalty) == (3, 0.0)
    assert request.sampling.early_stopping is True
    assert (tokens.sampling.n, tokens.sampling.length_penalty) == (3, 2.0)


def test_a_stream_has_pieces_only_where_both_the_route_and_the_field_say_so() -> None:
    silent = parsed(TEXT, streams=True)
    stream = parsed({**TEXT, "stream": True}, streams=True)
    beams = parsed({**TEXT, "streaming": True, "beam_width": 2}, streams=True)
    error = refused({**TEXT, "stream": True})

    assert [one.stream for one in (silent, stream, beams)] == [True] * 3
    assert [one.reply.pieces for one in (silent, stream, beams)] == [False, True, False]
    assert error.param == "stream"
    assert "generate_stream" in error.message


def test_the_prompt_is_repeated_only_where_it_shall_not_be_left_out() -> None:
    left_out = parsed({**TEXT, "exclude_input_in_output": True})
    repeated = parsed({**TEXT, "exclude_input_in_output": False})

    assert isinstance(left_out, GenerateTextRequest)
    assert isinstance(repeated, GenerateTextRequest)
    assert (left_out.echo, repeated.echo) == (UNSET, True)


def test_usage_is_requested_if_the_client_wants_counts() -> None:
    counted = parsed({**TEXT, "return_num_output_tokens": True}, streams=True)
    silent = parsed(TEXT, streams=True)

    assert isinstance(counted, GenerateTextRequest)
    assert isinstance(silent, GenerateTextRequest)
    assert (counted.include_usage, silent.include_usage) == (True, False)


@pytest.mark.parametrize(
    ("fields", "param", "said"),
    [
        ({"max_tokens": None}, "max_tokens", "max_tokens is required"),
        ({"text_input": None}, "text_input", "text_input or input_ids is required"),
        ({"text_input": ["a", "b"]}, "text_input", "has 2 strings; send one per request"),
        ({"input_ids": [1]}, "input_ids", "send only one of them"),
        ({"what": 1}, "what", "unknown field of generate and generate_stream"),
        ({"embedding_bias_words": ["a"]}, "embedding_bias_words", "unknown field of generate"),
        ({"parameters": {"what": 1}}, "parameters", "unknown field what"),
        ({"parameters": {"max_tokens": 3}}, "parameters.max_tokens", "is also at the top level"),
        ({"parameters": {"top_k": "a"}}, "parameters.top_k", "must be an integer"),
        ({"top_k": 2, "runtime_top_k": 2}, "top_k", "top_k and runtime_top_k mean the same"),
        ({"temperature": "hot"}, "temperature", "temperature must be a number"),
        ({"temperature": [1.0, 2.0]}, "temperature", "temperature must be a number"),
        ({"stop_words": [1]}, "stop_words[0]", "must be a string or a list of strings"),
        ({"runtime_top_p": 2}, "runtime_top_p", "runtime_top_p: 2 must be at least 0 and at most"),
        ({"seed": -1}, "seed", "seed: -1 must be at least 0"),
        ({"seed": 2**64}, "seed", "seed"),
        ({"max_tokens": 0}, "max_tokens", "max_tokens: 0 must be at least 1"),
        ({"stop": True}, "stop", "close the connection"),
        ({"lora_task_id": 0}, "lora_task_id", "only supported in requests with input_ids"),
        (
            {"return_context_logits": True},
            "return_context_logits",
            "only supported in requests with input_ids",
        ),
        ({"num_return_sequences": 2}, "num_return_sequences", "generate_stream for several"),
        (
            {"num_return_sequences": 3, "beam_width": 2},
            "num_return_sequences",
            "must be at most 2",
        ),
        ({"id": 3}, "id", "id must be a string"),
    ],
)
def test_what_cannot_be_is_refused_by_name(
    fields: dict[str, object], param: str, said: str
) -> None:
    error = refused({**TEXT, **fields})

    assert said in error.message
    assert error.param == param


def test_requests_of_tokens_have_their_own_rejections() -> None:
    empty = refused({"input_ids": [], "max_tokens": 1})
    longer = refused({**TOKENS, "input_lengths": 4})
    repeated = refused({**TOKENS, "stream": True, "exclude_input_in_output": False}, streams=True)

    assert empty.message == "input_ids: must have at least one token"
    assert "at most 3, the length of input_ids" in longer.message
    assert repeated.param == "exclude_input_in_output"
