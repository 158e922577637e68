"""A start on trial shows each comparison that a start makes on its device, and why it would end."""

from collections.abc import Generator
from pathlib import Path

import pytest

from strowger_gateway.local_engine.model_trial import diagnose
from strowger_gateway.local_engine.protocol.diagnosis import Tried
from tests.local_engine.conftest import Folder
from tests.local_engine.embeddings.embedding_services import embedding_config
from tests.local_engine.embeddings.tiny_embedders import CASES, save_embedder
from tests.local_engine.services import config
from tests.local_engine.stand_ins.npu_installed import npu_installed
from tests.local_engine.tiny import save_model

NPU = {"device": "npu", "kv_cache": 1 << 22, "max_step_tokens": 64, "max_sequences": 8}


@pytest.fixture
def npu() -> Generator[None]:
    with npu_installed():
        yield


def by_role(trials: tuple[Tried, ...]) -> dict[str, list[Tried]]:
    rows: dict[str, list[Tried]] = {}
    for one in trials:
        rows.setdefault(one.role, []).append(one)
    return rows


@pytest.mark.usefixtures("npu")
def test_every_kernel_of_an_npu_is_a_row(tmp_path: Path) -> None:
    found = diagnose(config(save_model(tmp_path, "qwen3", head_dim=128), dtype="bfloat16", **NPU))

    assert found.problem == ""
    rows = by_role(found.trials)
    assert {"attention", "norm", "add and norm", "rotary embedding", "swiglu"} <= set(rows)
    for role in ("attention", "norm", "rotary embedding"):
        used = rows[role][-1]
        assert used.kernel.startswith("npu_")
        assert used.problem == ""
        assert used.gap is not None
        assert used.gap < 0.1
        assert "1x" in used.tried
    assert [one.kernel for one in rows["sampling"]] == ["npu_top_k_top_p_sample", "torch on npu"]
    assert [one.problem for one in rows["sampling"]] == ["", ""]
    assert rows["decode"][0].tried == "15 tokens"


@pytest.mark.usefixtures("npu")
def test_a_kernel_that_is_not_for_the_dtype_is_a_row_with_the_reason(folder: Folder) -> None:
    """Float32 is refused by the fused attention; such a model is served, and more slowly."""
    found = diagnose(config(folder("qwen3"), **NPU))

    assert found.problem == ""
    attention = by_role(found.trials)["attention"]
    assert attention
    assert all(one.problem for one in attention)


def test_models_that_embed_are_loaded_and_need_no_prompt(tmp_path: Path) -> None:
    folder = save_embedder(tmp_path, CASES["bert-cls"])

    found = diagnose(embedding_config(folder))

    assert found.problem == ""
    assert any("vectors of" in line for line in found.lines)


def test_what_an_engine_refuses_is_the_problem(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "mamba"}')

    found = diagnose(config(tmp_path))

    assert found.trials == ()
    assert str(tmp_path) in found.problem
