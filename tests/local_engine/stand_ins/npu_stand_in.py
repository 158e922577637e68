"""A stand-in for the module torch_npu: the same functions in plain torch, equally strict.

torch's parser binds every call to the signature that the wheel registers, and arguments that the
documents rule out raise RuntimeError, as on the device. Tensors are on the CPU, or all on the
stand-in's device (`npu_device`).
Documents: https://gitcode.com/Ascend/op-plugin (torch_npu-*.md) and the aclnn pages they name.
"""

# torch._C's schema classes are annotated in part only:
# pyright: reportUnknownMemberType=false, reportPrivateUsage=false

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Literal, cast

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from tests.local_engine.stand_ins.npu_attention import (
    fused_attention,
    fused_attention_v2,
    into,
    workspace,
)
from tests.local_engine.stand_ins.npu_device import NPU, on_host, on_npu
from tests.local_engine.stand_ins.npu_graph import launch
from tests.local_engine.stand_ins.npu_refusals import HALVES, Value, refuse_unless
from tests.local_engine.stand_ins.npu_sample import sample_v1, sample_v2, top_k_top_p
from tests.local_engine.stand_ins.npu_wheel import committed

FLOATS = (*HALVES, torch.float32)
WHEEL = committed()
SCHEMAS = WHEEL.schemas
WRITERS = {name for name, schema in SCHEMAS.items() if "!)" in schema or name.endswith(".out")}
"""Functions that write into their arguments; the others have results of their own."""

OLD_NAMES = {"input": "self"}
"""Arguments that the documents call as earlier versions did."""

Function = Callable[[dict[str, Value]], object]


def torch_npu(
    *,
    without: tuple[str, ...] = (),
    sample: Literal["V1", "V2"] = "V2",
    old_cann: bool = False,
) -> "StandIn":
    """without: functions that this version lacks. sample: of the sampling operator. old_cann: the
    attention obeys the wheel's documents to the letter, which newer CANN and op-plugin relax.
    """
    found = {
        name: function
        for name, function in FUNCTIONS.items()
        if name.partition(".")[0] not in without
    }
    if old_cann:
        attention = (name for name in found if "attention" in name)
        found.update({name: _as_documented(found[name]) for name in [*attention]})
    if "npu_top_k_top_p_sample" not in without and sample == "V1":
        found["npu_top_k_top_p_sample"] = sample_v1
    return StandIn(found)


def _as_documented(attention: Function) -> Function:
    """TND excludes page tables: the documents of 2.13.0, of both versions of the attention."""

    def refusing(given: dict[str, Value]) -> object:
        packed = given["input_layout"] == "TND"
        refuse_unless(not packed or given["block_table"] is None, "TND takes no page attention")
        return attention(given)

    return refusing


class StandIn(ModuleType):
    """calls: how often each function was called."""

    def __init__(self, functions: dict[str, Function]) -> None:
        super().__init__("torch_npu")
        self.calls: dict[str, int] = dict.fromkeys(functions, 0)
        for name, function in functions.items():
            base, _, overload = name.partition(".")
            place = getattr(self, base) if overload else self
            setattr(place, overload or base, self._bound(name, function))

    def _bound(self, name: str, function: Function) -> Callable[..., object]:
        def call(*args: Value, **keywords: Value) -> object:
            self.calls[name] += 1
            return _on_one_device(name, function, bind(name, args, keywords))

        return call


def _on_one_device(name: str, function: Function, given: dict[str, Value]) -> object:
    """Compute on the host, for tensors of the NPU too; raises RuntimeError for a mixture."""
    tensors = [one for one in tree_leaves(given) if isinstance(one, Tensor)]
    there = [value.device.type == NPU for value in tensors]
    if not any(there):
        return function(given)
    if not all(there):
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices,"
            f" npu:0 and cpu! (in {name})"
        )
    sent = cast(dict[str, Value], tree_map(_sent, given))
    run = partial(function, sent)
    if name.endswith("_workspace"):  # computed on the host
        return tree_map(_returned, run())
    inputs = [(one, on_host(one)) for one in tensors]
    result, made = launch(name, run, inputs, mutates=name in WRITERS)
    made(one for one in tree_leaves(result) if isinstance(one, Tensor))
    return tree_map(_returned, result)


def _sent(value: Value) -> Value:
    return _moved(value, on_host)


def _returned(value: Value) -> Value:
    return _moved(value, on_npu)


def _moved(value: Value, move: Callable[[Tensor], Tensor]) -> Value:
    return move(value) if isinstance(value, Tensor) else value


