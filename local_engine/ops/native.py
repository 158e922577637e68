"""Our own CPU kernels, compiled on the machine that runs them (native.cpp).

Between the matrix products, a decoding step of torch is many small operations: a normalisation is
seven, and attention for one query reads each key through a matrix product of one row. Here each is
one call. The compiled library is cached for the next start; without a compiler, torch's kernels are
used.
"""

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from array import array
from collections.abc import Sequence
from pathlib import Path

import torch
from msgspec import Struct
from torch import Tensor

from strowger_gateway.local_engine.ops.attention import AttentionParams, Plan, extend
from strowger_gateway.local_engine.ops.contiguous_cache import KeyValueCache
from strowger_gateway.local_engine.ops.kernels import PAGE, Kernels, swiglu
from strowger_gateway.local_engine.sampling.top_candidates import BLOCK, Finder

SOURCE = Path(__file__).with_name("native.cpp")
FLAGS = ("-std=c++17", "-O3", "-march=native", "-ffast-math", "-fPIC", "-fopenmp")
COMPILERS = ("g++", "c++")
COMPILE_S = 120
FEW = 16
"""Up to this many tokens of one sequence attend one by one; more are one matrix product."""


class NoCompiler(RuntimeError):
    """The library cannot be built here; the message gives the reason."""


class NativeLibrary(Struct, frozen=True, kw_only=True, eq=False):
    """path: for reports. The functions are native.cpp's."""

    path: Path
    functions: ctypes.CDLL


def library(folder: Path | None = None) -> NativeLibrary:
    """Compile native.cpp (about two seconds) unless `folder` already has the library.

    folder: by default `$XDG_CACHE_HOME/strowger`. Raises NoCompiler.
    """
    compiler = _compiler()
    folder = _cache() if folder is None else folder
    path = folder / f"native-{_fingerprint(compiler)}.so"
    try:
        if not path.exists():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _compile(compiler, path)
        return NativeLibrary(path=path, functions=_declared(ctypes.CDLL(str(path))))
    except (OSError, subprocess.SubprocessError, AttributeError) as exc:
        raise NoCompiler(f"{compiler} built an unusable library: {exc}") from exc


class NativeCache:
    """A cache in torch's layout; our kernel reads it if a sequence has few tokens."""

    def __init__(self, functions: ctypes.CDLL, slots: int) -> None:
        self._functions = functions
        self._slots = slots
        self._plain = KeyValueCache(slots)
        self._plan: Plan | None = None
        self._rows = self._tables = array("q")
        self._spans: list[tuple[int, int]] = []
        self.of = self._plain.of
        self.copy = self._plain.copy
        self.write = self._plain.write

    @property
    def layers(self) -> int:
        return self._plain.layers

    @property
    def slot_bytes(self) -> int:
        return self._plain.slot_bytes

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        layer: int,
        plan: Plan,
        params: AttentionParams,
    ) -> Tensor:
        """See `LayerCaches`."""
        usual = key.dtype == torch.float32 and key.shape == value.shape and key.shape[2] % 8 == 0
        if not (params.plain and usual) or params.chunked(plan.shares):
            return self._plain.attend(query, key, value, layer, plan, params)
        query, key, value = _regular(query), _regular(key), _regular(value)
        keys, values = self.of(layer, key, value)
        count, heads, width = query.shape
        self._functions.strowger_store(
            key.data_ptr(),
            value.data_ptr(),
            keys.data_ptr(),
            values.data_ptr(),
            plan.slots.data_ptr(),
            count,
            key.shape[1],
            width,
            key.stride(0),
            value.stride(0),
            self._slots,
        )
        if self._plan is not plan:
            self._lay(plan)
        out = query.new_empty(count, heads, width)
        if self._rows:
            self._functions.strowger_attend(
                query.data_ptr(),
                keys.data_ptr(),
                values.data_ptr(),
                out.data_ptr(),
                self._tables.buffer_info()[0],
                self._rows.buffer_info()[0],
                len(self._rows) // 3,
                key.shape[1],
                heads // key.shape[1],
                width,
                query.stride(0),
                self._slots,
                PAGE,
                params.window,
                params.scale,
                torch.get_num_threads(),
            )
        for row, span in self._spans:
            part = extend(query, keys, values, plan.spans[span], plan, params)
            out[row : row + part.shape[0]] = part
        return out

    def _lay(self, plan: Plan) -> None:
        """Compute, once per step, the rows for our kernel and the pages of their sequences."""
        rows, tables = array("q"), array("i")
        spans = {span.row: place for place, span in enumerate(plan.spans)}
        self._spans = []
        row = 0
        for share in plan.shares:
            if share.count > FEW:
                self._spans.append((row, spans[row]))
            else:
                before = share.keys - share.count
                for place in range(share.count):
                    rows.extend((row + place, len(tables), before + place + 1))
                tables.extend(share.blocks)
            row += share.count
        self._plan, self._rows, self._tables = plan, rows, tables


