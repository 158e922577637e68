"""Compile this machine's CPU kernels, select them or torch's, and report the choice.

They are first compared with torch's: a library that computes other numbers costs speed, never a
token.
"""

import time
from collections.abc import Callable, Iterable
from itertools import groupby

import torch
from torch import Tensor

from strowger_gateway.local_engine.config import CompileMode
from strowger_gateway.local_engine.ops.attention import (
    AttentionParams,
    LayerCaches,
    Plan,
    Share,
    Span,
)
from strowger_gateway.local_engine.ops.kernels import PAGE, TORCH, Kernels
from strowger_gateway.local_engine.ops.native import NoCompiler, library, native_kernels
from strowger_gateway.local_engine.ops.trial_log import trying
from strowger_gateway.local_engine.sampling.top_candidates import BLOCK, block_maxima
from strowger_gateway.schemas.errors import InvalidConfig

CLOSE = 1e-4


def cpu_kernels(
    mode: CompileMode, device: str, dtype: torch.dtype, report: Callable[[str], None]
) -> Kernels:
    """Return native.cpp's kernels on a CPU with a compiler, else torch's.

    mode: "auto" falls back to torch's, "on" raises InvalidConfig instead.
    report: called with a line before compiling, and with the result.
    """
    if mode == "off":
        return TORCH
    problem = _unsuited(device, dtype)
    if not problem:
        report("compiling kernels for this CPU (skipped if cached by an earlier start)")
        begin = time.monotonic()
        try:
            kernels = native_kernels(library())
        except NoCompiler as exc:
            problem = str(exc)
        else:
            if problem := _difference(kernels):
                report(f"compiled kernels are not used: {problem}")
            else:
                report(f"compiled kernels ready after {time.monotonic() - begin:.1f} s")
                return kernels
    if mode == "on":
        raise InvalidConfig((f"engine.compile: on, but {problem}; set it to auto or off",))
    if device == "cpu":
        report(f"using torch's kernels: {problem}")
    return TORCH


def _unsuited(device: str, dtype: torch.dtype) -> str:
    if device != "cpu":
        return f"kernels are compiled only for CPUs, and the device is {device}"
    if dtype != torch.float32:
        return f"compiled kernels compute in float32, and dtype is {dtype}"
    return ""


def _difference(kernels: Kernels) -> str:
    """Return "" if every operation matches torch's except for rounding, else the difference."""
    for name, named in groupby(_pairs(kernels), key=lambda pair: pair[0]):
        with trying(name, "compiled for this CPU") as trial:
            for mine, theirs in trial.seen((mine, theirs) for _, mine, theirs in named):
                if not torch.allclose(mine, theirs, rtol=CLOSE, atol=CLOSE):
                    trial.problem = f"{name} returns other numbers than torch"
                    return trial.problem
    return ""


def _pairs(kernels: Kernels) -> Iterable[tuple[str, Tensor, Tensor]]:
    source = torch.Generator().manual_seed(0)

    def noise(*shape: int) -> Tensor:
        return torch.randn(shape, generator=source)

    x, branch, weight = noise(5, 48), noise(5, 48), noise(48)
    heads, cos, sin = noise(5, 6, 16), noise(5, 16), noise(5, 16)
    yield "norm", kernels.norm(x, weight, 1e-6), TORCH.norm(x, weight, 1e-6)
    mine = kernels.add_norm(x.clone(), branch, weight, 1e-6)
    theirs = TORCH.add_norm(x.clone(), branch, weight, 1e-6)
    yield "add_norm", mine[0], theirs[0]
    yield "add_norm", mine[1], theirs[1]
    rotated = [
        one.rotary.rotate(heads[:, :5], *one.rotary.prepare(cos, sin)) for one in (kernels, TORCH)
    ]
    yield "rotary", rotated[0], rotated[1]
    yield "swiglu", kernels.swiglu(x), TORCH.swiglu(x)
    if kernels.best is not None:
        logits = noise(3, 9 * BLOCK + 5).round(decimals=1)
        mine = kernels.best(logits, block_maxima(logits), 7, None)
        yield "best", mine.float(), logits.sort(descending=True, stable=True)[1][:, :7].float()
    caches = [one.cache(4 * PAGE) for one in (kernels, TORCH)]
    for window in (0, 7):
        for start, count in ((0, PAGE + 9), (PAGE + 9, 1), (PAGE + 10, 3)):
            new = noise(count, 10, 16)
            attended = [_attend(cache, new, start, count, window) for cache in caches]
            yield "attention", attended[0], attended[1]


def _attend(cache: LayerCaches, new: Tensor, start: int, count: int, window: int) -> Tensor:
    """Attend from token `start` of a sequence on the third and the first page; 6 heads over 2."""
    places = [p + 2 * PAGE if p < PAGE else p - PAGE for p in range(start, start + count)]
    keys = start + count
    runs = ((2 * PAGE, min(keys, PAGE)), (0, keys - PAGE))
    plan = Plan(
        cache=cache,
        slots=torch.tensor(places),
        groups=(),
        spans=(Span(row=0, count=count, runs=runs),),
        shares=(Share(count=count, keys=keys, blocks=(2, 0)),),
        masks={},
        layer_params={},
    )
    params = AttentionParams(scale=0.25, window=window, softcap=None, sinks=None)
    query, key, value = new[:, :6], new[:, 6:8], new[:, 8:]
    return cache.attend(query, key, value, window, plan, params)
