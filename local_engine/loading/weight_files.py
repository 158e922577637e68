"""Read which weights a folder has, from the headers of its safetensors files; without torch.

https://huggingface.co/docs/safetensors/index#format: eight bytes with the header's length, little
endian, the header in JSON, then the numbers.
"""

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import Struct

from schemas.errors import InvalidConfig

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
METADATA = "__metadata__"
LONGEST_HEADER = 100_000_000
"""Bytes; the safetensors library has the same limit."""

LONGEST_JSON = 64 << 20
"""Bytes of a model's JSON files; the index of a model with 100,000 tensors has 10 MB."""

LFS = b"version https://git-lfs"
"""The beginning of the small file that stands for a large one in a clone without Git LFS."""

PICKLES = (".bin", ".pt", ".pth", ".ckpt")

SHOWN = 3
"""Names in a message; further ones are counted."""

_length = int.from_bytes


class StoredTensor(Struct, frozen=True, kw_only=True):
    """As the header has it. dtype: F32, BF16, I8 and so on."""

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]

    @property
    def count(self) -> int:
        """How many numbers it has."""
        count = 1
        for size in self.shape:
            count *= size
        return count


class _Index(Struct, frozen=True, kw_only=True):
    weight_map: dict[str, str]


def listed(names: Iterable[str]) -> str:
    """Return the first names, sorted, and the number of the others."""
    return shown(sorted(names))


def shown(names: Iterable[str]) -> str:
    """Return the first names, and the number of the others."""
    found = list(names)
    rest = len(found) - SHOWN
    return ", ".join(found[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def read_json(folder: Path, name: str) -> dict[str, object] | None:
    """Return a file's object; `None` without the file. Raises InvalidConfig if unreadable."""
    path = folder / name
    try:
        if not path.exists():
            return None
        if path.stat().st_size > LONGEST_JSON:
            raise _refused(folder, f"{name} has more than {LONGEST_JSON >> 20} MiB")
        return msgspec.json.decode(path.read_bytes(), type=dict[str, object])
    except OSError as exc:
        raise _refused(folder, f"{name} cannot be read: {exc.strerror}") from exc
    except RecursionError as exc:
        raise _refused(folder, f"{name} is nested too deeply") from exc
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise _refused(folder, f"{name} is not JSON: {exc}") from exc


def read_weights(folder: Path) -> dict[str, StoredTensor]:
    """Return every tensor of a model, by name.

    Raises InvalidConfig for a file that is missing, cut off or of another kind.
    """
    if (folder / SINGLE).is_symlink() or (folder / SINGLE).exists():
        return _header(folder, SINGLE)
    if not (folder / INDEX).exists():
        raise _refused(folder, _without_weights(folder))
    index = read_json(folder, INDEX)
    try:
        shards = msgspec.convert(index, _Index).weight_map
    except msgspec.ValidationError as exc:
        raise _refused(folder, f"{INDEX} is not an index of weights: {exc}") from exc
    names = sorted(set(shards.values()))
    absent = [name for name in names if not os.path.lexists(folder / name)]
    if absent:
        raise _refused(
            folder,
            f"{len(absent)} of {len(names)} weight files are missing: {listed(absent)}; "
            "download it again",
        )
    found: dict[str, StoredTensor] = {}
    for name in names:
        found |= _header(folder, name)
    if lacking := [tensor for tensor in shards if tensor not in found]:
        raise _refused(
            folder,
            f"{INDEX} names weights that the files lack: {listed(lacking)}; download it again",
        )
    return found


def _header(folder: Path, name: str) -> dict[str, StoredTensor]:
    path = folder / name
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(64)
            length = _length(start[:8], "little")
            text = b""
            if 0 < length <= LONGEST_HEADER:
                file.seek(8)
                text = file.read(length)
    except FileNotFoundError as exc:
        raise _refused(folder, f"{name} is a link to a file that does not exist") from exc
    except OSError as exc:
        raise _refused(folder, f"{name} cannot be read: {exc.strerror}") from exc
    if start.startswith(LFS):
        raise _refused(
            folder, f"{name} is the pointer of Git LFS and not the weights; run: git lfs pull"
        )
    if not text.startswith(b"{"):
        raise _refused(folder, f"{name} is not a safetensors file; download it again")
    if len(text) < length:
        raise _refused(folder, f"{name} is cut off within its header; download it again")
    try:
        found = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        tensors = {
            key: msgspec.json.decode(value, type=StoredTensor)
            for key, value in found.items()
            if key != METADATA
        }
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as exc:
        raise _refused(folder, f"{name} is not a safetensors file: {exc}") from exc
    whole = 8 + length + max((one.data_offsets[1] for one in tensors.values()), default=0)
    if size < whole:
        raise _refused(
            folder, f"{name} is cut off: it has {size:,} of {whole:,} bytes; download it again"
        )
    return tensors


def _without_weights(folder: Path) -> str:
    """Say what a folder without weights has instead."""
    try:
        names = sorted(entry.name for entry in os.scandir(folder))
    except OSError as exc:
        return f"the folder cannot be read: {exc.strerror}"
    if "adapter_config.json" in names:
        return "the folder is an adapter (LoRA) and not a model; list it in engine.loras"
    others = [name for name in names if name.endswith(".safetensors")]
    if others:
        return (
            f"the folder has {listed(others)}, but neither {SINGLE} nor {INDEX}; "
            "take the weights in the layout of transformers"
        )
    if gguf := [name for name in names if name.endswith(".gguf")]:
        return (
            f"the weights are GGUF ({listed(gguf)}), which this engine does not read; take the "
            "safetensors weights, or serve it with llama.cpp and add that as a provider"
        )
    if pickles := [name for name in names if name.endswith(PICKLES)]:
        return (
            f"the weights are pickles ({listed(pickles)}), which can contain code; take or "
            "convert them to safetensors"
        )
    return f"the folder has no weights ({SINGLE}, or several files with {INDEX})"


def _refused(folder: Path, problem: str) -> InvalidConfig:
    return InvalidConfig((f"the model at {folder} cannot be loaded: {problem}",))
