"""Fields of a chat request: accepted ranges and errors."""

import msgspec
import pytest
from msgspec import UNSET

from strowger_gateway.gateway.surfaces.openai.parse import parse_chat
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.requests import ChatRequest
from strowger_gateway.schemas.sampling import Sampling
from tests.gateway.surfaces.bodies import HELLO, chat, chat_body, refused


def test_a_minimal_request_has_no_sampling_fields() -> None:
    request = chat()

    assert request.model == "m"
    assert request.messages[0].content == "hello"
    assert request.sampling == Sampling()
    assert not request.stream
    assert not request.include_usage
    assert request.extra == {}


def test_every_known_field_arrives() -> None:
    request = chat(
        temperature=0.5,
        top_p=0.9,
        top_k=40,
        min_p=0.05,
        typical_p=0.95,
        n=2,
        best_of=3,
        stop=["a", "b"],
        stop_token_ids=[1, 2],
        seed=7,
        presence_penalty=-1,
        frequency_penalty=1.5,
        repetition_penalty=1.1,
        logit_bias={"50256": -100, "7": 2.5},
        logprobs=True,
        top_logprobs=3,
        min_tokens=2,
        no_repeat_ngram_size=3,
        bad_words=["damn"],
        ignore_eos=True,
        beam_width=4,
        length_penalty=0.8,
        early_stopping="never",
        max_tokens=9,
    )

    assert request.sampling == Sampling(
        temperature=0.5,
        top_p=0.9,
        top_k=40,
        min_p=0.05,
        typical_p=0.95,
        n=2,
        best_of=3,
        stop=("a", "b"),
        stop_token_ids=(1, 2),
        seed=7,
        presence_penalty=-1,
        frequency_penalty=1.5,
        repetition_penalty=1.1,
        logit_bias={50256: -100, 7: 2.5},
        logprobs=True,
        top_logprobs=3,
        min_tokens=2,
        no_repeat_ngram_size=3,
        bad_words=("damn",),
        ignore_eos=True,
        beam_width=4,
        length_penalty=0.8,
        early_stopping="never",
        max_tokens=9,
    )