def bind(name: str, args: tuple[Value, ...], keywords: dict[str, Value]) -> dict[str, Value]:
    """Return every argument by name. Raises TypeError as the dispatcher would, and RuntimeError
    for a dtype that the documents exclude.
    """
    schema = torch._C.parse_schema(name + SCHEMAS[name])
    given = dict(keywords)
    positional = [one for one in schema.arguments if not one.kwarg_only]
    if len(args) > len(positional):
        raise TypeError(f"{name}() takes {len(positional)} positional arguments, not {len(args)}")
    for one, value in zip(positional, args, strict=False):
        if one.name in given:
            raise TypeError(f"{name}() got two values for {one.name}")
        given[one.name] = value
    bound: dict[str, Value] = {}
    for one in schema.arguments:
        if one.name not in given and not one.has_default_value():
            raise TypeError(f"{name}() misses {one.name}")
        value = given.pop(one.name, cast(Value, one.default_value))
        if not _is(value, str(one.type)):
            raise TypeError(f"{name}(): {one.name} must be {one.type}, not {type(value).__name__}")
        bound[one.name] = value
    if given:
        raise TypeError(f"{name}() got an unexpected keyword {next(iter(given))}")
    for argument, value in bound.items():
        _check_dtype(name, argument, value)
    return bound


def _check_dtype(name: str, argument: str, value: Value) -> None:
    """Raise RuntimeError for a dtype that the wheel's document does not list."""
    documented = WHEEL.dtypes.get(name.partition(".")[0], {})
    listed = documented.get(OLD_NAMES.get(argument, argument))
    if listed and isinstance(value, Tensor):
        kind = str(value.dtype).removeprefix("torch.")
        refuse_unless(kind in listed, f"{argument}: {kind} is not among {', '.join(listed)}")


def _is(value: Value, kind: str) -> bool:
    """Return whether the dispatcher accepts `value` for an argument of that type."""
    if kind.startswith("Optional["):
        return value is None or _is(value, kind.removeprefix("Optional[").removesuffix("]"))
    match kind:
        case "Tensor":
            return isinstance(value, Tensor)
        case "int":
            return isinstance(value, int) and not isinstance(value, bool)
        case "float":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "bool":
            return isinstance(value, bool)
        case "str":
            return isinstance(value, str)
        case "Generator":
            return isinstance(value, torch.Generator)
        case "List[Tensor]":
            return isinstance(value, list) and all(isinstance(one, Tensor) for one in value)
        case "List[int]":
            return isinstance(value, list) and all(type(one) is int for one in value)
        case _:
            raise AssertionError(f"the stand-in does not know the type {kind}")


def tensor(given: dict[str, Value], name: str) -> Tensor:
    value = given[name]
    assert isinstance(value, Tensor)
    return value


def rms_norm(given: dict[str, Value]) -> tuple[Tensor, Tensor]:
    x, gamma, epsilon = tensor(given, "input"), tensor(given, "gamma"), given["epsilon"]
    assert isinstance(epsilon, float)
    refuse_unless(x.dtype in FLOATS and gamma.dtype in (x.dtype, torch.float32), "dtype")
    refuse_unless(gamma.shape == x.shape[-gamma.dim() :], "gamma's shape")
    exact = x.float()
    scale = (exact.square().mean(-1, keepdim=True) + epsilon).rsqrt()
    return (exact * scale * gamma.float()).to(x.dtype), scale


def add_rms_norm(given: dict[str, Value]) -> tuple[Tensor, Tensor, Tensor]:
    x1, x2 = tensor(given, "x1"), tensor(given, "x2")
    refuse_unless(x1.shape == x2.shape and x1.dtype == x2.dtype, "x1 and x2 differ")
    total = x1 + x2
    inner: dict[str, Value] = {
        "input": total,
        "gamma": given["gamma"],
        "epsilon": given["epsilon"],
    }
    normed, scale = rms_norm(inner)
    return normed, scale, total


def rotary_mul(given: dict[str, Value]) -> Tensor:
    """Layout BSND; the others are not used here."""
    x, cos, sin = tensor(given, "input"), tensor(given, "r1"), tensor(given, "r2")
    refuse_unless(given["rotary_mode"] == "half" and given["rotate"] is None, "rotary_mode")
    refuse_unless(x.dim() == cos.dim() == sin.dim() == 4, "input, r1 and r2 have 4 dimensions")
    refuse_unless(x.dtype in FLOATS and x.dtype == cos.dtype == sin.dtype, "dtype")
    batch, length, heads, width = x.shape
    refuse_unless(width < 896 and width % 2 == 0, "D is even and less than 896")
    refuse_unless(batch < 1000 and heads < 1000, "B and N are less than 1000")
    refuse_unless(cos.shape == sin.shape == (1, length, 1, width), "r1 and r2 are [1, S, 1, D]")
    refuse_unless(bool((cos.abs() <= 1).all() and (sin.abs() <= 1).all()), "r1, r2 within [-1, 1]")
    first, second = x.chunk(2, dim=-1)
    turned = torch.cat((-second, first), dim=-1)
    return x * cos + turned * sin


