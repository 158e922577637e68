"""Ways to break the folder of a tiny model, each as it happens to real ones."""

# safetensors, torch and transformers annotate these in part only:
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

import msgspec
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

JSON = dict[str, object]
Spoil = Callable[[Path], object]

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
DOWN = "model.layers.0.mlp.down_proj.weight"


def copied(folder: Path, to: Path) -> Path:
    """Return a copy whose files can be replaced and removed, and are never changed in place."""
    return Path(shutil.copytree(folder, to, copy_function=os.link))


def replaced(path: Path, content: bytes) -> None:
    """Write a file anew: the old one may be linked from elsewhere."""
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def write(path: Path, content: object) -> None:
    replaced(path, msgspec.json.encode(content))


def config(**changes: object) -> Spoil:
    """Change fields of config.json."""

    def spoil(folder: Path) -> None:
        path = folder / "config.json"
        write(path, {**msgspec.json.decode(path.read_bytes(), type=JSON), **changes})

    return spoil


def bare(**changes: object) -> Spoil:
    """Change fields of config.json in a folder without files of sentence-transformers."""

    def spoil(folder: Path) -> None:
        config(**changes)(folder)
        for name in ("modules.json", "config_sentence_transformers.json"):
            (folder / name).unlink()

    return spoil


def config_and_table(vocab_size: int) -> Spoil:
    """Cut an embedding model's vocabulary."""

    def spoil(folder: Path) -> None:
        name = "embeddings.word_embeddings.weight"
        config(vocab_size=vocab_size)(folder)
        weights(lambda found: found.update({name: found[name][:vocab_size].clone()}))(folder)

    return spoil


def file(name: str, content: object) -> Spoil:
    """Add a file, of bytes or as JSON."""

    def spoil(folder: Path) -> None:
        if isinstance(content, bytes):
            replaced(folder / name, content)
        else:
            write(folder / name, content)

    return spoil


def weights(change: Callable[[dict[str, Tensor]], object]) -> Spoil:
    """Change the tensors."""

    def spoil(folder: Path) -> None:
        found = load_file(folder / SINGLE)
        change(found)
        (folder / SINGLE).unlink()
        save_file(found, folder / SINGLE, metadata={"format": "pt"})

    return spoil


def without(*names: str) -> Spoil:
    return weights(lambda found: [found.pop(name) for name in names])


def without_all(part: str) -> Spoil:
    return weights(lambda found: [found.pop(name) for name in list(found) if part in name])


def added(tensors: Mapping[str, Tensor]) -> Spoil:
    return weights(lambda found: found.update(tensors))


def only(suffix: str, content: bytes = b"x") -> Spoil:
    """Replace the weights by a file of another kind."""

    def spoil(folder: Path) -> None:
        (folder / SINGLE).unlink()
        (folder / suffix).write_bytes(content)

    return spoil


