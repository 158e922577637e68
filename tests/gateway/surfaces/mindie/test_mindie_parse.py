"""Fields of MindIE's /infer_token: accepted ranges and defaults."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from strowger_gateway.gateway.surfaces.mindie.parse import parse_infer_token
from strowger_gateway.gateway.surfaces.mindie.wire import PARAMETERS
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.requests import TokenRequest
from strowger_gateway.schemas.sampling import Sampling
from tests.gateway.surfaces.mindie.mindie_bodies import (
    EXAMPLE,
    infer_token,
    refusal_of,
    refused_with,
)

SMALLEST = math.ulp(0.0)
BELOW_ONE = math.nextafter(1.0, 0.0)
INT32 = 2**31 - 1

TAKEN = [
    ("temperature", SMALLEST),
    ("temperature", 100),
    ("top_k", 1),
    ("top_k", INT32),
    ("top_p", SMALLEST),
    ("top_p", BELOW_ONE),
    ("typical_p", SMALLEST),
    ("typical_p", 1.0),
    ("max_new_tokens", 1),
    ("max_new_tokens", INT32),
    ("do_sample", False),
    ("seed", 1),
    ("seed", 2**63),
    ("seed", 2**64 - 1),
    ("repetition_penalty", SMALLEST),
    ("repetition_penalty", 3.5),
    ("details", True),
    ("watermark", True),
    ("priority", 1),
    ("priority", 5),
    ("timeout", 1),
    ("timeout", 3600),
]
"""Both ends of every range of the document."""

REFUSED = [
    ("temperature", 0),
    ("temperature", -0.5),
    ("temperature", "warm"),
    ("top_k", 0),
    ("top_k", -1),
    ("top_k", INT32 + 1),
    ("top_k", 1.5),
    ("top_p", 0.0),
    ("top_p", 1.0),
    ("top_p", 1),
    ("top_p", 1.1),
    ("typical_p", 0.0),
    ("typical_p", 1.1),
    ("max_new_tokens", 0),
    ("max_new_tokens", INT32 + 1),
    ("do_sample", 1),
    ("seed", 0),
    ("seed", -1),
    ("seed", 2**64),
    ("seed", 1.5),
    ("repetition_penalty", 0.0),
    ("repetition_penalty", -1),
    ("details", "yes"),
    ("watermark", 0),
    ("priority", 0),
    ("priority", 6),
    ("timeout", 0),
    ("timeout", 3601),
    ("timeout", 0.5),
]

PLACES = {"max_new_tokens": "max_tokens"}


def test_the_documents_own_request_is_accepted_unchanged() -> None:
    request = parse_infer_token(EXAMPLE.encode(), model="m")

    assert request == TokenRequest(
        model="m",
        tokens=(5618, 19678, 701, 9072, 13),
        sampling=Sampling(
            temperature=0.5,
            top_k=10,
            top_p=0.95,
            max_tokens=20,
            do_sample=True,
            repetition_penalty=1.03,
            typical_p=0.5,
            watermark=False,
        ),
        stream=False,
        details=True,
        priority=5,
        timeout_s=10.0,
        text=True,
        optional=("answer.text", "typical_p", "watermark"),
    )


def test_silence_is_twenty_tokens_the_likeliest_each() -> None:
    request = infer_token()

    assert request == TokenRequest(
        model="m",
        tokens=(1, 2),
        sampling=Sampling(max_tokens=20, do_sample=False),
        text=True,
        optional=("answer.text",),
    )


def test_null_counts_as_absent_everywhere() -> None:
    nulls = infer_token(dict.fromkeys(PARAMETERS), stream=None)

    assert nulls == infer_token()


@pytest.mark.parametrize(("name", "value"), TAKEN)
def test_both_ends_of_a_range_are_taken(name: str, value: object) -> None:
    request = infer_token({name: value})

    reported = {
        **msgspec.structs.asdict(request.sampling),
        "details": request.details,
        "priority": request.priority,
        "timeout": request.timeout_s,
    }
    assert reported[PLACES.get(name, name)] == value


@pytest.mark.parametrize(("name", "value"), REFUSED)
def test_what_is_out_of_range_is_named_by_its_path(name: str, value: object) -> None:
    refusal = refused_with({name: value})

    assert refusal.param == f"parameters.{name}"
    assert refusal.message.startswith(f"parameters.{name} must be ")


@pytest.mark.parametrize(
    ("parameters", "sampled"),
    [
        ({}, False),
        ({"seed": 7, "repetition_penalty": 1.2}, False),
        ({"temperature": 0.5}, True),
        ({"top_k": 3}, True),
        ({"top_p": 0.5}, True),
        ({"typical_p": 0.5}, True),
        ({"temperature": 0.5, "do_sample": False}, False),
        ({"do_sample": True}, True),
        ({"do_sample": None, "top_k": 3}, True),
    ],
)
def test_whether_tokens_are_drawn_follows_from_the_other_parameters(
    parameters: dict[str, object], sampled: bool
) -> None:
    assert infer_token(parameters).sampling.do_sample is sampled


def test_a_null_seed_is_a_random_one() -> None:
    assert infer_token({"seed": None}).sampling.seed is UNSET


@pytest.mark.parametrize("token", [0, 1, 2, 1024 * 1024])
def test_every_id_of_a_real_vocabulary_is_taken(token: int) -> None:
    assert infer_token(input_id=[token]).tokens == (token,)


@pytest.mark.parametrize(
    ("ids", "path"),
    [
        ([], "input_id"),
        (None, "input_id"),
        ("1 2", "input_id"),
        (7, "input_id"),
        ([3, 1024 * 1024 + 1], "input_id[1]"),
        ([-1], "input_id[0]"),
        ([1.5], "input_id[0]"),
        ([[1]], "input_id[0]"),
    ],
)
def test_ids_out_of_range_are_named_by_their_place(ids: object, path: str) -> None:
    refusal = refused_with(input_id=ids)

    assert refusal.message.startswith(f"{refusal.param} must be ")
    assert (refusal.param or "").startswith("input_id")
    assert refusal.param in (path, path.replace("[0]", "[]"), path.replace("[1]", "[]"), "input_id")


def test_a_body_without_ids_says_what_is_missing() -> None:
    refusal = refusal_of(b"{}")

    assert refusal.param == "input_id"
    assert refusal.message == "input_id is required"


@pytest.mark.parametrize(
    "body", [b'{"inputs": "hi"}', b'{"inputs": "hi", "input_id": [1]}', b'{"inputs": []}']
)
def test_text_is_sent_to_the_route_that_takes_it(body: bytes) -> None:
    refusal = refusal_of(body)

    assert refusal.param == "inputs"
    assert "/v1/completions" in refusal.message


def test_a_null_for_text_is_not_text() -> None:
    assert infer_token(inputs=None) == infer_token()


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "not valid JSON"),
        (b"[1]", "must be a JSON object"),
        (b'{"input_id": [1}', "not valid JSON"),
        (b'{"input_id": [1], "x": "\xff"}', "not UTF-8"),
        (b'{"input_id": [1], "parameters": 3}', "parameters must be an object"),
        (b'{"input_id": [1], "stream": 1}', "stream must be true or false"),
    ],
)
def test_an_unreadable_request_is_refused_with_the_reason(body: bytes, says: str) -> None:
    assert says in refusal_of(body).message


def test_unknown_fields_are_kept_under_their_paths() -> None:
    request = infer_token({"beams": 2, "seed": 3, "nothing": None}, trace={"id": 1})

    assert request.extra == {"trace": Raw(b'{"id":1}'), "parameters.beams": Raw(b"2")}
    assert request.sampling.seed == 3


@pytest.mark.parametrize("name", sorted(PARAMETERS))
def test_the_error_for_a_parameter_outside_parameters_names_its_place(name: str) -> None:
    refusal = refused_with(**{name: 1})

    assert refusal.param == name
    assert f"parameters.{name}" in refusal.message


@pytest.mark.parametrize("name", ["input_id", "stream"])
def test_the_error_for_a_top_level_field_inside_parameters_names_its_place(name: str) -> None:
    refusal = refused_with({name: True})

    assert refusal.param == f"parameters.{name}"
    assert "next to parameters" in refusal.message


def test_the_error_for_a_model_in_the_body_names_its_place() -> None:
    refusal = refused_with(model="other")

    assert refusal.param == "model"
    assert "/v1/models/MODEL/infer_token" in refusal.message


def test_without_a_default_model_the_other_path_is_named() -> None:
    refusal = refusal_of(EXAMPLE.encode(), model="")

    assert refusal.param == "model"
    assert "/v1/models/MODEL/infer_token" in refusal.message


RIGHT = st.fixed_dictionaries(
    {},
    optional={
        "temperature": st.floats(0, 1e6, exclude_min=True),
        "top_k": st.integers(1, INT32),
        "top_p": st.floats(0, 1, exclude_min=True, exclude_max=True),
        "typical_p": st.floats(0, 1, exclude_min=True),
        "max_new_tokens": st.integers(1, INT32),
        "do_sample": st.booleans(),
        "seed": st.integers(1, 2**64 - 1),
        "repetition_penalty": st.floats(0, 1e6, exclude_min=True),
        "details": st.booleans(),
        "watermark": st.booleans(),
        "priority": st.integers(1, 5),
        "timeout": st.integers(1, 3600),
    },
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(parameters=RIGHT, ids=st.lists(st.integers(0, 1024 * 1024), min_size=1))
def test_nothing_in_range_is_lost(parameters: dict[str, object], ids: list[int]) -> None:
    request = infer_token(parameters, input_id=ids)

    reported = {
        **msgspec.to_builtins(request.sampling),
        "details": request.details,
        "priority": request.priority,
        "timeout": request.timeout_s,
    }
    assert list(request.tokens) == ids
    assert {name: reported[PLACES.get(name, name)] for name in parameters} == parameters
    assert request.extra == {}


def refusal(body: bytes) -> InvalidRequest | None:
    """Why it is refused, `None` for a body that is taken. Anything else that is raised is a bug."""
    try:
        parse_infer_token(body, model="m")
    except InvalidRequest as exc:
        return exc
    return None


@given(
    fields=st.dictionaries(st.sampled_from(["input_id", "stream", "parameters", "inputs"]), JSON),
    parameters=st.dictionaries(st.sampled_from(sorted(PARAMETERS)) | st.text(max_size=3), JSON),
    nested=st.booleans(),
)
def test_anything_else_is_refused_by_a_field_that_was_sent_or_is_missing(
    fields: dict[str, object], parameters: dict[str, object], nested: bool
) -> None:
    body = {**fields, "parameters": parameters} if nested else fields

    refused = refusal(msgspec.json.encode(body))

    if refused is not None:
        param = refused.param or ""
        assert param.partition(".")[0].partition("[")[0] in {*body, "input_id"}
        assert refused.message.startswith(param)


@given(st.binary(max_size=64))
def test_arbitrary_bytes_are_at_most_refused(body: bytes) -> None:
    refused = refusal(body)

    assert refused is None or refused.message
