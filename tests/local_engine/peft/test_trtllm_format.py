"""Adapters in TensorRT-LLM's layout: what each row means, and every reason to reject one."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from strowger_gateway.local_engine.peft.lora_layers import Adapter, AdapterSites
from strowger_gateway.local_engine.peft.trtllm_format import read_adapter
from strowger_gateway.schemas.errors import InvalidRequest
from tests.local_engine.peft.random_adapters import (
    Pairs,
    linear_weights,
    random_pairs,
    save_merged,
    trt_tensors,
    weights_of,
    wire,
)

ROOM = 1 << 20


@pytest.fixture(scope="module")
def pairs(base: Path) -> Pairs:
    return random_pairs(base, 3)


def read(
    sites: AdapterSites, weights: torch.Tensor, config: torch.Tensor, *, most_bytes: int = ROOM
) -> Adapter:
    return read_adapter(wire(weights), wire(config), sites, most_bytes=most_bytes)


def changes(sites: AdapterSites, adapter: Adapter) -> dict[str, torch.Tensor]:
    """Return what the adapter adds to each layer's weight, measured with unit vectors."""
    return {site.name: weights_of(sites, adapter, site) for site in sites.sites}


def test_every_row_changes_its_own_layer(base: Path, sites: AdapterSites, pairs: Pairs) -> None:
    weights, config = trt_tensors(pairs)

    added = changes(sites, read(sites, weights, config))

    for name, (down, up) in pairs.items():
        torch.testing.assert_close(added[name], 2.0 * up @ down)


def test_batch_dimensions_order_padding_and_a_column_for_dora_do_not_matter(
    sites: AdapterSites, pairs: Pairs
) -> None:
    weights, config = trt_tensors(pairs)
    order = torch.randperm(len(config), generator=torch.Generator().manual_seed(1))
    padded = torch.nn.functional.pad(weights[order], (0, 5), value=torch.inf)
    plain = torch.nn.functional.pad(config[order], (0, 1))

    ours = changes(sites, read(sites, padded.unsqueeze(0), plain.unsqueeze(0)))

    for name, expected in changes(sites, read(sites, weights, config)).items():
        torch.testing.assert_close(ours[name], expected)


def test_half_precision_weights_are_read(sites: AdapterSites, pairs: Pairs) -> None:
    weights, config = trt_tensors(pairs)

    added = changes(sites, read(sites, weights.half(), config))

    for name, expected in changes(sites, read(sites, weights, config)).items():
        torch.testing.assert_close(added[name], expected, rtol=1e-2, atol=1e-2)


def test_one_adapter_of_queries_keys_and_values_is_split_among_them(sites: AdapterSites) -> None:
    """llama: 32 in; 32, 16 and 16 out."""
    down, up = torch.randn(3, 32), torch.randn(64, 3)
    config = torch.tensor([[0, 1, 3]], dtype=torch.int32)

    added = changes(sites, read(sites, torch.cat((down.flatten(), up.flatten()))[None], config))

    whole = torch.cat([added[f"model.layers.1.self_attn.{part}_proj"] for part in "qkv"])
    torch.testing.assert_close(whole, up @ down)
    assert not added["model.layers.0.self_attn.q_proj"].any()


def test_different_contents_have_different_digests(sites: AdapterSites, pairs: Pairs) -> None:
    weights, config = trt_tensors(pairs)
    more = weights.clone()
    more[0, 0] += 1

    digests = [read(sites, each, config).digest for each in (weights, weights.clone(), more)]

    assert digests[0] == digests[1] != digests[2]


Change = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


def entry(row: int, column: int, value: int) -> Change:
    def change(w: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        c[row, column] = value
        return w, c

    return change


def number(value: float) -> Change:
    def change(w: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        w[1, 3] = value
        return w, c

    return change


REFUSED: list[tuple[Change, str, str]] = [
    (entry(1, 0, 18), "lora_config", r"\[1\]: module 18 is not supported; use one of 0 attn_qkv"),
    (entry(1, 0, -1), "lora_config", r"\[1\]: module -1 is not supported"),
    (entry(1, 1, 2), "lora_config", r"\[1\]: the model has no layer 2; it has 2"),
    (entry(1, 1, -1), "lora_config", r"\[1\]: the model has no layer -1"),
    (entry(1, 2, 0), "lora_config", r"\[1\]: rank 0 must be 1 or more"),
    (entry(1, 2, 50), "lora_weights", r"\[1\]: .* rank 50 of 32 in and 16 out needs 2400"),
    (entry(1, 0, 1), "lora_config", r"\[1\]: model.layers.0.self_attn.q_proj is already adapted"),
    (entry(1, 0, 0), "lora_config", r"\[1\]: model.layers.0.self_attn.q_proj is already adapted"),
    (number(torch.nan), "lora_weights", "k_proj: a weight is infinite or not a number"),
    (number(-torch.inf), "lora_weights", "k_proj: a weight is infinite or not a number"),
    (lambda w, c: (w[1:], c), "lora_weights", "13 rows, but lora_config has 14"),
    (lambda w, c: (w.flatten(), c), "lora_weights", r"shape \[\d+\] must be a table"),
    (lambda w, c: (w[:0], c[:0]), "lora_config", r"shape \[0, 3\] must be a table"),
    (lambda w, c: (w, c[:, :2]), "lora_config", "a row has 2 numbers"),
    (lambda w, c: (w, torch.cat((c, c[:, :1]), dim=1)), "lora_config", "DoRA is not supported"),
    (
        lambda w, c: (w.int(), c),
        "lora_weights",
        "dtype int32 is not supported; send float16, bfloat16, float32",
    ),
    (
        lambda w, c: (w, c.float()),
        "lora_config",
        "dtype float32 is not supported; send int32, int64",
    ),
]


@pytest.mark.parametrize(("change", "field", "why"), REFUSED)
def test_unsupported_adapters_are_rejected_with_the_tensors_name(
    change: Change, field: str, why: str, sites: AdapterSites, pairs: Pairs
) -> None:
    weights, config = change(*trt_tensors(pairs))

    with pytest.raises(InvalidRequest, match=f"{field}: .*{why}") as caught:
        read(sites, weights, config)

    assert caught.value.param == field


def test_an_adapter_has_a_largest_size(sites: AdapterSites, pairs: Pairs) -> None:
    weights, config = trt_tensors(pairs)
    size = read(sites, weights, config).bytes

    assert read(sites, weights, config, most_bytes=size).bytes == size
    with pytest.raises(InvalidRequest, match=f"takes {size} bytes; at most {size - 1} are allowed"):
        read(sites, weights, config, most_bytes=size - 1)


def test_a_merged_model_has_the_adapted_weights(
    base: Path, sites: AdapterSites, pairs: Pairs, tmp_path: Path
) -> None:
    """Checks the oracle of the other tests."""
    merged = linear_weights(save_merged(tmp_path / "merged", base, pairs))
    plain = linear_weights(base)

    added = changes(sites, read(sites, *trt_tensors(pairs)))

    for name, change in added.items():
        torch.testing.assert_close(merged[name], plain[name] + change)
