"""Inputs that are too many for one request go in several and come back as one answer."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.upstream.batches import batches, joined
from schemas.answers import Embeddings
from schemas.events import Usage
from schemas.requests import EmbeddingsRequest


def embedded(request: EmbeddingsRequest) -> Embeddings:
    """Each text is a number, and its vector has that number."""
    return Embeddings(
        vectors=tuple([float(str(one))] for one in request.inputs),
        model="m",
        usage=Usage(prompt_tokens=len(request.inputs), total_tokens=len(request.inputs)),
    )


@given(st.integers(1, 50), st.integers(1, 12))
def test_every_input_has_its_vector_in_its_place(count: int, most: int) -> None:
    request = EmbeddingsRequest(
        model="m", inputs=tuple(str(one) for one in range(count)), dimensions=3, batch=True
    )

    parts = batches(request, most)
    answer = joined([embedded(one) for one in parts])

    assert all(1 <= len(one.inputs) <= most for one in parts)
    assert all(one.dimensions == 3 for one in parts)
    assert answer.vectors == tuple([float(one)] for one in range(count))
    assert answer.usage == Usage(prompt_tokens=count, total_tokens=count)


def test_a_request_that_fits_goes_as_it_is_and_so_does_its_answer() -> None:
    request = EmbeddingsRequest(model="m", inputs=("1", "2"))
    answer = embedded(request)

    assert batches(request, 2) == [request]
    assert joined([answer]) is answer


def test_a_count_that_one_part_does_not_tell_is_not_known() -> None:
    silent = Embeddings(vectors=([1.0],))

    assert joined([embedded(EmbeddingsRequest(model="m", inputs=("1",))), silent]).usage == Usage()
