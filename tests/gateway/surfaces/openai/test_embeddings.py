"""Embeddings requests, and their answers as numbers and as base64."""

import base64
import struct

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw
from openai.types import CreateEmbeddingResponse

from strowger_gateway.gateway.surfaces.openai.bodies import OpenAIEmbeddingsRenderer
from strowger_gateway.gateway.surfaces.openai.parse import parse_embeddings
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.errors import InvalidRequest, UpstreamBroken
from strowger_gateway.schemas.events import Usage
from tests.gateway.surfaces.bodies import embeddings, refused

FLOAT32 = st.floats(width=32, allow_nan=False, allow_infinity=False)


def packed(*values: float) -> str:
    return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()


def rendered(
    *vectors: list[float] | str,
    form: str | None = None,
    usage: Usage | None = None,
    model: str = "",
) -> bytes:
    renderer = OpenAIEmbeddingsRenderer(embeddings(encoding_format=form), id="embd-1")
    return renderer.embeddings(
        Embeddings(vectors=vectors, usage=usage or Usage(prompt_tokens=3), model=model)
    )


@pytest.mark.parametrize(
    ("sent", "inputs", "batch"),
    [
        ("once", ("once",), False),
        (["once", "twice"], ("once", "twice"), True),
        ([1, 2], ((1, 2),), False),
        ([[1, 2], [3]], ((1, 2), (3,)), True),
    ],
)
def test_an_input_has_one_of_four_forms(
    sent: object, inputs: tuple[object, ...], batch: bool
) -> None:
    request = embeddings(input=sent)

    assert request.inputs == inputs
    assert request.batch is batch
    assert not request.base64
    assert request.dimensions is UNSET


@pytest.mark.parametrize(
    ("sent", "param"),
    [
        ("", "input"),
        ((), "input"),
        (["a", ""], "input[1]"),
        ([[1], ()], "input[1]"),
        (["a", 1], "input"),
        ([1, -2], "input[1]"),
        (None, "input"),
        (["x"] * 2049, "input"),
    ],
)
def test_an_input_of_any_other_form_is_refused(sent: object, param: str) -> None:
    assert refused(embeddings, input=sent).param == param


def test_as_many_inputs_as_the_dialect_allows_are_taken() -> None:
    assert len(embeddings(input=["x"] * 2048).inputs) == 2048


def test_everything_else_arrives() -> None:
    request = embeddings(
        encoding_format="base64",
        dimensions=256,
        instruction="Represent this:",
        user="u",
        timeout=9,
        truncate="END",
    )

    assert request.base64
    assert (request.dimensions, request.instruction) == (256, "Represent this:")
    assert (request.user, request.timeout_s) == ("u", 9)
    assert set(request.extra) == {"truncate"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("encoding_format", "hex"),
        ("dimensions", 0),
        ("dimensions", 1.5),
        ("instruction", 5),
        ("user", 5),
        ("timeout", 0),
        ("model", "m "),
    ],
)
def test_a_field_that_cannot_be_right_is_refused(field: str, value: object) -> None:
    assert refused(embeddings, **{field: value}).param == field


def test_a_model_in_the_path_suffices() -> None:
    assert parse_embeddings(b'{"input":"x"}', model="m").model == "m"
    with pytest.raises(InvalidRequest, match="model is required"):
        parse_embeddings(b'{"input":"x"}')


def test_vectors_come_in_the_order_of_the_inputs_with_their_usage() -> None:
    body = rendered([0.5, -1.0], [0.25, 2.0], model="all-minilm")

    assert msgspec.json.decode(body) == {
        "object": "list",
        "data": [
            {"object": "embedding", "index": 0, "embedding": [0.5, -1.0]},
            {"object": "embedding", "index": 1, "embedding": [0.25, 2.0]},
        ],
        "model": "all-minilm",
        "usage": {"prompt_tokens": 3, "total_tokens": 3},
        "id": "embd-1",
    }


def test_the_official_client_reads_the_answer() -> None:
    answer = CreateEmbeddingResponse.model_validate_json(rendered([0.5]), strict=True)

    assert answer.data[0].embedding == [0.5]
    assert answer.model == "m"


def test_numbers_become_base64_on_request() -> None:
    body = rendered([0.5, -1.0, 3.1415926], form="base64")

    assert packed(0.5, -1.0, 3.1415926).encode() in body


def test_base64_becomes_numbers_on_request() -> None:
    body = rendered(packed(0.5, -1.0))

    assert CreateEmbeddingResponse.model_validate_json(body).data[0].embedding == [0.5, -1.0]


def test_vectors_in_the_requested_format_are_unchanged() -> None:
    assert packed(0.1).encode() in rendered(packed(0.1), form="base64")
    assert b"[0.1,0.2]" in rendered([0.1, 0.2])


@given(st.lists(FLOAT32, min_size=1, max_size=8))
def test_a_vector_survives_both_conversions(vector: list[float]) -> None:
    there = CreateEmbeddingResponse.model_validate_json(rendered(packed(*vector)))
    back = rendered(there.data[0].embedding, form="base64")

    assert there.data[0].embedding == vector
    assert packed(*vector).encode() in back


@pytest.mark.parametrize("vector", ["not base64!", "AAA=", "AAAAAAA="])
def test_base64_that_holds_no_numbers_is_the_backends_fault(vector: str) -> None:
    with pytest.raises(UpstreamBroken, match="float32"):
        rendered(vector)


def test_an_answer_without_counts_has_no_usage() -> None:
    assert b"usage" not in rendered([1.0], usage=Usage())


def test_one_count_of_an_embedding_serves_as_both() -> None:
    both = b'"usage":{"prompt_tokens":3,"total_tokens":3'

    assert both in rendered([1.0], usage=Usage(total_tokens=3))
    assert both in rendered([1.0], usage=Usage(prompt_tokens=3))


def test_what_only_a_vendor_counts_of_an_embedding_reaches_the_client() -> None:
    usage = Usage(prompt_tokens=3, total_tokens=3, raw=Raw(b'{"total_tokens":9,"images":1}'))

    assert b'"usage":{"prompt_tokens":3,"total_tokens":3,"images":1}' in rendered([1], usage=usage)
