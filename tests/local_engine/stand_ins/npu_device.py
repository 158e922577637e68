"""A device "npu" for torch without an NPU: its tensors live on the host and obey the NPU's rules.

torch's dispatcher sees a real device, so it decomposes operators and checks devices itself.
Operators that the wheel does not list have no kernel here, as on the device, where they would be
copied to the host and back. A tensor on the CPU among tensors on the NPU is an error, except as
a scalar of the operators that read it on the host. Arithmetic in float64 is an error.

The backend lasts as long as the process; `installed/torch_npu` starts it in an engine's process.
"""

# The torch.library and torch._C parts used here are annotated in part only:
# pyright: reportPrivateUsage=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from functools import cache, partial
from typing import TypeGuard, cast

import torch
from torch import Tensor
from torch._C import DispatchKey
from torch._ops import OpOverload
from torch.library import Library
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from tests.local_engine.stand_ins.npu_graph import Graphs, launch, refuse_in_capture
from tests.local_engine.stand_ins.npu_wheel import committed

NPU = "npu"
SOC = "Ascend910B3"
MEMORY = 1 << 28
"""Bytes that the device says are free."""


def _named(names: str) -> frozenset[str]:
    return frozenset(names.split())


MOVES = _named("""
    _copy_from_and_resize _local_scalar_dense _reshape_alias _to_copy as_strided as_strided_ clone
    contiguous copy_ empty.memory_format empty_like empty_strided is_set_to new_empty_strided
    resize_ set_ set_.source_Storage set_.source_Storage_storage_offset set_.source_Tensor squeeze
    squeeze.dim unfold unsqueeze view
""")
"""Operators that only move data: any dtype, and copies between host and device."""

UPLOADS = _named("_to_copy copy_ _copy_from_and_resize")
SCALARS = _named("""
    add.Tensor add_.Tensor add.out sub.Tensor sub_.Tensor sub.out mul.Tensor mul_.Tensor mul.out
    div.Tensor div_.Tensor div.out div.Tensor_mode div_.Tensor_mode div.out_mode rsub.Tensor
    bitwise_and.Tensor_out bitwise_or.Tensor_out bitwise_xor.Tensor_out eq.Tensor eq.Tensor_out
    ne.Tensor ne.Tensor_out lt.Tensor lt.Tensor_out le.Tensor le.Tensor_out gt.Tensor
    gt.Tensor_out ge.Tensor ge.Tensor_out masked_fill_.Tensor
""")
"""Operators that read a 0-dim tensor of the host as a number (op-plugin's IsCPUScalar)."""

_hosted: dict[int, tuple[StorageWeakRef, torch.UntypedStorage]] = {}
_library: list[Library] = []
launched: dict[str, int] = {}
"""How often the device ran each operator."""

UPLOAD = "host to device"
"""Counted in `launched` as well: copies of the host's tensors, whatever operator makes them."""

refused: set[str] = set()
"""Operators that the device refuses now, for tests."""

_instead: dict[str, Callable[..., object]] = {}
_noise = torch.Generator()
"""The device's own; the host's generator stays as it is."""


class Module(Graphs):
    """torch.npu, as far as the engine uses it."""

    def is_initialized(self) -> bool:
        return True

    def is_available(self) -> bool:
        return True

    def current_device(self) -> int:
        return 0

    def device_count(self) -> int:
        return 1

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None:
        _noise.manual_seed(seed)

    def synchronize(self, device: object = None) -> None:
        self.current_stream().synchronize()

    def get_device_name(self, device: object = None) -> str:
        return SOC

    def mem_get_info(self, device: object = None) -> tuple[int, int]:
        return MEMORY, 2 * MEMORY

    def empty_cache(self) -> None:
        """The stand-in caches nothing."""


@contextmanager
def computing(name: str, function: Callable[..., object]) -> Generator[None]:
    """Let the device compute an operator, on tensors of the host, with `function`."""
    _instead[name] = function
    try:
        yield
    finally:
        del _instead[name]


@cache
def start() -> None:
    """Register the device in this process; later calls do nothing."""
    _setup_privateuseone_for_python_backend(NPU, Module())
    library = Library("aten", "IMPL", "PrivateUse1")
    for name in committed().operators:
        function, _, overload = name.partition(".")
        packet = getattr(torch.ops.aten, function, None)
        op = getattr(packet, overload or "default", None)
        if isinstance(op, OpOverload):
            library.impl(name, _kernel(name, op), "PrivateUse1")
    fallback = Library("_", "IMPL")
    fallback.fallback(_missing, "PrivateUse1")
    _library.extend((library, fallback))
    _instead["histc"] = _counts


def on_host(tensor: Tensor) -> Tensor:
    """Return a view of an NPU's tensor as a tensor of the CPU, which shares its memory."""
    storage = _hosted[tensor.untyped_storage()._cdata][1]
    host = torch.empty(0, dtype=tensor.dtype)
    return host.set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())


def on_npu(host: Tensor) -> Tensor:
    """Return a tensor of the NPU that shares the memory of a tensor of the CPU."""
    _sweep()
    kept = host.untyped_storage()
    size = max(kept.nbytes(), 1)
    storage = torch._C._construct_storage_from_data_pointer(
        kept.data_ptr(), torch.device(NPU, 0), size
    )
    _hosted[storage._cdata] = (StorageWeakRef(storage), kept)
    empty = torch._C._acc.create_empty_tensor([0], host.dtype)
    return _host_kernel(torch.ops.aten.set_.source_Storage_storage_offset)(
        empty, storage, host.storage_offset(), host.shape, host.stride()
    )


