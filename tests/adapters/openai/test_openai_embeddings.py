"""Vectors are returned in input order, as numbers or as base64."""

import msgspec
import pytest

from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.errors import UpstreamBroken, UpstreamBusy
from strowger_gateway.schemas.requests import EmbeddingsRequest
from tests.adapters.openai.openai_doubles import openai
from tests.adapters.traffic import fixture

TWO = EmbeddingsRequest(model="m", inputs=("a", "b"), batch=True)


def embeddings(*data: object, request: EmbeddingsRequest = TWO) -> Embeddings:
    return openai().embeddings(request, msgspec.json.encode({"data": data}))


def test_vectors_are_put_in_input_order() -> None:
    found = openai().embeddings(TWO, fixture("openai/embeddings").body)

    assert found.vectors == ([0.25, 2.0], [0.5, -1.0])
    assert found.model == "embed-x"
    assert (found.usage.prompt_tokens, found.usage.completion_tokens) == (4, None)


def test_base64_is_left_as_it_came() -> None:
    one = EmbeddingsRequest(model="m", inputs=("a",), base64=True)

    assert openai().embeddings(one, fixture("openai/embeddings-base64").body).vectors == (
        "AACAPgAAAEA=",
    )


def test_vectors_without_an_index_are_in_order_already() -> None:
    assert embeddings({"embedding": [1]}, {"embedding": [2]}).vectors == ([1.0], [2.0])


@pytest.mark.parametrize(
    "data",
    [
        [{"index": 0, "embedding": [1]}],
        [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [2]}],
        [{"index": 1, "embedding": [1]}, {"index": 2, "embedding": [2]}],
        [{"index": place, "embedding": [1]} for place in range(3)],
    ],
)
def test_a_vector_too_few_or_too_many_is_an_error(data: list[object]) -> None:
    with pytest.raises(UpstreamBroken, match=r"acme: \d vectors for 2 inputs"):
        embeddings(*data)


def test_an_error_in_a_200_is_an_error() -> None:
    with pytest.raises(UpstreamBusy, match="acme: slow down"):
        openai().embeddings(TWO, b'{"error":{"message":"slow down","code":429}}')


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[[0.1]]", b'{"data":5}', b'{"object":"chat.completion","choices":[]}']
)
def test_an_answer_that_makes_no_sense_is_an_error(body: bytes) -> None:
    with pytest.raises(UpstreamBroken, match="acme: cannot read the answer"):
        openai().embeddings(TWO, body)
