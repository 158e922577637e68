"""A kernel that refuses a call is not used again, and torch computes what it refused.

A kernel passes its trials at a few shapes; another shape, a later driver or a full table may still
be too much for it, in the middle of an answer. Each role of `Kernels` has a guard. When its kernel
refuses, the guard logs that once, and torch's operation takes the role over from this very call:
a refused call has computed nothing, so the step goes on and no answer is lost. Exhausted memory and
broken devices are no refusals: they reach the code that repeats steps.
"""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, Protocol, runtime_checkable

from msgspec.structs import replace
from torch import Tensor

from strowger_gateway.local_engine.ops.attention import LayerCaches
from strowger_gateway.local_engine.ops.device_faults import REFUSALS, first_line, meaning
from strowger_gateway.local_engine.ops.experts import GroupedProduct, by_expert
from strowger_gateway.local_engine.ops.kernels import TORCH, Finish, Kernels, NormParams, Rotary

_log: Final = logging.getLogger("strowger.engine")
_captures: Final[list[bool]] = []


@contextmanager
def undecided() -> Generator[None]:
    """Let refusals raise without taking kernels out of use: of a step that is being captured."""
    _captures.append(True)
    try:
        yield
    finally:
        _captures.pop()


class Guard:
    """Whether one role's kernel is in use. off: why it is not any more, else ""."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.off = ""

    def refused(self, error: Exception) -> None:
        """Take the kernel out of use. Raises the error again if it is not a refusal."""
        if _captures or meaning(error) != "refusal":
            raise error
        if not self.off:
            self.off = first_line(error)
            _log.warning(
                "the kernel for %s refuses a call, so torch computes it from now on, which is "
                "slower: %s",
                self.role,
                self.off,
            )


def in_use(guard: Guard | None) -> bool:
    """Whether a kernel is in use; always without a guard, as in a trial."""
    return guard is None or not guard.off


def refused(guard: Guard | None, error: Exception) -> None:
    """Take a kernel out of use. Raises the error again without a guard, or if it is no refusal."""
    if guard is None:
        raise error
    guard.refused(error)


class _GuardedRotary:
    """`Rotary` of a kernel, and of torch from the call on that it refuses."""

    def __init__(self, rotary: Rotary, guard: Guard) -> None:
        self._rotary = rotary
        self._guard = guard
        self._angles: tuple[Tensor, Tensor] | None = None
        self._torch: tuple[Tensor, Tensor] | None = None

    def prepare(self, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        self._angles, self._torch = (cos, sin), None
        return (cos, sin) if self._guard.off else self._rotary.prepare(cos, sin)

    def rotate(self, heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        if not self._guard.off:
            try:
                return self._rotary.rotate(heads, cos, sin)
            except REFUSALS as exc:
                self._guard.refused(exc)
        if self._torch is None:
            assert self._angles is not None
            self._torch = TORCH.rotary.prepare(*self._angles)
        return TORCH.rotary.rotate(heads, *self._torch)


class GuardedFinish:
    """`Finish`, which returns `None` once its kernel has refused."""

    def __init__(self, finish: Finish, guard: Guard) -> None:
        self._finish = finish
        self._guard = guard

    @property
    def off(self) -> bool:
        return bool(self._guard.off)

    def __call__(
        self,
        mixed: Tensor,
        cos: Tensor,
        sin: Tensor,
        norms: tuple[NormParams, NormParams] | None,
        slots: Tensor,
        keys: Tensor,
        values: Tensor,
    ) -> Tensor | None:
        if not self._guard.off:
            try:
                return self._finish(mixed, cos, sin, norms, slots, keys, values)
            except REFUSALS as exc:
                self._guard.refused(exc)
        return None


def _guarded_product(product: GroupedProduct, guard: Guard) -> GroupedProduct:
    def guarded_product(rows: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
        if not guard.off:
            try:
                return product(rows, weights, ends)
            except REFUSALS as exc:
                guard.refused(exc)
        return by_expert(rows, weights, ends)

    return guarded_product


@runtime_checkable
class GuardedCache(Protocol):
    """A cache whose attention is a kernel that may refuse."""

    guard: Guard | None


def guarded(kernels: Kernels) -> Kernels:
    """Return kernels that torch replaces, role by role, when they refuse a call."""
    if kernels.name == TORCH.name:
        return kernels
    norm, add_norm, swiglu = (Guard(role) for role in ("norm", "add and norm", "swiglu"))
    attention = Guard("attention")

    def guarded_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
        if not norm.off:
            try:
                return kernels.norm(x, weight, eps)
            except REFUSALS as exc:
                norm.refused(exc)
        return TORCH.norm(x, weight, eps)

    def guarded_add_norm(
        x: Tensor, branch: Tensor, weight: Tensor, eps: float
    ) -> tuple[Tensor, Tensor]:
        if not add_norm.off:
            try:
                return kernels.add_norm(x, branch, weight, eps)
            except REFUSALS as exc:
                add_norm.refused(exc)
        return TORCH.add_norm(x, branch, weight, eps)

    def guarded_swiglu(gate_up: Tensor) -> Tensor:
        if not swiglu.off:
            try:
                return kernels.swiglu(gate_up)
            except REFUSALS as exc:
                swiglu.refused(exc)
        return TORCH.swiglu(gate_up)

    def cache(slots: int) -> LayerCaches:
        made = kernels.cache(slots)
        if isinstance(made, GuardedCache):
            made.guard = attention
        return made

    finish, product = kernels.finish, kernels.grouped
    return replace(
        kernels,
        norm=guarded_norm if kernels.norm is not TORCH.norm else kernels.norm,
        add_norm=guarded_add_norm if kernels.add_norm is not TORCH.add_norm else kernels.add_norm,
        swiglu=guarded_swiglu if kernels.swiglu is not TORCH.swiglu else kernels.swiglu,
        rotary=kernels.rotary
        if kernels.rotary is TORCH.rotary
        else _GuardedRotary(kernels.rotary, Guard("rotary embedding")),
        cache=cache,
        finish=None if finish is None else GuardedFinish(finish, Guard("finish")),
        grouped=None if product is None else _guarded_product(product, Guard("experts")),
    )
