"""Adapters saved by peft: what a folder's configuration means, and what is rejected at load."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file  # pyright: ignore[reportUnknownVariableType]  # a generic path inside

from strowger_gateway.local_engine.config import LoraConfig, ModelConfig
from strowger_gateway.local_engine.peft.lora_layers import AdapterSites
from strowger_gateway.local_engine.peft.peft_format import load_adapter
from strowger_gateway.local_engine.server.model_host import host
from strowger_gateway.schemas.errors import InvalidConfig
from tests.local_engine.peft.random_adapters import (
    Pairs,
    random_pairs,
    save_adapter,
    weights_of,
)
from tests.local_engine.services import MODEL, config

Q0, K0 = "model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.k_proj"
PREFIX = "base_model.model."


@pytest.fixture(scope="module")
def pairs(base: Path) -> Pairs:
    return random_pairs(base, 5, rank=4, leaves=("q_proj", "k_proj"))


SCALES: list[tuple[dict[str, object], float]] = [
    ({"lora_alpha": 6}, 1.5),
    ({"lora_alpha": 6, "use_rslora": True}, 3.0),
    ({"lora_alpha": 6, "alpha_pattern": {"q_proj": 2}}, 0.5),
    ({"lora_alpha": 6, "alpha_pattern": {"layers.1.self_attn.q_proj": 2}}, 1.5),
    ({"lora_alpha": 6, "alpha_pattern": {r".*\.0\..*": 2, "q_proj": 4}}, 0.5),
    ({"lora_alpha": 6, "alpha_pattern": {"^q_proj": 2, "^model.*": 4}}, 1.0),
    ({"lora_alpha": 6, "alpha_pattern": {"proj": 2}}, 1.5),
    ({"r": 8, "lora_alpha": 6, "rank_pattern": {"q_proj": 4, "k_proj": 4}}, 1.5),
]


@pytest.mark.parametrize(("fields", "scale"), SCALES)
def test_the_scale_is_alpha_over_rank_as_the_patterns_have_it(
    fields: dict[str, object], scale: float, sites: AdapterSites, pairs: Pairs, tmp_path: Path
) -> None:
    down, up = pairs[Q0]
    folder = save_adapter(tmp_path / "a", pairs, **fields)

    adapter = load_adapter("a", str(folder), sites)

    (site,) = [site for site in sites.sites if site.name == Q0]
    torch.testing.assert_close(weights_of(sites, adapter, site), scale * up @ down)


def test_layers_are_found_by_their_end_where_the_model_around_them_is_another(
    sites: AdapterSites, pairs: Pairs, tmp_path: Path
) -> None:
    other = {name.replace("model.", "model.language_model."): pair for name, pair in pairs.items()}
    plain = load_adapter("a", str(save_adapter(tmp_path / "a", pairs)), sites)

    wrapped = load_adapter("b", str(save_adapter(tmp_path / "b", other)), sites)

    assert wrapped.digest == plain.digest


CONFIGURATIONS: list[tuple[dict[str, object], str]] = [
    ({"peft_type": "LOHA"}, "peft_type LOHA is not supported, only LORA"),
    ({"use_dora": True}, "DoRA is not supported"),
    ({"fan_in_fan_out": True}, "transposed weights are not supported"),
    ({"bias": "all"}, "bias all is not supported, only none"),
    ({"lora_bias": True}, "biases are not supported"),
    ({"use_qalora": True}, "QALoRA is not supported"),
    ({"modules_to_save": ["lm_head"]}, "whole layers are not supported"),
    ({"layer_replication": [[0, 2]]}, "layer_replication is not supported"),
    ({"trainable_token_indices": [1]}, "trainable_token_indices is not supported"),
    ({"target_parameters": ["experts.w"]}, "only linear layers are supported"),
    ({"alora_invocation_tokens": [1, 2]}, "activated LoRA is not supported"),
    ({"init_lora_weights": "pissa_niter_4"}, "pissa_niter_4, which changes the base model"),
    ({"init_lora_weights": "olora"}, "olora, which changes the base model"),
    ({"r": 3}, r"shapes \[4, 32\] and \[16, 4\] should be \[3, 32\] and \[16, 3\]"),
    ({"rank_pattern": {"q_proj": 0}}, "r is 0 for model.layers.0.self_attn.q_proj"),
    ({"r": "four"}, "adapter_config.json cannot be read: Expected `int`"),
    ({"alpha_pattern": {"(": 1}}, r"the pattern '\(' cannot be read"),
    ({"lora_alpha": 1e45}, "_proj: a weight is infinite or not a number"),
]


@pytest.mark.parametrize(("fields", "why"), CONFIGURATIONS)
def test_an_unsupported_configuration_is_rejected_with_the_adapters_name(
    fields: dict[str, object], why: str, sites: AdapterSites, pairs: Pairs, tmp_path: Path
) -> None:
    folder = save_adapter(tmp_path / "a", pairs, **fields)

    with pytest.raises(InvalidConfig, match=rf"engine\.loras: sql: .*{why}"):
        load_adapter("sql", str(folder), sites)


Tensors = dict[str, torch.Tensor]


def added(key: str) -> Callable[[Tensors], Tensors]:
    return lambda tensors: {**tensors, PREFIX + key: torch.zeros(2, 32)}


WEIGHTS: list[tuple[Callable[[Tensors], Tensors], str]] = [
    (lambda _: {}, "has no weights"),
    (added("lm_head.lora_A.weight"), "no linear layer lm_head that takes adapters"),
    (added("model.layers.7.mlp.up_proj.lora_A.weight"), "no linear layer model.layers.7"),
    (added("model.layers.0.mlp.c_fc.lora_A.weight"), "no linear layer model.layers.0.mlp.c_fc"),
    (added("model.layers.0.mlp.up_proj.lora_A.weight"), "up_proj lacks one of lora_A and lora_B"),
    (added("model.embed_tokens.lora_embedding_A"), "is not a plain LoRA weight"),
    (added(f"{Q0}.lora_magnitude_vector"), "is not a plain LoRA weight"),
    (added(f"{Q0}.lora_B.bias"), "is not a plain LoRA weight"),
    (
        lambda tensors: {key: value.to(torch.int8) for key, value in tensors.items()},
        "torch.int8 and torch.int8 must be floats",
    ),
    (
        lambda tensors: {key: value[:, :-1].contiguous() for key, value in tensors.items()},
        r"shapes \[4, 31\] and \[32, 3\] should be \[4, 32\] and \[32, 4\]",
    ),
]


@pytest.mark.parametrize(("change", "why"), WEIGHTS)
def test_unsupported_weights_are_rejected(
    change: Callable[[Tensors], Tensors],
    why: str,
    sites: AdapterSites,
    pairs: Pairs,
    tmp_path: Path,
) -> None:
    folder = save_adapter(tmp_path / "a", {Q0: pairs[Q0]})
    file = folder / "adapter_model.safetensors"
    save_file(change(load_file(file)), file)

    with pytest.raises(InvalidConfig, match=why):
        load_adapter("a", str(folder), sites)


def test_folders_without_an_adapter_are_rejected(
    sites: AdapterSites, pairs: Pairs, tmp_path: Path
) -> None:
    folder = save_adapter(tmp_path / "a", pairs)
    (folder / "adapter_model.safetensors").write_bytes(b"\x80pickle")

    with pytest.raises(InvalidConfig, match="is not an adapter saved by peft"):
        load_adapter("a", str(tmp_path), sites)
    with pytest.raises(InvalidConfig, match="only safetensors is supported"):
        load_adapter("a", str(folder), sites)
    (folder / "adapter_config.json").write_text(json.dumps({"r": 4}) + "}")
    with pytest.raises(InvalidConfig, match=r"adapter_config\.json cannot be read"):
        load_adapter("a", str(folder), sites)


@pytest.mark.parametrize(
    ("loras", "why"),
    [
        ([("sql", "missing")], "engine.loras: sql: base model missing not found"),
        ([(MODEL, MODEL)], f"engine.loras: {MODEL}: the name is already used"),
        ([("sql", MODEL), ("sql", MODEL)], "engine.loras: sql: the name is already used"),
    ],
)
def test_an_adapter_has_its_own_name_and_a_base(
    loras: list[tuple[str, str]], why: str, base: Path, pairs: Pairs, tmp_path: Path
) -> None:
    folder = str(save_adapter(tmp_path / "a", pairs))
    rows = tuple(LoraConfig(name=name, path=folder, base=of) for name, of in loras)
    settings = config(base, models=(ModelConfig(name=MODEL, path=str(base)),), loras=rows)

    with pytest.raises(InvalidConfig, match=why):
        host(settings, lambda _: None)
