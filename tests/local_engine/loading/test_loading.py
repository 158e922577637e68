"""Which models load, how they run, and the errors for the others."""

# torch and transformers annotate these members in part only:
# pyright: reportUnknownMemberType=false

from pathlib import Path
from typing import Literal, cast

import msgspec
import pytest
import torch
from transformers.modeling_utils import PreTrainedModel
from transformers.models.auto.configuration_auto import AutoConfig
from transformers.models.auto.modeling_auto import AutoModelForCausalLM

from strowger_gateway.local_engine.execution.model_runner import Runner
from strowger_gateway.local_engine.loading.checkpoint import load
from strowger_gateway.schemas.errors import InvalidConfig
from strowger_gateway.schemas.sampling import Sampling
from tests.local_engine.conftest import Folder
from tests.local_engine.embeddings.embedding_services import seated
from tests.local_engine.execution.lane_runs import hosted
from tests.local_engine.loading.broken_checkpoints import JSON, config, copied, write
from tests.local_engine.services import ask, completion, serving
from tests.local_engine.services import config as engine
from tests.local_engine.tiny import save_model

pytestmark = pytest.mark.anyio


def runner(folder: Path, dtype: torch.dtype = torch.float32, *, kv_bytes: int = 1 << 18) -> Runner:
    loaded = load(str(folder), device="cpu", dtype=dtype)
    return Runner(loaded, device="cpu", kv_bytes=kv_bytes, max_tokens=4096)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("family", "lean"),
    [
        ("llama", True),
        ("qwen2", True),
        ("qwen3", True),
        ("mistral", True),
        ("granite", True),
        ("phi3", True),
        ("gemma2", False),
        ("olmo2", False),
    ],
)
def test_plain_decoders_run_fused_and_others_by_transformers_modules(
    family: str, lean: bool, dtype: torch.dtype, folder: Folder
) -> None:
    assert runner(folder(family), dtype).fused is lean


def test_partially_rotated_heads_run_by_transformers_modules(tmp_path: Path) -> None:
    part = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}

    assert not runner(save_model(tmp_path, "phi3", rope_parameters=part)).fused


def test_a_context_is_at_most_the_models(folder: Folder) -> None:
    assert hosted(folder("llama")).context == 256
    assert hosted(folder("llama"), max_seq_len=100).context == 100
    assert hosted(folder("llama"), max_seq_len=9999).context == 256


def test_rotary_scaling_that_binds_a_batch_keeps_the_original_context(tmp_path: Path) -> None:
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}
    folder = save_model(
        tmp_path,
        max_position_embeddings=512,
        rope_parameters={**rope, "original_max_position_embeddings": 128},
    )

    assert load(str(folder), device="cpu", dtype=torch.float32).context == 128


YARN: dict[str, object] = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4}


