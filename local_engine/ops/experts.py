"""Mixtures of experts where transformers' own grouped products do not run: on an NPU.

transformers' modules call the function that is registered for their experts
(https://huggingface.co/docs/transformers/experts_interface). Its default needs torch's grouped
product, of which torch-npu has none, so that each layer's weights would be copied to the host. Here
a `GroupedProduct` does it: a kernel that passed its trial, or one product of torch per expert.
Letters: T tokens, K experts per token, S = T x K, X experts, E width, F inner width.
"""

# transformers annotates these members in part only:
# pyright: reportUnknownMemberType=false

from typing import TYPE_CHECKING, Final, Protocol, cast

import torch
from torch import Tensor, nn

if TYPE_CHECKING:  # seconds of import that `strowger doctor` would take
    from transformers.modeling_utils import PreTrainedModel

NAME: Final = "local_engine"
"""Name under which `experts_forward` is registered with transformers."""

_LAID: Final = ("gate_up_proj", "up_proj", "down_proj")


class GroupedProduct(Protocol):
    """Rows of one tensor by groups, each with a matrix of its own."""

    def __call__(self, rows: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
        """rows: [S, A]. weights: [X, A, B]. ends: [X] int64, the end of each expert's rows.

        Returns [S, B].
        """
        ...


class _Experts(Protocol):
    """The part of transformers' modules that is used here."""

    num_experts: int
    has_gate: bool
    has_bias: bool
    has_post_expert_norm: bool
    down_proj: Tensor

    def _apply_gate(self, gate_up_out: Tensor) -> Tensor: ...

    def act_fn(self, x: Tensor) -> Tensor: ...

    def post_expert_norm(self, x: Tensor) -> Tensor: ...


def by_expert(rows: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
    """`GroupedProduct` in torch's operations; reads the groups' sizes on the host."""
    out = rows.new_empty(rows.shape[0], weights.shape[2])
    begin = 0
    for expert, end in enumerate(cast("list[int]", ends.tolist())):
        if end > begin:
            torch.mm(rows[begin:end], weights[expert], out=out[begin:end])
        begin = end
    return out


def experts_forward(
    self: nn.Module, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor
) -> Tensor:
    """hidden_states: [T, E]. top_k_index, top_k_weights: [T, K]. Returns [T, E].

    The signature is transformers'.
    """
    one = cast(_Experts, self)
    product = cast(GroupedProduct, getattr(self, "engine_product", by_expert))
    chosen = top_k_index.size(-1)
    experts, order = torch.sort(top_k_index.reshape(-1), stable=True)
    owners = torch.div(order, chosen, rounding_mode="floor")
    places = torch.arange(one.num_experts, device=experts.device)
    ends = (experts.unsqueeze(1) == places).sum(0).cumsum(0)
    first = "gate_up_proj" if one.has_gate else "up_proj"
    rows = product(hidden_states.index_select(0, owners), cast(Tensor, getattr(self, first)), ends)
    if one.has_bias:
        rows = rows + cast(Tensor, getattr(self, f"{first}_bias")).index_select(0, experts)
    rows = one._apply_gate(rows) if one.has_gate else one.act_fn(rows)  # pyright: ignore[reportPrivateUsage]  # transformers' own function does so
    rows = product(rows.contiguous(), one.down_proj, ends)
    if one.has_bias:
        rows = rows + cast(Tensor, self.down_proj_bias).index_select(0, experts)
    if one.has_post_expert_norm:
        rows = one.post_expert_norm(rows)
    weights = top_k_weights.reshape(-1).index_select(0, order)
    weighted = rows * weights.unsqueeze(1)
    # Back to the tokens' order, and a sum: adding rows by index has no order of its own.
    back = torch.empty_like(order).index_copy_(
        0, order, torch.arange(len(order), device=order.device)
    )
    tokens = weighted.index_select(0, back).view(*top_k_index.shape, -1)
    return tokens.sum(1).to(hidden_states.dtype)


def take_experts(module: "PreTrainedModel") -> bool:
    """Let `experts_forward` compute a model's experts; returns False for a model without any.

    Weights are laid out [X, A, B] once, layer by layer: kernels take them contiguous.
    """
    experts = _experts_of(module)
    if not experts:
        return False
    from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

    ALL_EXPERTS_FUNCTIONS.register(NAME, experts_forward)
    for one in experts:
        if not one.is_transposed:
            for name in _LAID:
                found = getattr(one, name, None)
                if isinstance(found, nn.Parameter):
                    found.data = found.data.transpose(1, 2).contiguous()
            object.__setattr__(one, "is_transposed", True)
    module.set_experts_implementation(NAME)
    return True


def use_product(module: nn.Module, product: GroupedProduct | None) -> None:
    """Compute a model's experts with a kernel, or with `by_expert`."""
    for one in _experts_of(module):
        object.__setattr__(one, "engine_product", product or by_expert)


def _experts_of(module: nn.Module) -> list[nn.Module]:
    marks = ("has_post_expert_norm", "is_transposed", "num_experts")
    return [one for one in module.modules() if all(hasattr(one, mark) for mark in marks)]