def test_what_concerns_the_request_as_a_whole_arrives() -> None:
    request = chat(
        user="u",
        priority=2,
        timeout=12.5,
        reasoning_effort="high",
        metadata={"a": "b"},
        stream=True,
        stream_options={"include_usage": True},
    )

    assert (request.user, request.priority, request.timeout_s) == ("u", 2, 12.5)
    assert request.reasoning_effort == "high"
    assert isinstance(request.metadata, msgspec.Raw)
    assert bytes(request.metadata) == b'{"a":"b"}'
    assert request.stream
    assert request.include_usage


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("temperature", value) for value in (0, 2, 0.7)],
        *[("top_p", value) for value in (0, 1)],
        *[("top_k", value) for value in (1, 10**6)],
        *[("min_p", value) for value in (0, 1)],
        *[("typical_p", value) for value in (0.001, 1)],
        *[("presence_penalty", value) for value in (-2, 2)],
        *[("frequency_penalty", value) for value in (-2, 2)],
        *[("repetition_penalty", value) for value in (0.01, 50)],
        *[("seed", value) for value in (-(2**63), 0, 2**63, 2**64 - 1)],
        *[("early_stopping", value) for value in (True, False, "never")],
        *[("n", value) for value in (1, 256)],
        ("max_tokens", 1),
        ("min_tokens", 0),
    ],
)
def test_the_ends_of_a_range_are_allowed(field: str, value: object) -> None:
    assert getattr(chat(**{field: value}).sampling, field) == value


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        *[("temperature", value, "a number from 0 to 2") for value in (-0.1, 2.1, "1", True)],
        *[("top_p", value, "a number from 0 to 1") for value in (-0.1, 1.1)],
        *[("top_k", value, "an integer of 1 or more, or null") for value in (0, -1, 1.5)],
        *[("min_p", value, "a number from 0 to 1") for value in (-0.1, 1.1)],
        *[("typical_p", value, "a number above 0 and up to 1") for value in (0, 1.1)],
        *[("presence_penalty", value, "a number from -2 to 2") for value in (-2.1, 2.1)],
        *[("frequency_penalty", value, "a number from -2 to 2") for value in (-2.1, 2.1)],
        *[("repetition_penalty", value, "a number above 0") for value in (0, -1)],
        *[("top_logprobs", value, "an integer from 0 to 20") for value in (-1, 21)],
        *[("seed", v, "from -2^63 to 2^64-1") for v in (-(2**63) - 1, 2**64, "7")],
        *[("n", value, "an integer of 1 or more") for value in (0, -1)],
        *[("best_of", value, "an integer of 1 or more") for value in (0, 1.5)],
        *[("max_tokens", value, "1 or more, or null") for value in (0, -1, "many")],
        *[("max_completion_tokens", value, "1 or more, or null") for value in (0, 1.5)],
        *[("priority", value, "an integer from 1 (first) to 5") for value in (0, 6)],
        *[("timeout", value, "above 0 and up to 3600") for value in (0, 3600.5)],
        *[("min_tokens", value, "an integer of 0 or more") for value in (-1,)],
        *[("no_repeat_ngram_size", value, "an integer of 0 or more") for value in (-1,)],
        *[("beam_width", value, "an integer of 1 or more") for value in (0,)],
        *[("stop", value, "a string or a list of strings") for value in (5, True)],
        *[("logit_bias", value, "keys are token ids") for value in ([1], {"a": 1}, {"-1": 1})],
        *[("logit_bias", value, "-100 to 100") for value in ({"1": 101}, {"1": -100.5})],
        *[("early_stopping", value, 'true, false or "never"') for value in ("always", 1)],
        *[("logprobs", value, "true or false") for value in (3,)],
        *[("stream", value, "true or false") for value in ("yes", 1)],
        *[("bad_words", value, "a list of strings") for value in ("damn",)],
        *[("user", value, "a string") for value in (5,)],
        *[("metadata", value, "an object") for value in ((), "x", 0)],
        *[("messages", value, "at least one message") for value in ((), "hi", 5)],
    ],
)
def test_a_value_out_of_range_is_refused_by_name(field: str, value: object, allowed: str) -> None:
    error = refused(chat, **{field: value})

    assert error.param == field
    assert error.message.startswith(f"{field} must be ")
    assert allowed in error.message
    assert error.status == 400


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"stop": ["ok", None]}, "stop[1]"),
        ({"bad_words": ["", "x"]}, "bad_words[0]"),
        ({"stop_token_ids": [1, -1]}, "stop_token_ids[1]"),
        ({"stop_token_ids": ["a"]}, "stop_token_ids[0]"),
        ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
        ({"stream_options": []}, "stream_options"),
    ],
)
def test_an_error_inside_a_list_or_an_object_names_the_place(
    fields: dict[str, object], param: str
) -> None:
    error = refused(chat, **fields)

    assert error.param == param
    assert param in error.message


@pytest.mark.parametrize(
    "field",
    sorted(
        {
            *("temperature", "top_p", "top_k", "min_p", "typical_p", "n", "stop", "seed"),
            *("presence_penalty", "frequency_penalty", "repetition_penalty", "logit_bias"),
            *("logprobs", "top_logprobs", "max_tokens", "max_completion_tokens", "min_tokens"),
            *("no_repeat_ngram_size", "bad_words", "ignore_eos", "beam_width", "stop_token_ids"),
            *("length_penalty", "early_stopping", "tools", "tool_choice", "parallel_tool_calls"),
            *("response_format", "stream", "stream_options", "user", "metadata", "priority"),
            *("reasoning_effort", "timeout", "store", "a_field_that_nobody_knows"),
        }
    ),
)
def test_null_means_absent(field: str) -> None:
    assert _same_but_for_json(chat(**{field: None}), chat())


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"n": 3, "best_of": 2}, "at least n"),
        ({"best_of": 3, "stream": True}, "must equal n if the answer is streamed"),
        ({"best_of": 257}, "at most 256"),
    ],
)
def test_more_answers_may_be_generated_than_are_returned_and_no_fewer(
    fields: dict[str, object], says: str
) -> None:
    error = refused(chat, **fields)

    assert error.param == "best_of"
    assert says in error.message


@pytest.mark.parametrize("field", ["stop", "bad_words", "stop_token_ids"])
def test_an_empty_list_has_no_effect(field: str) -> None:
    assert chat(**{field: ()}).sampling == Sampling()


def test_an_empty_logit_bias_has_no_effect() -> None:
    assert chat(logit_bias={}).sampling == Sampling()


def test_a_stop_string_may_come_without_a_list() -> None:
    assert chat(stop="END").sampling.stop == ("END",)


