"""A model whose attention the engine does not compute as transformers does is not served."""

# safetensors annotates its functions in part only:
# pyright: reportUnknownVariableType=false

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from strowger_gateway.local_engine.execution.model_runner import Runner
from strowger_gateway.local_engine.loading.checkpoint import Loaded, load
from strowger_gateway.schemas.errors import InvalidConfig
from tests.local_engine.conftest import Folder
from tests.local_engine.tiny import FAMILIES, save_model


def loaded(folder: Path, dtype: torch.dtype = torch.float32) -> Loaded:
    return load(str(folder), device="cpu", dtype=dtype)


def runner(model: Loaded) -> Runner:
    return Runner(model, device="cpu", kv_bytes=1 << 20, max_tokens=4096)


@pytest.mark.parametrize("family", FAMILIES)
def test_families_agree_with_eager_attention_in_sixteen_bits(family: str, folder: Folder) -> None:
    runner(loaded(folder(family), torch.bfloat16))


def test_windows_and_chunks_are_what_they_were_after_the_trial(tmp_path: Path) -> None:
    """The trial narrows them, so that forty tokens reach beyond every window."""
    model = loaded(save_model(tmp_path, "gemma3_text", sliding_window=100))
    layers = [one for one in model.module.modules() if hasattr(one, "sliding_window")]
    before = [one.sliding_window for one in layers]

    runner(model)

    assert model.module.config.sliding_window == 100
    assert 100 in before
    assert [one.sliding_window for one in layers] == before


@pytest.mark.parametrize("window", [5, 100, 255])
def test_a_window_that_only_the_masks_have_is_noticed(window: int, tmp_path: Path) -> None:
    model = loaded(save_model(tmp_path, "gemma3_text", sliding_window=window))
    for one in model.module.modules():
        if hasattr(one, "sliding_window"):
            setattr(one, "sliding_window", None)  # noqa: B010  pyright knows no such field

    with pytest.raises(InvalidConfig, match="eager attention"):
        runner(model)


def test_a_window_that_only_the_masks_have_is_none_if_it_is_as_long_as_the_context(
    tmp_path: Path,
) -> None:
    """Phi-3.5-MoE's: its layers do not know of it."""
    runner(loaded(save_model(tmp_path / "long", "phimoe", sliding_window=256)))

    with pytest.raises(InvalidConfig, match="eager attention"):
        runner(loaded(save_model(tmp_path / "short", "phimoe", sliding_window=128)))


def test_a_model_that_attends_twice_per_layer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="layer 0 attends 2 times per token"):
        runner(loaded(save_model(tmp_path, "diffllama")))


def test_layers_of_an_unknown_kind_are_refused_by_name(folder: Folder) -> None:
    model = loaded(folder("mistral"))
    model.config.layer_types = ["full_attention", "indexed_attention"]

    with pytest.raises(
        InvalidConfig, match="layers are of the kind indexed_attention; this engine computes"
    ):
        runner(model)


def test_weights_that_are_not_numbers_are_refused(folder: Folder, tmp_path: Path) -> None:
    for file in folder("llama").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = load_file(tmp_path / "model.safetensors")
    weights["model.layers.0.mlp.down_proj.weight"][0, 0] = float("nan")
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})

    with pytest.raises(InvalidConfig, match="not finite in float32: its weights are broken"):
        runner(loaded(tmp_path))
