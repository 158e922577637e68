"""What an embeddings request may contain, and the errors for everything else."""

import math
from pathlib import Path

import pytest
from msgspec import Raw

from strowger_gateway.local_engine.config import ModelConfig
from strowger_gateway.local_engine.server.service import Service
from strowger_gateway.schemas.errors import InvalidRequest, ModelNotFound
from strowger_gateway.schemas.requests import EmbeddingsRequest
from strowger_gateway.schemas.sampling import Sampling
from tests.local_engine.conftest import Folder
from tests.local_engine.embeddings.embedding_services import (
    MODEL,
    embed,
    embedding_config,
    inputs,
    listed,
)
from tests.local_engine.embeddings.tiny_embedders import CASES, PLACES, TEXTS, WORDS, save_embedder
from tests.local_engine.services import ask, chat, config, serving

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    names = ("bert-cls", "bert-prompts", "qwen3-last", "gemma3-residual", "distilbert-max")
    return {name: save_embedder(tmp_path_factory.mktemp(name), CASES[name]) for name in names}


async def refusal(service: Service, request: EmbeddingsRequest) -> tuple[str, str | None]:
    with pytest.raises(InvalidRequest) as caught:
        await embed(service, request)
    return caught.value.message, caught.value.param


async def test_usage_counts_every_token_special_ones_and_instructions_included(
    folders: dict[str, Path],
) -> None:
    async with serving(embedding_config(folders["bert-cls"])) as service:
        plain = await embed(service, inputs("the quick fox", "call"))
        instructed = await embed(service, inputs("the quick fox", instruction="query : "))

    assert plain.tokens == (3 + 2) + (1 + 2)
    assert instructed.tokens == 3 + 2 + 2


async def test_an_instruction_is_put_before_each_text(folders: dict[str, Path]) -> None:
    async with serving(embedding_config(folders["bert-cls"])) as service:
        instructed = await embed(service, inputs(*TEXTS, instruction="query : "))
        written = await embed(service, inputs(*(f"query : {text}" for text in TEXTS)))
        plain = await embed(service, inputs(*TEXTS))

    assert listed(instructed) == listed(written)
    assert listed(instructed) != listed(plain)


async def test_an_instruction_may_be_the_name_of_one_of_the_models_own(
    folders: dict[str, Path],
) -> None:
    async with serving(embedding_config(folders["bert-prompts"])) as service:
        silent = await embed(service, inputs(*TEXTS))
        named = await embed(service, inputs(*TEXTS, instruction="query"))
        spelt = await embed(service, inputs(*TEXTS, instruction="query : "))
        other = await embed(service, inputs(*TEXTS, instruction="passage"))

    assert listed(silent) == listed(named) == listed(spelt)
    assert listed(other) != listed(named)


async def test_tokens_are_refused_unless_the_operator_accepts_the_models_own(
    folders: dict[str, Path],
) -> None:
    """Ids of another tokenizer are mostly in range: LangChain's ids gave meaningless vectors."""
    model = ModelConfig(name=MODEL, path=str(folders["bert-cls"]), task="embed")
    async with serving(embedding_config(folders["bert-cls"], models=(model,))) as service:
        fits = await embed(service, inputs("the quick fox"))
        for request in (inputs((1, 4, 5, 7, 2)), inputs("the", (60704,)), inputs((60704,))):
            reason, param = await refusal(service, request)
            assert param == "input"
            assert "OpenAIEmbeddings(check_embedding_ctx_length=False)" in reason
            assert "token_inputs: accept" in reason

    assert fits.tokens == 5


async def test_tokens_go_in_as_they_are(folders: dict[str, Path]) -> None:
    async with serving(embedding_config(folders["bert-cls"])) as service:
        text = await embed(service, inputs("the quick fox"))
        tokens = await embed(service, inputs((1, 4, 5, 7, 2)))

    assert listed(tokens) == listed(text)
    assert tokens.tokens == text.tokens == 5


@pytest.mark.parametrize("token", [-1, len(WORDS)])
async def test_a_token_that_the_vocabulary_lacks_is_refused_by_its_place(
    token: int, folders: dict[str, Path]
) -> None:
    async with serving(embedding_config(folders["bert-cls"])) as service:
        reason, param = await refusal(service, inputs("fox", (1, 4, token)))

    assert reason.startswith(f"input[1][2]: token {token} must be within 0 and {len(WORDS) - 1}")
    assert "check_embedding_ctx_length=False" in reason
    assert param == "input[1]"