def swiglu(given: dict[str, Value]) -> Tensor:
    x, dim = tensor(given, "input"), given["dim"]
    assert isinstance(dim, int)
    refuse_unless(x.dtype in FLOATS and x.shape[dim] % 2 == 0, "an even dimension of floats")
    gate, up = x.float().chunk(2, dim=dim)
    return (gate * gate.sigmoid() * up).to(x.dtype)


def scatter(given: dict[str, Value]) -> None:
    """cache_mode Norm: [T, K, D] into [P, PAGE, K, D]."""
    refuse_unless(given["cache_mode"] == "Norm", "this cache is laid out ND: cache_mode Norm")
    slots = tensor(given, "slot_mapping")
    refuse_unless(slots.dtype in (torch.int32, torch.int64) and slots.dim() == 1, "slot_mapping")
    places = cast(list[int], slots.tolist())
    refuse_unless(len(set(places)) == len(places), "slots must be distinct")
    for new_name, kept_name in (("key", "key_cache"), ("value", "value_cache")):
        new, kept = tensor(given, new_name), tensor(given, kept_name)
        refuse_unless(new.is_contiguous() and kept.is_contiguous(), "tensors must be contiguous")
        refuse_unless(new.dim() == 3 and kept.dim() == 4, "[T, K, D] into [P, PAGE, K, D]")
        refuse_unless(new.shape[1:] == kept.shape[2:] and len(slots) == len(new), "shapes")
        refuse_unless(new.dtype == kept.dtype, "dtypes")
        flat = kept.view(-1, *kept.shape[2:])
        refuse_unless(bool(((slots >= 0) & (slots < len(flat))).all()), "a slot outside the cache")
        for row, slot in enumerate(places):
            flat[slot] = new[row]


def grouped_matmul(given: dict[str, Value]) -> list[Tensor]:
    """Groups of rows (type 0), each with a matrix of one weight, into one result (split 2 or 3)."""
    rows, weights, ends = given["x"], given["weight"], given["group_list"]
    assert isinstance(rows, list)
    assert isinstance(weights, list)
    refuse_unless(len(rows) == len(weights) == 1, "one x and one weight")
    x, weight = rows[0], weights[0]
    assert isinstance(x, Tensor)
    assert isinstance(weight, Tensor)
    kinds = tuple(given[name] for name in ("group_type", "split_item", "group_list_type"))
    refuse_unless(kinds in {(0, 2, 0), (0, 3, 0)}, "groups of rows by their ends, one result")
    refuse_unless(isinstance(ends, Tensor), "group_list: a tensor")
    assert isinstance(ends, Tensor)
    refuse_unless(ends.dtype == torch.int64 and ends.shape == (len(weight),), "group_list: int64")
    refuse_unless(
        x.dtype == weight.dtype and x.dtype in FLOATS, "x and weight: one dtype of floats"
    )
    refuse_unless(x.dim() == 2 and weight.dim() == 3 and x.shape[1] == weight.shape[1], "shapes")
    refuse_unless(x.is_contiguous() and weight.is_contiguous(), "tensors must be contiguous")
    places = cast("list[int]", ends.tolist())
    refuse_unless(
        places == sorted(places) and places[-1] == len(x), "group_list ends with the rows"
    )
    parts: list[Tensor] = []
    for group, (begin, end) in enumerate(zip([0, *places], places, strict=False)):
        parts.append((x[begin:end].float() @ weight[group].float()).to(x.dtype))
    return [torch.cat(parts)]


FUNCTIONS: dict[str, Function] = {
    "npu_rms_norm": rms_norm,
    "npu_add_rms_norm": add_rms_norm,
    "npu_rotary_mul": rotary_mul,
    "npu_grouped_matmul": grouped_matmul,
    "npu_swiglu": swiglu,
    "npu_scatter_pa_kv_cache": scatter,
    "npu_fused_infer_attention_score": fused_attention,
    "npu_fused_infer_attention_score_v2": fused_attention_v2,
    "npu_fused_infer_attention_score.out": into(fused_attention),
    "npu_fused_infer_attention_score_v2.out": into(fused_attention_v2),
    "_npu_fused_infer_attention_score_get_max_workspace": workspace,
    "_npu_fused_infer_attention_score_v2_get_max_workspace": workspace,
    "npu_top_k_top_p": top_k_top_p,
    "npu_top_k_top_p_sample": sample_v2,
}