def sharded(*more: Spoil) -> Spoil:
    """Split the weights into two files with an index, and break those."""

    def spoil(folder: Path) -> None:
        found = load_file(folder / SINGLE)
        (folder / SINGLE).unlink()
        names = sorted(found)
        place = {name: shard(1 + (at >= len(names) // 2)) for at, name in enumerate(names)}
        for one in set(place.values()):
            part = {name: found[name] for name in names if place[name] == one}
            save_file(part, folder / one, metadata={"format": "pt"})
        write(folder / INDEX, {"metadata": {}, "weight_map": place})
        for other in more:
            other(folder)

    return spoil


def doubled(change: Callable[[dict[str, Tensor]], object] = dict) -> Spoil:
    """Split the weights into two files with an index, and keep the single file, changed."""

    def spoil(folder: Path) -> None:
        found = load_file(folder / SINGLE)
        sharded()(folder)
        change(found)
        save_file(found, folder / SINGLE, metadata={"format": "pt"})

    return spoil


def shard(number: int) -> str:
    return f"model-0000{number}-of-00002.safetensors"


def removed(name: str) -> Spoil:
    return lambda folder: (folder / name).unlink()


def cut(name: str, keep: float) -> Spoil:
    """Keep the beginning of a file, as an interrupted copy does."""

    def spoil(folder: Path) -> None:
        content = (folder / name).read_bytes()
        replaced(folder / name, content[: int(len(content) * keep)])

    return spoil


def dangling(name: str) -> Spoil:
    """A link whose target is gone, as in a cache of the hub that was cleaned by hand."""

    def spoil(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).symlink_to("../../blobs/0123456789abcdef")

    return spoil


def folder_for_file(name: str) -> Spoil:
    def spoil(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).mkdir()

    return spoil


def stale_index(folder: Path) -> None:
    path = folder / INDEX
    read = msgspec.json.decode(path.read_bytes(), type=dict[str, dict[str, str]])
    read["weight_map"]["model.layers.1.extra.weight"] = shard(1)
    write(path, read)


def emptied(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


def codes(dtype: torch.dtype, *, scales: str = "", part: str = "proj") -> Spoil:
    """Store the linear layers in a format of quantization; scales: the suffix of their scales."""

    def change(found: dict[str, Tensor]) -> None:
        for name in [name for name in found if part in name]:
            found[name] = found[name].clamp(-1, 1).mul(100).to(dtype)
            if scales:
                found[name.removesuffix("weight") + scales] = torch.ones(len(found[name]), 1)

    return weights(change)


def described(folder: Path) -> None:
    """As msmodelslim publishes W8A8: codes, scales, offsets and a description by name."""
    codes(torch.int8, scales="weight_scale")(folder)
    names = list(load_file(folder / SINGLE))
    kinds = {name: "W8A8_DYNAMIC" if "proj" in name else "FLOAT" for name in names}
    write(folder / "quant_model_description.json", {"model_quant_type": "W8A8_DYNAMIC", **kinds})


def described_apart(folder: Path) -> None:
    """The same, with the weights in a file of msmodelslim's own name."""
    described(folder)
    (folder / SINGLE).rename(folder / "quant_model_weight_w8a8_dynamic.safetensors")


def all_float(folder: Path) -> None:
    write(folder / "quant_model_description.json", {"model_quant_type": "FLOAT", DOWN: "FLOAT"})


def more_tokens(*contents: str, special: bool = True, named: bool = False) -> Spoil:
    """Add tokens behind the vocabulary. named: the chat template writes them."""

    def spoil(folder: Path) -> None:
        path = folder / "tokenizer.json"
        read = msgspec.json.decode(path.read_bytes(), type=JSON)
        tokens = cast(list[JSON], read["added_tokens"])
        size = len(cast(JSON, cast(JSON, read["model"])["vocab"]))
        for number, content in enumerate(contents):
            tokens.append(
                {
                    "id": size + number,
                    "content": content,
                    "special": special,
                    **dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False),
                }
            )
        write(path, read)
        if named:
            template = folder / "chat_template.jinja"
            replaced(template, (contents[-1] + template.read_text()).encode())

    return spoil


def no_tokenizer(folder: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()


def huge(name: str, size: int) -> Spoil:
    """A sparse file, which takes no space."""

    def spoil(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        with (folder / name).open("wb") as file:
            file.truncate(size)

    return spoil


def nested(name: str) -> Spoil:
    return file(name, b'{"a":' * 200_000 + b"1" + b"}" * 200_000)


def of_terabytes(folder: Path) -> None:
    """A file as long as its header says, which takes no space on the disk."""
    size = 4 << 40
    header = msgspec.json.encode(
        {DOWN: {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}
    )
    replaced(folder / SINGLE, len(header).to_bytes(8, "little") + header)
    with (folder / SINGLE).open("r+b") as file:
        file.truncate(8 + len(header) + size)


def tokenizing(**parts: object) -> Spoil:
    """Change parts of tokenizer.json."""

    def spoil(folder: Path) -> None:
        path = folder / "tokenizer.json"
        write(path, {**msgspec.json.decode(path.read_bytes(), type=JSON), **parts})

    return spoil


def replacing(times: int) -> JSON:
    """A normalizer that doubles every `a` so many times."""
    one = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
    return {"type": "Sequence", "normalizers": [one] * times}


def repeating(times: int) -> JSON:
    """A post-processor that repeats a text's tokens."""
    one = {"Sequence": {"id": "A", "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [one] * times,
        "pair": [one, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {},
    }
