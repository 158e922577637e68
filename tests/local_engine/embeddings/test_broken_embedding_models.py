"""Broken embedding models are refused in one sentence, and whole ones are not."""

import re
from pathlib import Path

import pytest
import torch

from strowger_gateway.local_engine.server.embedding_host import host_embedders
from tests.local_engine.embeddings.embedding_services import (
    MODEL,
    embedding_config,
    request,
    run,
    seated,
)
from tests.local_engine.embeddings.tiny_embedders import CASES, save_embedder
from tests.local_engine.loading.broken_checkpoints import (
    Spoil,
    added,
    bare,
    codes,
    config,
    config_and_table,
    copied,
    file,
    no_tokenizer,
    removed,
    shard,
    sharded,
    weights,
    without,
    without_all,
)
from tests.local_engine.loading.refusals import ELSEWHERE, QUANTIZED, refusal

EMBEDDERS: dict[str, tuple[Spoil, str]] = {
    "a weight is missing": (
        without("encoder.layer.0.output.dense.weight"),
        "it lacks weights of BertModel: encoder.layer.0.output.dense.weight; they would be random",
    ),
    "a layer is missing": (without_all("layer.1."), "lacks all weights of layers 1, of 2"),
    "another size": (config(vocab_size=30), r"other weights: embeddings.word_embeddings.weight "),
    "scales of quantization": (
        added({"encoder.layer.0.output.dense.weight_scale": torch.ones(16)}),
        "has weights that BertModel does not use: encoder.layer.0.output.dense.weight_scale",
    ),
    "int8": (codes(torch.int8, part="dense.weight"), QUANTIZED.format("I8 weights: ")),
    "a declared method": (
        config(quantization_config={"quant_method": "awq"}),
        QUANTIZED.format("awq"),
    ),
    "a shard is missing": (sharded(removed(shard(1))), "1 of 2 weight files are missing"),
    "no tokenizer": (no_tokenizer, "it has no tokenizer"),
    "a tokenizer of another model": (config_and_table(vocab_size=20), "belongs to another model"),
    "a generating model": (
        bare(architectures=["BertLMHeadModel"]),
        "it is a BertLMHeadModel, a generating model, and no file says that it embeds; set task: "
        "generate, or add the modules.json of sentence-transformers",
    ),
    "a reranker": (
        bare(architectures=["BertForSequenceClassification"]),
        f"it is a BertForSequenceClassification, a classifier or reranker; .*{ELSEWHERE}",
    ),
    "a reranker of sentence-transformers": (
        file("config_sentence_transformers.json", {"model_type": "CrossEncoder"}),
        f"a classifier or reranker; .*{ELSEWHERE}",
    ),
    "a step without its files": (
        lambda folder: (folder / "1_Pooling" / "config.json").unlink(),
        "modules.json names 1_Pooling, which lacks its files; download it again",
    ),
    "a sparse encoder": (
        file("config_sentence_transformers.json", {"model_type": "SparseEncoder"}),
        f"it is a SparseEncoder, which makes no dense vectors; {ELSEWHERE}",
    ),
}


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_embedder(tmp_path_factory.mktemp("embedder"), CASES["bert-cls"])


@pytest.mark.parametrize("case", EMBEDDERS)
def test_a_broken_embedding_model_is_refused_in_one_sentence(
    case: str, embedder: Path, tmp_path: Path
) -> None:
    spoil, message = EMBEDDERS[case]
    spoil(broken := copied(embedder, tmp_path / "model"))

    assert re.search(message, refusal(broken, "embed"))


def test_heads_of_other_tasks_do_not_hinder_an_embedding_model(
    embedder: Path, tmp_path: Path
) -> None:
    path = copied(embedder, tmp_path / "model")
    added({"cls.predictions.bias": torch.ones(4), "lm_head.weight": torch.ones(4, 4)})(path)
    config(architectures=["BertForMaskedLM"])(path)

    assert seated(path).shape.width == 16


def test_a_generating_model_embeds_where_its_files_say_so(tmp_path: Path) -> None:
    path = save_embedder(tmp_path, CASES["qwen3-last"])
    config(architectures=["Qwen3ForCausalLM"])(path)

    assert seated(path).shape.width == 16


@pytest.mark.parametrize(
    ("case", "assumed"),
    [("bert-cls", "the mean of all tokens"), ("qwen3-last", "the last token's")],
)
def test_a_pooling_that_no_file_names_is_said_at_start(
    case: str, assumed: str, tmp_path: Path
) -> None:
    path = save_embedder(tmp_path, CASES[case])
    said: list[str] = []
    host_embedders(embedding_config(path), said.append)
    assert not any("no modules.json" in line for line in said)
    (path / "modules.json").unlink()
    (path / "config_sentence_transformers.json").unlink()

    host_embedders(embedding_config(path), said.append)

    assert f"{MODEL}: no modules.json says how tokens become a vector, so this is {assumed}, " in (
        "\n".join(said)
    )


def test_an_encoder_takes_its_own_table_where_none_is_shared(tmp_path: Path) -> None:
    whole = save_embedder(tmp_path / "whole", CASES["t5-dense"])
    other = copied(whole, tmp_path / "other")
    weights(
        lambda found: found.update(
            {
                "encoder.embed_tokens.weight": (table := found.pop("shared.weight")),
                "decoder.embed_tokens.weight": table + 1,
                "lm_head.weight": table + 2,
            }
        )
    )(other)
    config(tie_word_embeddings=True)(other)

    one, two = (run(seated(path), request(4, 9))[0].vectors for path in (whole, other))

    assert one is not None
    assert two is not None
    assert torch.equal(one, two)
