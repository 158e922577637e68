"""Read which weights a folder has, from the headers of its safetensors files; without torch.

https://huggingface.co/docs/safetensors/index#format: eight bytes with the header's length, little
endian, the header in JSON, then the numbers.
"""

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import Struct

from strowger_gateway.schemas.errors import InvalidConfig

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
METADATA = "__metadata__"
LONGEST_HEADER = 100_000_000
"""Bytes; the safetensors library has the same limit."""

LONGEST_JSON = 64 << 20
"""Bytes of a model's JSON files; the index of a model with 100,000 tensors has 10 MB."""

LFS = b"version https://git-lfs"
"""The beginning of the small file that stands for a large one in a clone without Git LFS."""

PICKLES = (".bin", ".pt", ".pth", ".ckpt")

COMPARED = 256
"""Bytes at the beginning of a tensor, which two sets of weights share only if they are equal."""

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
        found = _header(folder, SINGLE)
        if (folder / INDEX).exists():
            _refuse_others(folder, found)
        return found
    if not (folder / INDEX).exists():
        raise _refused(folder, _without_weights(folder))
    return {name: tensor for of in _shards(folder).values() for name, tensor in of.items()}


def _shards(folder: Path) -> dict[str, dict[str, StoredTensor]]:
    """Return the tensors of each file that the index names. Raises InvalidConfig."""
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
    files = {name: _header(folder, name) for name in names}
    found = {tensor for of in files.values() for tensor in of}
    if lacking := [tensor for tensor in shards if tensor not in found]:
        raise _refused(
            folder,
            f"{INDEX} names weights that the files lack: {listed(lacking)}; download it again",
        )
    return files


def _refuse_others(folder: Path, found: dict[str, StoredTensor]) -> None:
    """Refuse a folder whose index names other weights than the single file has.

    transformers takes the single file, other engines the index. An index without its files, left
    by a download of one set, decides nothing. The first bytes of each tensor are compared.
    """
    try:
        shards = _shards(folder)
    except InvalidConfig:
        return
    others = {tensor: name for name, of in shards.items() for tensor in of}
    equal = others.keys() == found.keys() and all(
        (one := shards[others[name]][name]).shape == tensor.shape and one.dtype == tensor.dtype
        for name, tensor in found.items()
    )
    if equal:
        first = _beginnings(folder, SINGLE, found)
        for name, of in shards.items():
            equal = equal and all(
                start == first[key] for key, start in _beginnings(folder, name, of).items()
            )
    if not equal:
        raise _refused(
            folder,
            f"it has two sets of weights that differ, {SINGLE} and the {len(shards)} files of "
            f"{INDEX}; remove the one that is not the model's",
        )


def _beginnings(folder: Path, name: str, tensors: dict[str, StoredTensor]) -> dict[str, bytes]:
    """Return the first COMPARED bytes of each of a file's tensors."""
    with (folder / name).open("rb") as file:
        start = 8 + _length(file.read(8), "little")
        found: dict[str, bytes] = {}
        for key, tensor in tensors.items():
            first, last = tensor.data_offsets
            file.seek(start + first)
            found[key] = file.read(min(COMPARED, last - first))
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
