"""Broken checkpoints are refused in one sentence with cause and remedy, and whole ones are not."""

# safetensors annotates these in part only:
# pyright: reportUnknownVariableType=false

import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from strowger_gateway.local_engine.loading.checkpoint import load
from strowger_gateway.local_engine.loading.checkpoint_files import check_files
from strowger_gateway.schemas.errors import InvalidConfig, InvalidRequest
from tests.local_engine.conftest import Folder
from tests.local_engine.execution.lane_runs import hosted
from tests.local_engine.loading.broken_checkpoints import (
    DOWN,
    INDEX,
    SINGLE,
    Spoil,
    added,
    all_float,
    codes,
    config,
    copied,
    cut,
    dangling,
    described,
    described_apart,
    doubled,
    emptied,
    file,
    folder_for_file,
    huge,
    more_tokens,
    nested,
    no_tokenizer,
    of_terabytes,
    only,
    removed,
    repeating,
    replacing,
    shard,
    sharded,
    stale_index,
    tokenizing,
    without,
    without_all,
)
from tests.local_engine.loading.refusals import ELSEWHERE, QUANTIZED, refusal
from tests.local_engine.tiny import save_model

LLAMA = "LlamaForCausalLM"


def quantization(**fields: object) -> Spoil:
    return config(quantization_config=fields)


WEIGHTS: dict[str, tuple[Spoil, str]] = {
    "a weight is missing": (
        without(DOWN),
        f"it lacks weights of {LLAMA}: {DOWN}; they would be random: download it again",
    ),
    "many weights are missing": (
        without_all("mlp"),
        rf"lacks weights of {LLAMA}: {DOWN}, \S+, \S+ and 3 more; they would be random",
    ),
    "the output head is missing": (without("lm_head.weight"), "lacks weights of .*lm_head.weight"),
    "a layer is missing": (
        without_all("layers.1."),
        "it lacks all weights of layers 1, of 2; download it again",
    ),
    "the configuration has more layers": (
        config(num_hidden_layers=9),
        "lacks all weights of layers 2, 3, 4 and 4 more, of 9",
    ),
    "the configuration has fewer layers": (
        config(num_hidden_layers=1),
        r"has weights that LlamaForCausalLM does not use: model\.layers\.1\.\S+, .* and 6 more",
    ),
    "the configuration is of another size": (
        config(intermediate_size=48),
        r"config.json belongs to other weights: \S+, \S+, \S+ and 3 more \(\[32, 64\] in the file, "
        r"\[32, 48\] by the configuration\); take both from the same place",
    ),
    "biases that the configuration lacks": (
        added({"model.layers.0.self_attn.q_proj.bias": torch.ones(32)}),
        "has weights that LlamaForCausalLM does not use: model.layers.0.self_attn.q_proj.bias; ",
    ),
}