def _sweep() -> None:
    """Let go of the memory of tensors that no longer exist."""
    if len(_hosted) % 512 == 511:
        for key in [key for key, (alive, _) in _hosted.items() if alive.expired()]:
            del _hosted[key]


def _host_kernel(op: OpOverload) -> Callable[..., Tensor]:
    """The CPU's kernel of an operator that only changes how memory is read."""
    return partial(op._op_dk, DispatchKey.CPU)


def _counts(values: Tensor, *args: int) -> Tensor:
    """histc of integers, which the host does not have."""
    return values.double().histc(*args).to(values.dtype)


def _missing(op: OpOverload, *args: object, **keywords: object) -> object:
    raise RuntimeError(f"CPU fallback: the wheel of torch-npu lists no kernel for {op}")


def _kernel(name: str, op: OpOverload) -> Callable[..., object]:
    if name in (
        "as_strided",
        "view",
        "_reshape_alias",
        "squeeze",
        "squeeze.dim",
        "unsqueeze",
        "unfold",
    ):
        return partial(_viewed, op)
    if name in ("resize_", "resize_as_"):
        return _resized
    if name.startswith("set_") or name in ("view_as_complex", "view_as_real"):
        return _host_kernel(op)
    return partial(_computed, name, op)


def _viewed(op: OpOverload, tensor: Tensor, *args: object, **keywords: object) -> Tensor:
    return _alias(tensor, op(on_host(tensor), *args, **keywords))


def _alias(tensor: Tensor, host: Tensor) -> Tensor:
    """Return the part of the NPU's `tensor` that `host` shows; both share memory."""
    if host.dtype != tensor.dtype:
        raise AssertionError("the stand-in does not know how to change a view's dtype")
    return _host_kernel(torch.ops.aten.as_strided.default)(
        tensor, host.shape, host.stride(), host.storage_offset()
    )


def _resized(tensor: Tensor, size: Iterable[int], *_: object, **__: object) -> Tensor:
    """Give an empty tensor memory; nothing else is resized by the engine."""
    shape = list(size)
    if list(tensor.shape) == shape:
        return tensor
    if tensor.numel() > 0:
        raise AssertionError("the stand-in resizes empty tensors only")
    fresh = on_npu(torch.empty(shape, dtype=tensor.dtype))
    return _host_kernel(torch.ops.aten.set_.source_Storage_storage_offset)(
        tensor, fresh.untyped_storage(), 0, fresh.shape, fresh.stride()
    )


def _computed(name: str, op: OpOverload, *args: object, **keywords: object) -> object:
    """Compute on the host what the device would, by its rules."""
    launched[name] = launched.get(name, 0) + 1
    if name in refused:
        raise RuntimeError(f"aclnnStatus 561103: {name}")
    device = cast(torch.device | str | None, keywords.get("device"))
    to_npu = device is None or torch.device(device).type == NPU
    given: list[tuple[Tensor, Tensor]] = []

    def host(one: object) -> object:
        if not isinstance(one, Tensor):
            return one
        if one.device.type != NPU:
            if name not in MOVES and not (name in SCALARS and one.dim() == 0):
                raise RuntimeError(
                    "Expected all tensors to be on the same device, but found at least two"
                    f" devices, npu:0 and {one.device}! (in {name})"
                )
            return one
        if one.dtype == torch.float64 and name not in MOVES:
            raise RuntimeError(f"{name}: the device does not compute in float64")
        given.append((one, on_host(one)))
        return given[-1][1]

    if name in UPLOADS and to_npu and any(map(_of_host, args)):
        launched[UPLOAD] = launched.get(UPLOAD, 0) + 1
        refuse_in_capture(name)
    if not to_npu or name == "_local_scalar_dense":
        refuse_in_capture(name)
    if "device" in keywords:
        keywords["device"] = torch.device("cpu")
    keywords.pop("pin_memory", None)
    if any(argument.name == "generator" for argument in op._schema.arguments):
        keywords["generator"] = keywords.get("generator") or _noise
    run = partial(_instead.get(name, op), *tree_map(host, args), **tree_map(host, keywords))
    if "empty" in name:
        return tree_map(on_npu, run())
    mutates = op._schema.is_mutable
    result, made = launch(name, run, given, mutates=mutates)

    def back(one: object) -> object:
        if not isinstance(one, Tensor):
            return one
        for tensor, twin in given:
            if one is twin:
                return tensor if one.shape == tensor.shape else _grown(tensor, one)
        if not to_npu:
            return one
        if one.dtype == torch.float64 and name not in MOVES:
            raise RuntimeError(f"{name}: the device does not compute in float64")
        storage = one.untyped_storage()._cdata
        for tensor, twin in given:
            if twin.untyped_storage()._cdata == storage:
                return _alias(tensor, one)
        return on_npu(one)

    mapped = tree_map(back, result)
    made(on_host(one) for one in tree_leaves(mapped) if _of_npu(one))
    return mapped


def _of_npu(one: object) -> TypeGuard[Tensor]:
    return isinstance(one, Tensor) and one.device.type == NPU


def _of_host(one: object) -> bool:
    return isinstance(one, Tensor) and one.device.type != NPU


def _grown(tensor: Tensor, host: Tensor) -> Tensor:
    """An operator gave the empty tensor for its result a size."""
    grown = _resized(tensor, host.shape)
    on_host(grown).copy_(host)
    return grown
