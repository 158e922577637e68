"""`/v1/embeddings` from the local engine, through the whole gateway, with OpenAI's own client."""

from collections.abc import AsyncGenerator

import openai
import pytest

from tests.gateway.serving import Serving

pytest.importorskip("torch")

from tests.local_engine.embeddings.tiny_embedders import TEXTS, WORDS
from tests.local_engine.goldens.embeddings import read

pytestmark = pytest.mark.anyio

CASE = "bert-cls"
CONFIG = """
providers:
  - {here}
models:
  - {{name: embed, backends: [{{provider: here, model: mini}}]}}
  - {{name: chat, backends: [{{provider: here, model: tiny}}]}}
"""


@pytest.fixture
async def client(gateway: Serving) -> AsyncGenerator[openai.AsyncOpenAI, None]:
    async with openai.AsyncOpenAI(
        base_url=f"{gateway.url}/v1", api_key="none", max_retries=0
    ) as client:
        yield client


@pytest.mark.parametrize("form", ["float", "base64", None])
async def test_vectors_arrive_as_numbers_and_as_base64(
    form: str | None, client: openai.AsyncOpenAI
) -> None:
    """Without a form the client asks for base64 and decodes it itself."""
    kind = openai.omit if form is None else form
    answer = await client.embeddings.create(model="embed", input=list(TEXTS), encoding_format=kind)  # pyright: ignore[reportArgumentType]  # one of its literals

    assert [one.index for one in answer.data] == list(range(len(TEXTS)))
    if form != "base64":
        for one, wanted in zip(answer.data, read().tiny[CASE], strict=True):
            assert one.embedding == pytest.approx(wanted, abs=1e-5)
    else:
        assert all(isinstance(one.embedding, str) for one in answer.data)
    tokens = sum(len(text.split()) + 2 for text in TEXTS)
    assert answer.usage.prompt_tokens == answer.usage.total_tokens == tokens


async def test_more_vectors_than_one_frame_carries_arrive_whole_and_in_order(
    client: openai.AsyncOpenAI,
) -> None:
    """2,048 vectors of 16 numbers are two frames; the words distinguish them."""
    words = [WORDS[4 + place % 24] for place in range(2048)]

    answer = await client.embeddings.create(model="embed", input=words)
    alone = await client.embeddings.create(model="embed", input=words[:24])

    for place, one in enumerate(answer.data):
        assert one.embedding == pytest.approx(alone.data[place % 24].embedding, abs=2e-6)


async def test_each_model_shows_its_task(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="'mini' does not generate text") as chats:
        await client.chat.completions.create(
            model="embed", messages=[{"role": "user", "content": "hello"}]
        )
    with pytest.raises(openai.BadRequestError, match="'tiny' does not embed") as embeds:
        await client.embeddings.create(model="chat", input="hello")

    assert chats.value.param == embeds.value.param == "model"


async def test_the_error_for_an_input_names_its_place(
    client: openai.AsyncOpenAI,
) -> None:
    with pytest.raises(openai.BadRequestError, match=r"input\[1\] has 62; shorten") as long:
        await client.embeddings.create(model="embed", input=["fox", "dog " * 60])
    with pytest.raises(openai.BadRequestError, match="check_embedding_ctx_length") as token:
        await client.embeddings.create(model="embed", input=[[1, 4, 2]])
    with pytest.raises(openai.BadRequestError, match="dimensions"):
        await client.embeddings.create(model="embed", input="fox", dimensions=4)

    assert long.value.code == "context_length_exceeded"
    assert long.value.param == token.value.param == "input"
