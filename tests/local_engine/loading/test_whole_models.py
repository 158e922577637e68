"""The language model loads out of a model that also reads images, as Llama 4 is published."""

# transformers and safetensors annotate these members in part only:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers.models.llama4.configuration_llama4 import Llama4Config
from transformers.models.llama4.modeling_llama4 import Llama4ForConditionalGeneration

from strowger_gateway.local_engine.execution.model_runner import Runner
from strowger_gateway.local_engine.loading.checkpoint import load
from strowger_gateway.schemas.errors import InvalidConfig
from tests.local_engine.families.random_models import small_config

FILE = "model.safetensors"


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    torch.manual_seed(7)
    config = small_config("llama4")
    assert isinstance(config, Llama4Config)
    Llama4ForConditionalGeneration(config).save_pretrained(tmp_path)
    assert any(name.startswith("vision_model.") for name in load_file(tmp_path / FILE))
    return tmp_path


def test_what_reads_images_stays_in_the_file(whole: Path) -> None:
    loaded = load(str(whole), device="cpu", dtype=torch.float32)

    Runner(loaded, device="cpu", kv_bytes=1 << 20, max_tokens=4096)

    assert loaded.layers == 4
    assert not any("vision" in name for name, _ in loaded.module.named_parameters())


def test_unknown_weights_of_the_language_model_are_refused_all_the_same(whole: Path) -> None:
    weights = load_file(whole / FILE)
    weights["language_model.model.layers.1.self_attn.gate.weight"] = torch.ones(2, 2)
    save_file(weights, whole / FILE, metadata={"format": "pt"})

    with pytest.raises(InvalidConfig, match=r"self_attn\.gate\.weight"):
        load(str(whole), device="cpu", dtype=torch.float32)


def test_layers_that_attend_to_images_are_refused_by_that_name(tmp_path: Path) -> None:
    small_config("mllama").save_pretrained(tmp_path)

    with pytest.raises(InvalidConfig, match="attend to an image, which this engine does not read"):
        load(str(tmp_path), device="cpu", dtype=torch.float32)