FILES: dict[str, tuple[Spoil, str]] = {
    "a shard is missing": (
        sharded(removed(shard(2))),
        f"1 of 2 weight files are missing: {shard(2)}; download it again",
    ),
    "half a shard": (
        sharded(cut(shard(2), 0.5)),
        f"{shard(2)} is cut off: it has [0-9,]+ of [0-9,]+ bytes; download it again",
    ),
    "a shard of a few bytes": (
        sharded(cut(shard(1), 0.002)),
        f"{shard(1)} is cut off within its header; download it again",
    ),
    "an empty shard": (sharded(cut(shard(1), 0)), f"{shard(1)} is not a safetensors file"),
    "a page instead of a file": (
        only(SINGLE, b"<!doctype html><title>Sign in</title>" * 9),
        f"{SINGLE} is not a safetensors file; download it again",
    ),
    "a pointer of Git LFS": (
        only(SINGLE, b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"),
        f"{SINGLE} is the pointer of Git LFS and not the weights; run: git lfs pull",
    ),
    "a link to nothing": (dangling(SINGLE), f"{SINGLE} is a link to a file that does not exist"),
    "a folder in place of a file": (folder_for_file(SINGLE), "cannot be read: Is a directory"),
    "an index that names what is not there": (
        sharded(stale_index),
        f"{INDEX} names weights that the files lack: model.layers.1.extra.weight; download",
    ),
    "an index without an index": (sharded(file(INDEX, {})), f"{INDEX} is not an index of weights"),
    "an index that is cut off": (sharded(cut(INDEX, 0.5)), f"{INDEX} is not JSON"),
    "two sets of weights": (
        doubled(lambda found: found[DOWN].mul_(2)),
        f"has two sets of weights that differ, {SINGLE} and the 2 files of {INDEX}; remove the one",
    ),
    "two sets of weights, one quantized": (
        doubled(lambda found: found.update({DOWN: found[DOWN].to(torch.int8)})),
        f"has two sets of weights that differ, {SINGLE} and the 2 files of {INDEX}; remove the one",
    ),
    "an empty folder": (emptied, "the folder has no config.json"),
    "pickles only": (
        only("pytorch_model.bin"),
        r"the weights are pickles \(pytorch_model.bin\), which can contain code; take or convert "
        "them to safetensors",
    ),
    "GGUF only": (
        only("model-Q4_K_M.gguf"),
        r"the weights are GGUF \(model-Q4_K_M.gguf\), which this engine does not read; take the",
    ),
    "the layout of Mistral": (
        only("consolidated.safetensors"),
        f"has consolidated.safetensors, but neither {SINGLE} nor {INDEX}; take the weights in the",
    ),
    "more weights than memory": (
        of_terabytes,
        r"its weights take 4398.0 GB in float32, and cpu has [0-9.]+ GB; take a smaller model or",
    ),
    "an adapter": (
        lambda folder: (removed("config.json")(folder), file("adapter_config.json", {})(folder)),
        "the folder is an adapter .LoRA. and not a model; list it in engine.loras",
    ),
    "a configuration that is cut off": (cut("config.json", 0.5), "config.json is not JSON"),
    "a family that transformers does not know": (
        config(model_type="newer_than_this"),
        "model type `newer_than_this` but Transformers does not recognize .* another engine",
    ),
    "a configuration without an end": (nested("config.json"), "config.json is nested too deeply"),
}

QUANTIZATIONS: dict[str, tuple[Spoil, str]] = {
    "GPTQ": (quantization(quant_method="gptq", bits=4), "gptq 4 bit; quantization_config of"),
    "GPTQ of old": (file("quantize_config.json", {"bits": 4}), "GPTQ 4 bit; quantize_config.json"),
    "AWQ": (quantization(quant_method="awq", bits=4), "awq 4 bit"),
    "AWQ of old": (file("quant_config.json", {"w_bit": 4}), "AWQ 4 bit; quant_config.json"),
    "FP8": (quantization(quant_method="fp8", weight_block_size=[128, 128]), "fp8"),
    "MXFP4": (quantization(quant_method="mxfp4"), "mxfp4"),
    "bitsandbytes": (quantization(load_in_4bit=True), "bitsandbytes"),
    "compressed-tensors": (quantization(quant_method="compressed-tensors"), "compressed-tensors"),
    "compressed-tensors of old": (
        config(compression_config={"quant_method": "compressed-tensors"}),
        "compressed-tensors; compression_config of config.json",
    ),
    "a method that nobody knows": (quantization(quant_method="somethingnew"), "somethingnew"),
    "a part of the model": (
        config(text_config={"quantization_config": {"quant_method": "fp8"}}),
        "fp8; text_config.quantization_config of config.json",
    ),
    "MLX": (config(quantization={"group_size": 64, "bits": 4}), "unnamed method 4 bit"),
    "MindIE": (config(quantize="w8a8"), "w8a8; quantize of config.json"),
    "ModelOpt": (
        file("hf_quant_config.json", {"quantization": {"quant_algo": "NVFP4"}}),
        "ModelOpt NVFP4; hf_quant_config.json",
    ),
    "msmodelslim": (described, "msmodelslim W8A8_DYNAMIC; quant_model_description.json"),
    "msmodelslim with its own names": (described_apart, "msmodelslim W8A8_DYNAMIC"),
    "int8 that nothing declares": (codes(torch.int8), r"I8 weights: \S+, \S+, \S+ and 11 more"),
    "float8 that nothing declares": (
        codes(torch.float8_e4m3fn, scales="weight_scale_inv"),
        r"F8_E4M3 weights: \S+, \S+, \S+ and 11 more",
    ),
}

TASKS: dict[str, tuple[Spoil, str]] = {
    "a classifier": (
        config(architectures=["Qwen3ForSequenceClassification"]),
        "it is a Qwen3ForSequenceClassification, a classifier or reranker; this engine generates "
        f"and embeds text only: {ELSEWHERE}",
    ),
    "a token classifier": (
        config(architectures=["LlamaForTokenClassification"]),
        f"a classifier or reranker; .*: {ELSEWHERE}",
    ),
    "a reranker of sentence-transformers": (
        file("config_sentence_transformers.json", {"model_type": "CrossEncoder"}),
        f"it is a LlamaForCausalLM, a classifier or reranker; .*{ELSEWHERE}",
    ),
    "a model without a head": (
        config(architectures=["LlamaModel"]),
        "it is a LlamaModel, which has no head to generate text with; set task: embed",
    ),
    "an encoder": (
        config(architectures=["BertForMaskedLM"]),
        "it is a BertForMaskedLM, which has no head to generate text with; set task: embed",
    ),
    "an embedding model": (
        file("modules.json", []),
        "it is a model of sentence-transformers, which embeds text; set task: embed",
    ),
    "an encoder-decoder": (
        config(architectures=["T5ForConditionalGeneration"], is_encoder_decoder=True),
        "it is a T5ForConditionalGeneration, an encoder-decoder, which this engine does not run",
    ),
}

TOKENIZERS: dict[str, tuple[Spoil, str]] = {
    "no tokenizer": (no_tokenizer, "it has no tokenizer .tokenizer.json.; copy the tokenizer's"),
    "a tokenizer that is cut off": (cut("tokenizer.json", 0.5), "the tokenizer at .* cannot be"),
    "a tokenizer without an end": (nested("tokenizer.json"), "the tokenizer at .* cannot be"),
    "a tokenizer of 500 MB": (
        huge("tokenizer.json", 500 << 20),
        "tokenizer.json has 524,288,000 bytes; a usable one has at most 268,435,456",
    ),
    "a template of 500 MB": (
        huge("chat_template.jinja", 500 << 20),
        "chat_template.jinja has 524,288,000 bytes; a usable one has at most 1,048,576",
    ),
    "control tokens of another model": (
        more_tokens(*(f"<|extra {number}|>" for number in range(30)), named=True),
        r"the tokenizer at .* belongs to another model: it has 10 tokens that the model lacks, "
        r"which has 400: '<\|extra 29\|>'; copy the tokenizer's files from where the weights are",
    ),
    "a tokenizer that lengthens texts": (
        tokenizing(normalizer=replacing(40)),
        "the tokenizer's normalizer makes texts more than 64 times as long; ",
    ),
    "a tokenizer that repeats texts": (
        tokenizing(post_processor=repeating(1000)),
        "the tokenizer's post-processor repeats a text 1000 times; ",
    ),
    "a tokenizer without the end token": (
        file("generation_config.json", {"eos_token_id": [390, 128009]}),
        r"lacks the token that ends the model's answers \(390, 128009\), and has 380 tokens; copy",
    ),
}

EVERY = WEIGHTS | FILES | {
    f"quantized: {name}": (spoil, QUANTIZED.format(said))
    for name, (spoil, said) in QUANTIZATIONS.items()
} | TASKS | TOKENIZERS  # fmt: skip


@pytest.mark.parametrize("case", EVERY)
def test_a_broken_checkpoint_is_refused_in_one_sentence(
    case: str, folder: Folder, tmp_path: Path
) -> None:
    spoil, message = EVERY[case]
    spoil(broken := copied(folder("llama"), tmp_path / "model"))

    assert re.search(message, refusal(broken))


LATER = ("more weights than memory", "a family that transformers does not know")
SHOWN = ("a layer is missing", *(name for name in FILES if name not in LATER))


@pytest.mark.parametrize("case", [*SHOWN, *QUANTIZATIONS, *TASKS])
def test_what_the_files_show_is_refused_before_anything_is_loaded(
    case: str, folder: Folder, tmp_path: Path
) -> None:
    spoil = {**WEIGHTS, **FILES, **QUANTIZATIONS, **TASKS}[case][0]
    spoil(broken := copied(folder("llama"), tmp_path / "model"))

    with pytest.raises(InvalidConfig):
        check_files(str(broken), "generate")


BUFFERS: dict[str, torch.Tensor] = {
    "model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4),
    "model.layers.0.self_attn.masked_bias": torch.ones(1),
    "model.layers.0.self_attn.k_scale": torch.ones(1),
    "mtp.layers.0.eh_proj.weight": torch.ones(4, 4),
    "model.layers.2.eh_proj.weight": torch.ones(4, 4),
    "model.layers.2.mlp.down_proj.weight": torch.ones(4, 4),
    "v_head.summary.weight": torch.ones(1, 32),
}

WHOLE: dict[str, Spoil] = {
    "buffers and heads that draft": added(BUFFERS),
    "predictors that the configuration counts": lambda folder: (
        config(num_nextn_predict_layers=1)(folder),
        added({"model.layers.2.mlp.down_proj.weight": torch.ones(4, 4)})(folder),
    ),
    "two files with an index": sharded(),
    "the same weights twice": doubled(),
    "a file that the index does not name": sharded(
        lambda folder: save_file({DOWN: torch.ones(1)}, folder / "stale.safetensors")
    ),
    "a head of its own though the configuration ties it": config(tie_word_embeddings=True),
    "an index whose files are gone": lambda folder: (
        doubled()(folder),
        removed(shard(1))(folder),
    ),
    "a description that all is float": all_float,
    "a quantization of nothing": config(quantization_config=None),
    "a cache that is quantized": file(
        "hf_quant_config.json", {"quantization": {"quant_algo": None, "kv_cache_quant_algo": "FP8"}}
    ),
    "a token for padding that no text needs": more_tokens(*map("[PAD{}]".format, range(30))),
    "a normalizer that lengthens a little": tokenizing(normalizer=replacing(2)),
    "no architecture": config(architectures=None),
}


@pytest.mark.parametrize("case", WHOLE)
def test_what_changes_no_answer_is_not_refused(case: str, folder: Folder, tmp_path: Path) -> None:
    WHOLE[case](changed := copied(folder("llama"), tmp_path / "model"))

    plain, found = (
        load(str(path), device="cpu", dtype=torch.float32).module.state_dict()
        for path in (folder("llama"), changed)
    )
    hosted(changed)

    assert all(torch.equal(found[name], tensor) for name, tensor in plain.items())


def test_a_head_that_is_tied_is_not_missing(tmp_path: Path) -> None:
    tied = save_model(tmp_path, tie_word_embeddings=True)

    assert "lm_head.weight" not in load_file(tied / SINGLE)
    assert hosted(tied).context == 256


def test_a_text_that_spells_a_token_behind_the_vocabulary_is_an_error_of_its_request(
    folder: Folder, tmp_path: Path
) -> None:
    more_tokens(*map("[PAD{}]".format, range(30)))(path := copied(folder("llama"), tmp_path / "m"))
    tokenizer = hosted(path).tokenizer

    assert max(tokenizer.encode("[PAD3]")) < 400
    with pytest.raises(InvalidRequest, match=r"spells '\[PAD29\]', a token that the model lacks"):
        tokenizer.encode_prompt("See [PAD29].", most=9, offload=None)
