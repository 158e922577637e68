"""Supported embedding models: the defaults without files, and models that it refuses to load."""

# safetensors annotates these in part only:
# pyright: reportUnknownVariableType=false

import math
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import torch
from safetensors.torch import load_file, save_file

from strowger_gateway.local_engine.embeddings.input_queue import Inputs
from strowger_gateway.schemas.errors import InvalidConfig
from tests.local_engine.embeddings.embedding_services import run, seated
from tests.local_engine.embeddings.tiny_embedders import CASES, PLACES, Case, save_embedder, write

ROW = (1, 7, 5, 9, 2)


def vector(folder: Path, *, row: tuple[int, ...] = ROW, **changes: object) -> list[float]:
    with torch.inference_mode():
        found = run(seated(folder, **changes), Inputs(lane="", id=1, rows=(row,)))[0].vectors
    assert found is not None
    return [float(number) for number in found[0]]


@pytest.mark.parametrize(("family", "mode"), [("bert", "mean"), ("qwen3", "lasttoken")])
def test_without_files_an_encoder_pools_the_mean_and_a_decoder_the_last_token(
    family: str, mode: str, tmp_path: Path
) -> None:
    bare = save_embedder(tmp_path / "bare", Case(family=family, modes=("cls",)))
    configured = save_embedder(tmp_path / "configured", Case(family=family, modes=(mode,)))
    (bare / "modules.json").unlink()

    assert vector(bare) == pytest.approx(vector(configured), abs=1e-6)
    assert math.hypot(*vector(bare)) == pytest.approx(1, abs=1e-6)


def test_a_decoder_with_is_causal_false_attends_both_ways(tmp_path: Path) -> None:
    """Then the first token's vector depends on the last token."""
    case = Case(family="llama", modes=("cls",))
    back = save_embedder(tmp_path / "back", case)
    both = save_embedder(
        tmp_path / "both", msgspec.structs.replace(case, more={"is_causal": False})
    )
    other = (*ROW[:-1], 11)

    assert vector(back) == pytest.approx(vector(back, row=other), abs=1e-6)
    assert vector(both) != pytest.approx(vector(both, row=other), abs=1e-3)


@pytest.mark.parametrize("name", ["roberta-mean", "mpnet-mean", "bert-cls"])
def test_positions_that_belong_to_padding_are_not_counted(name: str, tmp_path: Path) -> None:
    """RoBERTa's and MPNet's tables begin with two reserved positions."""
    case = msgspec.structs.replace(CASES[name], longest=1000)
    folder = save_embedder(tmp_path, case)

    longest = seated(folder).shape.longest

    assert longest == (PLACES if name == "bert-cls" else PLACES - 2)
    assert all(math.isfinite(number) for number in vector(folder, row=(5,) * longest))


def test_bfloat16_is_close_to_float32(tmp_path: Path) -> None:
    folder = save_embedder(tmp_path, CASES["bert-cls"])

    short, whole = vector(folder, dtype="bfloat16"), vector(folder)

    assert sum(a * b for a, b in zip(short, whole, strict=True)) > 0.99
    assert short != whole


def without_a_weight(folder: Path) -> None:
    path = folder / "model.safetensors"
    weights = load_file(path)
    del weights["encoder.layer.0.output.dense.weight"]
    save_file(weights, path, metadata={"format": "pt"})


def other_module(folder: Path) -> None:
    write(
        folder / "modules.json",
        [
            {"path": "", "type": "sentence_transformers.models.Transformer"},
            {"path": "1_Pooling", "type": "sentence_transformers.models.WeightedLayerPooling"},
        ],
    )


def other_pooling(folder: Path) -> None:
    write(folder / "1_Pooling" / "config.json", {"pooling_mode": "attention"})


def other_activation(folder: Path) -> None:
    path = folder / "2_Dense" / "config.json"
    found = msgspec.json.decode(path.read_bytes(), type=dict[str, object])
    write(path, {**found, "activation_function": "mine.Swirl"})


def other_width(folder: Path) -> None:
    path = folder / "2_Dense" / "config.json"
    found = msgspec.json.decode(path.read_bytes(), type=dict[str, object])
    write(path, {**found, "in_features": 99})


def nonsense(folder: Path) -> None:
    (folder / "modules.json").write_text("[{]")


BREAKAGES = [
    (
        without_a_weight,
        r"lacks weights of BertModel: encoder\.layer\.0\.output\.dense\.weight; they would",
    ),
    (other_module, "WeightedLayerPooling"),
    (other_pooling, "pooling mode 'attention' is not supported"),
    (other_activation, "with Swirl on sentence_embedding"),
    (other_width, "expects 99 numbers, but gets 16"),
    (nonsense, "modules.json cannot be read"),
]


@pytest.mark.parametrize(("spoil", "message"), BREAKAGES, ids=[b[0].__name__ for b in BREAKAGES])
def test_a_model_that_would_compute_wrong_vectors_is_rejected_at_startup(
    spoil: Callable[[Path], None], message: str, tmp_path: Path
) -> None:
    folder = save_embedder(tmp_path, CASES["bert-mean-dense"])
    spoil(folder)

    with pytest.raises(InvalidConfig, match=message):
        seated(folder)