def test_an_empty_stop_string_stops_nothing() -> None:
    assert chat(stop=["", "END"]).sampling.stop == ("END",)
    assert chat(stop="").sampling == Sampling()


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_the_request_remembers_which_max_tokens_was_sent(name: str) -> None:
    request = chat(**{name: 5})

    assert request.sampling.max_tokens == 5
    assert request.max_tokens_field == name


def test_without_max_tokens_there_is_neither_a_bound_nor_a_name_for_it() -> None:
    assert chat().sampling.max_tokens is UNSET
    assert chat().max_tokens_field is UNSET


def test_both_max_tokens_may_come_if_they_agree() -> None:
    request = chat(max_tokens=5, max_completion_tokens=5)

    assert request.sampling.max_tokens == 5
    assert request.max_tokens_field == "max_completion_tokens"


def test_two_different_max_tokens_contradict_each_other() -> None:
    error = refused(chat, max_tokens=5, max_completion_tokens=6)

    assert error.param == "max_tokens"
    assert "max_completion_tokens" in error.message


@pytest.mark.parametrize("logprobs", [None, False])
def test_top_logprobs_needs_logprobs(logprobs: bool | None) -> None:
    error = refused(chat, top_logprobs=2, logprobs=logprobs)

    assert error.param == "top_logprobs"
    assert "logprobs: true" in error.message


def test_more_choices_than_the_operator_allows_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="n must be at most 4") as caught:
        parse_chat(chat_body(n=5), max_choices=4)

    assert caught.value.param == "n"
    assert parse_chat(chat_body(n=4), max_choices=4).sampling.n == 4


@pytest.mark.parametrize(
    "model",
    ["gpt-4o", "Qwen/Qwen3-8B", "a", "a:b@c+d", "ft:gpt-4o:org::id", "/models/x", "x" * 256],
)
def test_a_model_name_may_look_like_this(model: str) -> None:
    assert chat(model=model).model == model


@pytest.mark.parametrize(
    "model", ["", ".a", "a.", "-a", "a-", "_a", "a_", "a b", "ä", "a\n", "a\x00", "x" * 257, 5]
)
def test_a_model_name_may_not_look_like_this(model: object) -> None:
    error = refused(chat, model=model)

    assert error.param == "model"
    assert "256 characters" in error.message


@pytest.mark.parametrize("field", ["model", "messages"])
@pytest.mark.parametrize("null", [False, True])
def test_model_and_messages_are_required(field: str, null: bool) -> None:
    fields: dict[str, object] = {"model": "m", "messages": [HELLO], field: None}
    if not null:
        del fields[field]

    with pytest.raises(InvalidRequest) as caught:
        parse_chat(msgspec.json.encode(fields))

    assert caught.value.param == field
    assert field in caught.value.message


def test_a_model_in_the_path_goes_before_the_bodys() -> None:
    body = msgspec.json.encode({"messages": [HELLO]})

    assert parse_chat(body, model="from-the-path").model == "from-the-path"
    assert parse_chat(chat_body(), model="from-the-path").model == "from-the-path"


def test_fields_that_we_do_not_know_travel_as_they_came() -> None:
    request = chat(store=False, audio={"voice": "alloy"}, functions=[{"name": "f"}], n=2)

    assert {name: bytes(raw) for name, raw in request.extra.items()} == {
        "store": b"false",
        "audio": b'{"voice":"alloy"}',
        "functions": b'[{"name":"f"}]',
    }
    assert request.sampling.n == 2


def test_a_range_still_holds_next_to_an_unknown_field() -> None:
    assert refused(chat, store=False, temperature=3).param == "temperature"


def test_other_stream_options_travel_without_the_one_that_is_ours() -> None:
    request = chat(
        stream=True, stream_options={"include_usage": True, "include_obfuscation": False}
    )

    assert request.include_usage
    assert {name: bytes(raw) for name, raw in request.extra.items()} == {
        "stream_options": b'{"include_obfuscation":false}'
    }


@pytest.mark.parametrize("options", [None, {}, {"include_usage": None}, {"include_usage": False}])
def test_null_or_false_do_not_request_usage(options: object) -> None:
    request = chat(stream=True, stream_options=options)

    assert not request.include_usage
    assert request.extra == {}


def _same_but_for_json(one: ChatRequest, other: ChatRequest) -> bool:
    """Equal once the messages' own JSON is left aside."""
    fields = [name for name in one.__struct_fields__ if name != "messages"]
    return all(getattr(one, name) == getattr(other, name) for name in fields)