class NativeRotary:
    """See `kernels.Rotary`."""

    def __init__(self, functions: ctypes.CDLL) -> None:
        self._functions = functions

    def prepare(self, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        half = cos.shape[-1] // 2
        return cos.contiguous(), torch.cat((-sin[:, :half], sin[:, half:]), dim=-1)

    def rotate(self, heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        heads = _regular(heads)
        rows, count, width = heads.shape
        out = heads.new_empty(rows, count, width)
        self._functions.strowger_rotate(
            heads.data_ptr(),
            cos.data_ptr(),
            sin.data_ptr(),
            out.data_ptr(),
            rows,
            count,
            width,
            heads.stride(0),
        )
        return out


def native_kernels(found: NativeLibrary) -> Kernels:
    """Return the library's kernels, for float32 on a CPU."""
    functions = found.functions

    def norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
        width = x.shape[-1]
        if not x.is_contiguous():
            x = x.contiguous()
        out = torch.empty_like(x)
        functions.strowger_norm(
            x.data_ptr(), weight.data_ptr(), out.data_ptr(), x.numel() // width, width, width, eps
        )
        return out

    def add_norm(x: Tensor, branch: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        rows, width = x.shape
        out = torch.empty_like(x)
        functions.strowger_add_norm(
            x.data_ptr(),
            branch.contiguous().data_ptr(),
            weight.data_ptr(),
            out.data_ptr(),
            rows,
            width,
            eps,
        )
        return out, x

    def gated(gate_up: Tensor) -> Tensor:
        if gate_up.dim() != 2 or not gate_up.is_contiguous():
            return swiglu(gate_up)
        rows, width = gate_up.shape[0], gate_up.shape[1] // 2
        out = gate_up.new_empty(rows, width)
        functions.strowger_swiglu(
            gate_up.data_ptr(), out.data_ptr(), rows, width, torch.get_num_threads()
        )
        return out

    return Kernels(
        name="native",
        page=PAGE,
        norm=norm,
        add_norm=add_norm,
        rotary=NativeRotary(functions),
        swiglu=gated,
        cache=lambda slots: NativeCache(functions, slots),
        best=_finder(functions),
    )


def _finder(functions: ctypes.CDLL) -> Finder:
    """See `candidates.Finder`."""

    def best(logits: Tensor, peaks: Tensor, count: int, rows: Tensor | None) -> Tensor:
        given = logits.shape[0] if rows is None else rows.shape[0]
        ids = torch.empty(given, count, dtype=torch.int64)
        functions.strowger_top(
            logits.data_ptr(),
            peaks.data_ptr(),
            None if rows is None else rows.data_ptr(),
            ids.data_ptr(),
            given,
            logits.shape[1],
            peaks.shape[1],
            BLOCK,
            count,
        )
        return ids

    return best


def _regular(heads: Tensor) -> Tensor:
    """Return [T, N, D] with the heads of a row contiguous; rows may have gaps."""
    apart = heads.stride(2) != 1 or heads.stride(1) != heads.shape[2]
    return heads.contiguous() if apart else heads


def _compiler() -> str:
    for name in (os.environ.get("CXX", ""), *COMPILERS):
        if name and (path := shutil.which(name)):
            return path
    raise NoCompiler(f"no C++ compiler ({', '.join(COMPILERS)}) is installed")


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "strowger"


def _fingerprint(compiler: str) -> str:
    """Hash everything that the library depends on: source, flags, compiler, CPU instructions."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    features = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    version = str(Path(compiler).resolve())
    known = "\n".join((*FLAGS, version, features, torch.__version__)).encode()
    return hashlib.blake2b(SOURCE.read_bytes() + known, digest_size=12).hexdigest()


def _compile(compiler: str, path: Path) -> None:
    """Compile without linking a thread library: torch has already loaded its symbols."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made, joined = str(Path(folder) / "native.o"), str(Path(folder) / "native.so")
        _run(compiler, *FLAGS, "-c", str(SOURCE), "-o", made)
        _run(compiler, "-shared", made, "-o", joined, "-lm")
        os.replace(joined, path)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_S, check=False)
    if done.returncode:
        raise NoCompiler(f"{command[0]} failed: {done.stderr.strip()[-500:]}")


POINTER, LONG, FLOAT, INT = ctypes.c_void_p, ctypes.c_long, ctypes.c_float, ctypes.c_int
SIGNATURES: dict[str, Sequence[type]] = {
    "strowger_norm": (*[POINTER] * 3, *[LONG] * 3, FLOAT),
    "strowger_add_norm": (*[POINTER] * 4, *[LONG] * 2, FLOAT),
    "strowger_rotate": (*[POINTER] * 4, *[LONG] * 4),
    "strowger_swiglu": (*[POINTER] * 2, *[LONG] * 2, INT),
    "strowger_top": (*[POINTER] * 4, *[LONG] * 5),
    "strowger_store": (*[POINTER] * 5, *[LONG] * 6),
    "strowger_attend": (*[POINTER] * 6, *[LONG] * 8, FLOAT, INT),
}


def _declared(functions: ctypes.CDLL) -> ctypes.CDLL:
    for name, arguments in SIGNATURES.items():
        function = getattr(functions, name)
        function.argtypes, function.restype = arguments, None
    return functions
