"""Read from torch-npu's wheel what the stand-in must know: operators, signatures, rules of dtypes.

The wheel is a zip archive and is only read, never installed: its two lists of native functions name
the ATen operators that the device computes, and its library registers the vendor's own functions.

    python -m tests.local_engine.stand_ins.npu_wheel torch_npu-2.13.0-*.whl

writes `npu_wheel.json`; `make nightly-npu-wheel` downloads the wheel and compares.
"""

import re
import sys
from pathlib import Path
from typing import cast
from zipfile import ZipFile

import msgspec
import torch
import yaml

DATA = Path(__file__).with_name("npu_wheel.json")
LISTS = (
    "torch_npu/csrc/aten/npu_native_functions.yaml",
    "torch_npu/csrc/aten/npu_native_functions_by_codegen.yaml",
)
LIBRARY = "torch_npu/lib/libtorch_npu.so"
DOCUMENTS = "torch_npu/_op_plugin_docs.py"
FUNCTIONS = (
    "npu_add_rms_norm",
    "npu_fused_infer_attention_score",
    "npu_fused_infer_attention_score_v2",
    "npu_grouped_matmul",
    "npu_rms_norm",
    "npu_rotary_mul",
    "npu_scatter_pa_kv_cache",
    "npu_swiglu",
    "npu_top_k_top_p",
    "npu_top_k_top_p_sample",
    *(
        name
        for version in ("", "_v2")
        for name in (
            f"npu_fused_infer_attention_score{version}.out",
            f"_npu_fused_infer_attention_score{version}_get_max_workspace",
        )
    ),
)
"""The vendor's functions that the engine calls or may call."""

DTYPE = r"(?:bfloat16|float\d+|float(?=[、，])|u?int\d+|bool)"
"""One dtype in the documents' lists."""

Entry = str | dict[str, object]


class Wheel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """version: of torch-npu. operators: ATen's, with overload, that have a kernel on the device.

    schemas: of `FUNCTIONS`, as the library registers them, without the name.
    dtypes: the dtypes that the documents give to the arguments of `FUNCTIONS`.
    """

    version: str
    schemas: dict[str, str]
    dtypes: dict[str, dict[str, list[str]]]
    operators: list[str]


def committed() -> Wheel:
    """Return the data in this folder."""
    return msgspec.json.decode(DATA.read_bytes(), type=Wheel)


def read_wheel(path: Path) -> Wheel:
    """Read a wheel of torch-npu. Raises KeyError if a file or function is not in it."""
    with ZipFile(path) as wheel:
        entries = [entry for name in LISTS for entry in _entries(wheel.read(name).decode())]
        library = wheel.read(LIBRARY)
        documents = wheel.read(DOCUMENTS).decode().replace("\r\n", "\n")
    aten = _aten()
    return Wheel(
        version=path.name.split("-")[1],
        schemas={name: _schema(library, name) for name in FUNCTIONS},
        dtypes={name: found for name in FUNCTIONS if (found := _dtypes(documents, name))},
        operators=sorted({name for entry in entries if (name := _name(entry)) in aten}),
    )


def _entries(text: str) -> list[Entry]:
    lists = cast(dict[str, object], yaml.safe_load(text))
    return [
        entry
        for key in ("supported", "symint")
        for entry in cast(list[Entry], lists.get(key) or [])
    ]


def _name(entry: Entry) -> str:
    """Return `add.Tensor` of an entry, which is a name or a signature, with options or without."""
    text = entry if isinstance(entry, str) else cast(str, entry["func"])
    return text.split("(")[0]


def _aten() -> set[str]:
    """Return the operators of the installed torch; the lists name the vendor's, too."""
    schemas = torch._C._jit_get_all_schemas()  # pyright: ignore[reportPrivateUsage, reportUnknownMemberType, reportUnknownVariableType]
    found: set[str] = set()
    for schema in schemas:  # pyright: ignore[reportUnknownVariableType]
        name, overload = str(schema.name), str(schema.overload_name)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        if name.startswith("aten::"):
            found.add(name.removeprefix("aten::") + (f".{overload}" if overload else ""))
    return found


def _schema(library: bytes, name: str) -> str:
    """Return the signature among the strings of the library. Raises KeyError if there is none."""
    found: set[str] = set()
    start = library.find(b"\0" + name.encode() + b"(")
    while start >= 0:
        end = library.index(b"\0", start + 1)
        text = library[start + 1 : end].decode()
        if " -> " in text:
            found.add(text.removeprefix(name))
        start = library.find(b"\0" + name.encode() + b"(", end)
    if len(found) != 1:
        raise KeyError(f"{name}: {len(found)} signatures in the library")
    return found.pop()


def _dtypes(documents: str, name: str) -> dict[str, list[str]]:
    """Return the dtypes that a function's document lists for each tensor that it takes."""
    start = documents.find(f'_add_torch_npu_docstr(\n    "{name}",')
    if start < 0:
        return {}
    document = documents[start : documents.index('"""\n)', start)]
    begin = document.find("参数说明")
    found: dict[str, set[str]] = {}
    argument = ""
    for line in document[begin : document.find("输出说明", begin)].splitlines():
        named = re.match(r"[-\s]*`?([a-zA-Z]\w*)`?\s*[（(:：]", line)
        if named is not None:
            argument = named[1] if "Tensor" in line else ""
        if argument:
            listed = re.search(rf"支持({DTYPE}(?:[、和]{DTYPE})*)", line)
            if listed is not None:
                found.setdefault(argument, set()).update(re.findall(DTYPE, listed[1]))
    return {
        argument: sorted("float32" if kind == "float" else kind for kind in kinds)
        for argument, kinds in found.items()
    }


if __name__ == "__main__":
    data = msgspec.json.format(msgspec.json.encode(read_wheel(Path(sys.argv[1]))), indent=1)
    DATA.write_bytes(data + b"\n")