@pytest.mark.parametrize(("changes", "longest"), [({}, PLACES - 2), ({"max_seq_len": 12}, 12)])
async def test_an_input_that_is_too_long_is_refused_by_its_place_and_the_limit(
    changes: dict[str, object], longest: int, folders: dict[str, Path]
) -> None:
    async with serving(embedding_config(folders["bert-cls"], **changes)) as service:
        fits = await embed(service, inputs("dog " * (longest - 2)))
        reason, param = await refusal(service, inputs("fox", "dog " * (longest - 1)))

    assert fits.tokens == longest
    assert f"length is {longest} tokens, and input[1] has {longest + 1}; shorten it" in reason
    assert param == "input[1]"


async def test_an_input_without_tokens_is_refused(folders: dict[str, Path]) -> None:
    async with serving(embedding_config(folders["bert-cls"])) as service:
        assert await refusal(service, inputs(())) == ("input[0] must not be empty", "input[0]")


async def test_an_instruction_for_tokens_is_refused(folders: dict[str, Path]) -> None:
    async with serving(embedding_config(folders["bert-cls"])) as service:
        reason, param = await refusal(service, inputs((1, 2), instruction="query"))

    assert reason.startswith("instruction: requires text inputs")
    assert param == "instruction"


async def test_unsupported_fields_are_rejected_by_name(folders: dict[str, Path]) -> None:
    request = EmbeddingsRequest(model=MODEL, inputs=("fox",), extra={"late_chunking": Raw(b"true")})
    async with serving(embedding_config(folders["bert-cls"])) as service:
        reason, param = await refusal(service, request)

    assert reason.startswith("late_chunking: not supported by the local engine")
    assert param == "late_chunking"


async def test_dimensions_shorten_a_model_that_was_trained_for_it(
    folders: dict[str, Path],
) -> None:
    """gemma3-residual's files say truncate_dim: 6; its vectors have 16 numbers."""
    async with serving(embedding_config(folders["gemma3-residual"])) as service:
        full = listed(await embed(service, inputs(*TEXTS, dimensions=16)))
        short = listed(await embed(service, inputs(*TEXTS, dimensions=4)))
        silent = listed(await embed(service, inputs(*TEXTS)))
        reason, param = await refusal(service, inputs("fox", dimensions=17))

    for whole, beginning in zip(full, short, strict=True):
        length = math.hypot(*whole[:4])
        assert beginning == pytest.approx([number / length for number in whole[:4]], abs=1e-6)
    assert {len(vector) for vector in silent} == {6}
    assert (reason, param) == ("dimensions: 17 must be within 1 and 16", "dimensions")


async def test_dimensions_are_refused_where_neither_files_nor_operator_allow_them(
    folders: dict[str, Path],
) -> None:
    path = str(folders["distilbert-max"])
    allowed = (ModelConfig(name=MODEL, path=path, task="embed", matryoshka=True),)
    async with serving(embedding_config(path)) as service:
        whole = listed(await embed(service, inputs("fox", dimensions=16)))
        reason, param = await refusal(service, inputs("fox", dimensions=8))
    async with serving(embedding_config(path, models=allowed)) as service:
        short = listed(await embed(service, inputs("fox", dimensions=8)))

    assert "was not trained for fewer" in reason
    assert param == "dimensions"
    assert short[0] == whole[0][:8]  # this model's vectors do not have unit length


async def test_one_engine_serves_both_kinds_and_rejects_the_wrong_kind_of_request(
    folders: dict[str, Path], folder: Folder
) -> None:
    models = (
        ModelConfig(name="talks", path=str(folder("llama"))),
        ModelConfig(name=MODEL, path=str(folders["qwen3-last"]), task="embed"),
    )
    greedy = Sampling(temperature=0.0, max_tokens=4)
    async with serving(config(folder("llama"), models=models)) as service:
        answer = await ask(service, chat("hello", greedy), model="talks")
        vectors = await embed(service, inputs("fox"))
        with pytest.raises(InvalidRequest, match="'mini' does not generate text") as text:
            await ask(service, chat("hello", greedy), model=MODEL)
        with pytest.raises(InvalidRequest, match="'talks' does not embed") as embeds:
            await embed(service, inputs("fox"), model="talks")
        with pytest.raises(ModelNotFound, match="it has talks, mini"):
            await embed(service, inputs("fox"), model="other")
        stats = service.stats()

    assert answer.usage is not None
    assert vectors.tokens == 2
    assert text.value.param == embeds.value.param == "model"
    assert set(stats) == set(service.models) == {"talks", MODEL}
    assert stats[MODEL].blocks_total == 0 < stats["talks"].blocks_total