@pytest.mark.parametrize("task", ["generate", "embed"])
@pytest.mark.parametrize(
    ("rope", "context"),
    [
        ({**YARN, "original_max_position_embeddings": 256}, 1024),
        ({**YARN, "original_max_position_embeddings": 64}, 256),
        (YARN, 256),
        ({"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4}, 256),
    ],
)
def test_a_context_is_as_long_as_yarn_stretches_the_stated_original(
    rope: dict[str, object], context: int, task: Literal["generate", "embed"], tmp_path: Path
) -> None:
    folder = save_model(tmp_path)
    settings = msgspec.json.decode((folder / "config.json").read_bytes(), type=JSON)
    write(folder / "config.json", {**settings, "rope_parameters": rope})

    if task == "embed":
        write(folder / "config.json", {**settings, "rope_parameters": rope, "architectures": []})
        assert seated(folder, max_seq_len=None).shape.longest == context
    else:
        served = hosted(folder, kv_cache=1 << 20)
        assert served.context == context


ENDS: dict[str, tuple[dict[str, object], dict[str, object], set[int]]] = {
    "of the base model": ({"eos_token_id": 0}, {}, {0, 2}),
    "several": ({"eos_token_id": [0, 1]}, {}, {0, 1, 2}),
    "the configuration's only": ({}, {"eos_token_id": 3}, {3, 2}),
    "none": ({}, {"eos_token_id": None}, {2}),
}


@pytest.mark.parametrize("case", ENDS)
async def test_an_answer_ends_with_the_end_tokens_of_model_and_tokenizer(
    case: str, folder: Folder, tmp_path: Path
) -> None:
    generation, settings, ends = ENDS[case]
    model = copied(folder("llama"), tmp_path / "model")
    write(model / "generation_config.json", generation)
    config(**settings)(model)

    async with serving(engine(model)) as service:
        for end in ends:
            sampling = Sampling(temperature=0.0, max_tokens=4, logit_bias={end: 100.0})
            answer = await ask(service, completion("The fox", sampling))
            (finish,) = [choice.finish for choice in answer.choices]
            assert finish is not None
            assert finish.native == "eos_token"


def test_a_cache_too_small_for_one_block_is_refused(folder: Folder) -> None:
    with pytest.raises(InvalidConfig, match="kv_cache: 100 bytes; set at least"):
        runner(folder("llama"), kv_bytes=100)


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"model_type": "mamba"}, "is a mamba: it keeps a recurrent state .* another engine"),
        ({"model_type": "qwen3_next", "layer_types": ["linear_attention"]}, "a recurrent state"),
        ({"model_type": "bloom"}, "is a bloom: its attention cannot be replaced"),
        ({"model_type": "vit"}, "is a vit: transformers has no class for it that only generates"),
        (
            {"model_type": "deepseek_v32", "index_topk": 2048},
            "with an indexer .index_topk. which",
        ),
        ({"model_type": "glm_moe_dsa", "index_topk": 2048}, "glm_moe_dsa: its layers choose with"),
        ({"model_type": "hy_v4", "index_n_heads": 16}, "hy_v4: its layers choose with an indexer"),
        ({"model_type": "longcat_flash"}, "longcat_flash: each of its layers attends twice, and"),
        ({"model_type": "nemotron"}, "nemotron: transformers' code of this family keeps from its"),
        ({"model_type": "nothing_known"}, "nothing_known"),
    ],
)
def test_models_that_cannot_be_served_are_refused_by_name(
    config: dict[str, str], problem: str, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_bytes(msgspec.json.encode(config))

    with pytest.raises(InvalidConfig, match=problem):
        load(str(tmp_path), device="cpu", dtype=torch.float32)


def test_a_model_with_bidirectional_attention_is_rejected(tmp_path: Path) -> None:
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 50}
    config = AutoConfig.for_model("bert", intermediate_size=16, is_decoder=False, **shape)
    cast(PreTrainedModel, AutoModelForCausalLM.from_config(config)).save_pretrained(tmp_path)

    with pytest.raises(InvalidConfig, match="passes its own mask or bias to its attention"):
        runner(tmp_path)


def test_weights_in_pickles_are_not_read(folder: Folder, tmp_path: Path) -> None:
    for name in ("config.json", "generation_config.json"):
        (tmp_path / name).write_bytes((folder("llama") / name).read_bytes())
    torch.save({}, tmp_path / "pytorch_model.bin")

    with pytest.raises(InvalidConfig, match="safetensors"):
        load(str(tmp_path), device="cpu", dtype=torch.float32)


def test_code_that_comes_with_a_model_is_not_run(tmp_path: Path) -> None:
    trap = tmp_path / "trap.py"
    trap.write_text("raise SystemExit('this must not run')")
    config = {
        "model_type": "trap",
        "auto_map": {"AutoConfig": "trap.Trap", "AutoModelForCausalLM": "trap.Trap"},
    }
    (tmp_path / "config.json").write_bytes(msgspec.json.encode(config))

    with pytest.raises(InvalidConfig, match="cannot be loaded"):
        load(str(tmp_path), device="cpu", dtype=torch.float32)
