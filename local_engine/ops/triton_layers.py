"""A decoder layer's small operations in Triton: one program where torch runs several.

A captured step of a small model at batch 1 is bound by the number of programs. Letters as in
kernels.py and attention.py.
"""

from collections.abc import Callable, Iterable
from functools import partial

import torch
from msgspec.structs import replace
from torch import Tensor

from strowger_gateway.local_engine.ops.kernels import TORCH, Kernels, NormParams
from strowger_gateway.local_engine.ops.self_test import SMALL, Offer, Shape, TrialSizes, noise
from strowger_gateway.local_engine.ops.triton_ops import Programs, load_programs, power_of_two

GATE_BLOCK = 1024


class TritonLayers:
    """Implements `Kernels.norm`, `add_norm`, `swiglu` and `finish`."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs

    def norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        """x: [T, E] or [T, N, D], contiguous in the last dimension."""
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        self._norm(x, None, weight, out, out, eps)
        return out

    def add_norm(
        self, x: Tensor, branch: Tensor, weight: Tensor, eps: float
    ) -> tuple[Tensor, Tensor]:
        """Overwrites `x`."""
        out = torch.empty_like(x)
        self._norm(x, branch.contiguous(), weight, x, out, eps)
        return out, x

    def swiglu(self, gate_up: Tensor) -> Tensor:
        rows = gate_up.reshape(-1, gate_up.shape[-1]).contiguous()
        width = rows.shape[1] // 2
        out = torch.empty(*gate_up.shape[:-1], width, dtype=rows.dtype, device=rows.device)
        self._programs.gate[len(rows), -(-width // GATE_BLOCK)](
            rows, out, width, block=GATE_BLOCK, num_warps=4
        )
        return out

    def finish(
        self,
        mixed: Tensor,
        cos: Tensor,
        sin: Tensor,
        norms: tuple[NormParams, NormParams] | None,
        slots: Tensor,
        keys: Tensor,
        values: Tensor,
    ) -> Tensor:
        tokens, total, width = mixed.shape
        kv_heads = keys.shape[1]
        heads = total - 2 * kv_heads
        query = torch.empty(tokens, heads, width, dtype=mixed.dtype, device=mixed.device)
        query_norm, key_norm = norms or (NormParams(weight=mixed, eps=0.0),) * 2
        self._programs.finish_heads[tokens, total](
            mixed,
            cos,
            sin,
            query_norm.weight,
            key_norm.weight,
            slots,
            query,
            keys,
            values,
            query_norm.eps,
            key_norm.eps,
            mixed.stride(0),
            heads=heads,
            kv_heads=kv_heads,
            width=width,
            half_padded=power_of_two(width // 2),
            normed=norms is not None,
            num_warps=1,
        )
        return query

    def _norm(
        self,
        x: Tensor,
        branch: Tensor | None,
        weight: Tensor,
        total: Tensor,
        out: Tensor,
        eps: float,
    ) -> None:
        width = x.shape[-1]
        inner = x.shape[1] if x.dim() == 3 else 1
        self._programs.add_and_norm[(x.shape[0] * inner,)](
            x,
            x if branch is None else branch,
            weight,
            total,
            out,
            eps,
            x.stride(0),
            x.stride(1) if x.dim() == 3 else 0,
            inner=inner,
            width=width,
            width_padded=power_of_two(width),
            added=branch is not None,
            num_warps=1 if width <= 512 else 4 if width <= 4096 else 8,
        )


def layer_offers(
    shape: Shape,
    dtype: torch.dtype,
    device: str,
    load: Callable[[], Programs] = load_programs,
    sizes: TrialSizes = SMALL,
) -> tuple[Offer, ...]:
    def x(*sizes: int, seed: int = 0) -> Tensor:
        return noise(*sizes, like=dtype, device=device, seed=seed)

    def made() -> TritonLayers:
        return TritonLayers(load())

    def norm() -> Iterable[tuple[Tensor, Tensor]]:
        for rows in sizes.rows:
            heads = x(rows, shape.heads + 2 * shape.kv_heads, shape.width)[:, : shape.heads]
            for given in (x(rows, shape.hidden), heads):
                weight = x(given.shape[-1], seed=1)
                yield made().norm(given, weight, 1e-6), TORCH.norm(given, weight, 1e-6)

    def add_norm() -> Iterable[tuple[Tensor, Tensor]]:
        weight = x(shape.hidden, seed=2)
        for rows in sizes.rows:
            given, branch = x(rows, shape.hidden), x(rows, shape.hidden, seed=1)
            results = [
                one(given.clone(), branch, weight, 1e-6)
                for one in (made().add_norm, TORCH.add_norm)
            ]
            yield from zip(*results, strict=True)

    def swiglu() -> Iterable[tuple[Tensor, Tensor]]:
        for rows in sizes.rows:
            gate_up = x(rows, 2 * shape.hidden)
            yield made().swiglu(gate_up), TORCH.swiglu(gate_up.clone())

    def finish() -> Iterable[tuple[Tensor, Tensor]]:
        for normed in (False, True):
            yield from finish_pairs(made(), shape, dtype, device, normed=normed)

    def offer(
        kernel: str,
        role: str,
        check: Callable[[], Iterable[tuple[Tensor, Tensor]]],
        install: Callable[[Kernels], Kernels],
    ) -> Offer:
        return Offer(
            kernel=f"{kernel} in Triton",
            role=role,
            check=partial(refusing, check),
            install=install,
        )

    return (
        offer("norm", "norm", norm, lambda k: replace(k, norm=made().norm)),
        offer("add_norm", "add and norm", add_norm, lambda k: replace(k, add_norm=made().add_norm)),
        offer("swiglu", "swiglu", swiglu, lambda k: replace(k, swiglu=made().swiglu)),
        offer("finish", "heads", finish, lambda k: replace(k, finish=made().finish)),
    )


def finish_pairs(
    layers: TritonLayers, shape: Shape, dtype: torch.dtype, device: str, *, normed: bool
) -> Iterable[tuple[Tensor, Tensor]]:
    """Yield queries, keys and values of `finish`, and torch's."""
    heads, kv_heads, width = shape.heads, shape.kv_heads, shape.width
    mixed = noise(5, heads + 2 * kv_heads, width, like=dtype, device=device)
    angles = torch.arange(5.0).outer(torch.linspace(1, 0.01, width // 2))
    angles = torch.cat((angles, angles), dim=-1).to(device)
    cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)
    slots = torch.tensor([7, 0, 3, 9, 4], device=device)
    keys, values = (torch.zeros(12, kv_heads, width, dtype=dtype, device=device) for _ in range(2))
    norms = None
    rotated = mixed[:, : heads + kv_heads]
    if normed:
        norms = (
            NormParams(weight=noise(width, like=dtype, device=device, seed=1), eps=1e-6),
            NormParams(weight=noise(width, like=dtype, device=device, seed=2), eps=1e-5),
        )
        parts = rotated[:, :heads], rotated[:, heads:]
        rotated = torch.cat(
            [TORCH.norm(x, one.weight, one.eps) for x, one in zip(parts, norms, strict=True)], dim=1
        )
    rotated = TORCH.rotary.rotate(rotated, *TORCH.rotary.prepare(cos, sin))
    yield layers.finish(mixed, cos, sin, norms, slots, keys, values), rotated[:, :heads]
    yield keys[slots], rotated[:, heads:]
    yield values[slots], mixed[:, heads + kv_heads :]
    others = [1, 2, 5, 6, 8, 10, 11]
    yield keys[others], torch.zeros_like(keys[others])
    yield values[others], torch.zeros_like(values[others])


def refusing(
    check: Callable[[], Iterable[tuple[Tensor, Tensor]]],
) -> Iterable[tuple[Tensor, Tensor]]:
    """Report any failure as a refusal: a compiler's exceptions have types of its own."""
    try:
        yield from check()
    except Exception as exc:
        raise RuntimeError(f"{type(exc).__name__}: {exc}") from exc
