"""Logits and vectors that are not numbers end in an error, never in an answer.

The checkpoints are whole, and one word's embedding is not a number: what a damaged file or an
overflow in 16 bits gives for some texts only.
"""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec
import pytest
from msgspec import Raw
from torch import Tensor

from strowger_gateway.local_engine.server.service import Service
from strowger_gateway.schemas.errors import UpstreamFailed
from strowger_gateway.schemas.events import CONTENT
from strowger_gateway.schemas.messages import ResponseFormat
from strowger_gateway.schemas.requests import GenerateRequest
from strowger_gateway.schemas.sampling import Sampling
from tests.local_engine.conftest import Folder
from tests.local_engine.embeddings import embedding_services
from tests.local_engine.embeddings.tiny_embedders import CASES, WORDS, save_embedder
from tests.local_engine.execution.lane_runs import hosted
from tests.local_engine.loading.broken_checkpoints import DOWN, copied, weights
from tests.local_engine.loading.refusals import refusal
from tests.local_engine.services import DEVICE, ask, chat, completion, config, events, serving

pytestmark = pytest.mark.anyio

POISON = "The quick brown fox"
MESSAGE = "not numbers: values overflow, or weights are broken; where engine.dtype is float16, set"


def spoil(folder: Path, place: int, name: str) -> Path:
    def change(found: dict[str, Tensor]) -> None:
        found[name][place] = float("nan")

    weights(change)(folder)
    return folder


@pytest.fixture(scope="module")
def broken(folder: Folder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model for which the last token of POISON is not a number."""
    whole = folder("llama")
    token = hosted(whole).tokenizer.encode(POISON)[-1]
    copy = copied(whole, tmp_path_factory.mktemp("broken") / "model")
    return spoil(copy, token, "model.embed_tokens.weight")


@pytest.fixture(scope="module")
async def service(broken: Path) -> AsyncGenerator[Service, None]:
    async with serving(config(broken, draft_tokens=2)) as running:
        yield running


def matching(pattern: str) -> GenerateRequest:
    raw = Raw(msgspec.json.encode({"type": "regex", "pattern": pattern}))
    request = chat(POISON, Sampling(max_tokens=4))
    return msgspec.structs.replace(request, response_format=ResponseFormat(type="opaque", raw=raw))


SAMPLINGS = {
    "the likeliest token": Sampling(max_tokens=4, temperature=0.0),
    "a drawn token": Sampling(max_tokens=4, seed=1),
    "a token of the best": Sampling(max_tokens=4, seed=1, top_k=5, top_p=0.9),
    "a token by min-p": Sampling(max_tokens=4, seed=1, min_p=0.1),
    "log probabilities": Sampling(max_tokens=4, temperature=0.0, logprobs=True, top_logprobs=2),
    "penalties": Sampling(max_tokens=4, temperature=0.0, frequency_penalty=1.0),
    "several answers": Sampling(max_tokens=4, n=3),
    "beams": Sampling(max_tokens=4, beam_width=3),
}
ASKED: dict[str, GenerateRequest] = {
    **{kind: completion(POISON, sampling) for kind, sampling in SAMPLINGS.items()},
    "a conversation": chat(POISON, Sampling(max_tokens=4)),
    "a grammar": matching("[a-z]{4}"),
}


@pytest.mark.parametrize("kind", ASKED)
async def test_an_answer_whose_logits_are_not_numbers_is_an_error(
    kind: str, service: Service
) -> None:
    with pytest.raises(UpstreamFailed, match=MESSAGE):
        await ask(service, ASKED[kind])
    with pytest.raises(UpstreamFailed, match=MESSAGE):
        assert not any(isinstance(one, CONTENT) for one in await events(service, ASKED[kind]))


async def test_other_answers_of_the_same_steps_are_the_same_as_alone(service: Service) -> None:
    clean = [
        completion(f"number {place} to call", Sampling(temperature=0.0, max_tokens=20))
        for place in range(6)
    ]
    alone = [await ask(service, request) for request in clean]
    mixed = [one for pair in zip(clean, ASKED.values(), strict=False) for one in pair]

    together = await asyncio.gather(
        *(ask(service, request) for request in mixed), return_exceptions=True
    )

    assert all(isinstance(one, UpstreamFailed) for one in together[1::2])
    for before, after in zip(alone, together[::2], strict=True):
        assert not isinstance(after, BaseException)
        assert after.choices[0].text == before.choices[0].text


async def test_a_vector_that_is_not_a_number_fails_its_request_only(tmp_path: Path) -> None:
    table = "embeddings.word_embeddings.weight"
    folder = spoil(save_embedder(tmp_path, CASES["bert-cls"]), WORDS.index("nothing"), table)

    async with serving(embedding_services.embedding_config(folder)) as service:

        async def vectors(*texts: str) -> object:
            return await service.embed(
                embedding_services.inputs(*texts), model=embedding_services.MODEL
            )

        found, failed = await asyncio.gather(
            vectors("the fox", "a dog"), vectors("a dog", "about nothing"), return_exceptions=True
        )

    assert not isinstance(found, BaseException)
    assert isinstance(failed, UpstreamFailed)
    assert "its vectors are not numbers" in str(failed)


@pytest.mark.skipif(DEVICE == "npu", reason="the stand-in computes in float32")
def test_a_model_that_overflows_in_float16_is_refused_with_the_dtypes_that_hold_it(
    folder: Folder, tmp_path: Path
) -> None:
    wide = copied(folder("llama"), tmp_path / "model")
    weights(lambda found: found[DOWN].mul_(3e4))(wide)

    assert "not finite in float16; set engine.dtype: bfloat16 or float32" in refusal(
        wide, dtype="float16"
    )
    assert hosted(wide).context == 256


def test_an_embedding_model_of_broken_weights_is_refused(tmp_path: Path) -> None:
    folder = spoil(save_embedder(tmp_path, CASES["bert-cls"]), 0, "embeddings.LayerNorm.weight")

    assert "its vectors are not numbers" in refusal(folder, "embed")
