"""The paged key/value cache for an NPU's fused attention, read through page tables.

https://gitcode.com/Ascend/op-plugin: torch_npu.npu_fused_infer_attention_score and
npu_scatter_pa_kv_cache. Letters as in attention.py; P pages of PAGE tokens, W the padded width.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

import torch
from msgspec import Struct
from msgspec.structs import replace
from torch import Tensor
from torch.nn.functional import pad

from strowger_gateway.local_engine.ops.attention import AttentionParams, Plan, Share, attend_rows
from strowger_gateway.local_engine.ops.device_faults import REFUSALS
from strowger_gateway.local_engine.ops.kernel_guards import Guard, in_use, refused

PAGE = 128
"""The only page size that the fused attention takes for any number of queries."""

WIDTH = 128
"""The head width that it takes for packed tokens; narrower heads are padded with zeros, which does
not change scores as long as the scale stays."""

MOST_SEQUENCES = 4096
WIDEST_PAGE_ROW = 65_535
"""Upper bound of K x W, for pages laid out as [PAGE, K x W]."""


class Tables(Struct, frozen=True, kw_only=True, eq=False):
    """One step's sequences, B of them.

    pages: [B, longest] int32, padded with 0. slots: [T] int32.
    ends:  the end of each one's packed tokens. keys: its number of keys.
    """

    pages: Tensor
    slots: Tensor
    ends: list[int]
    keys: list[int]


class Pinned(Struct, frozen=True, kw_only=True, eq=False):
    """How a captured step reads the pages, whatever its plan has.

    queries: by heads and width, where the layers put their queries one after the other: a captured
             call keeps the address, so that each layer would need memory of its own.
    """

    plan: Plan
    tables: Tables
    queries: dict[tuple[int, int], Tensor]


class Write(Protocol):
    """Stores [T, K, W] keys and values in [P, PAGE, K, W] at the slots."""

    def __call__(
        self, key: Tensor, value: Tensor, keys: Tensor, values: Tensor, slots: Tensor
    ) -> None: ...


class Attend(Protocol):
    """Causal attention of [T, H, W] queries over [P, PAGE, K, W]; returns [T, H, W].

    shift: what is added to a window to get the number of keys before a query's own.
    """

    def __call__(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        tables: Tables,
        params: AttentionParams,
        *,
        shift: int = 0,
    ) -> Tensor: ...


class AttentionReach(Struct, frozen=True, kw_only=True):
    """What the fused attention computes besides plain layers: windows, and sinks.

    width: of the heads in its pages; narrower ones are padded.
    """

    windows: bool = False
    sinks: bool = False
    width: int = WIDTH


PLAIN = AttentionReach()


class PagedCache:
    """[P, PAGE, K, W] keys and values per layer, allocated when the layer first uses them."""

    def __init__(
        self, slots: int, *, write: Write, attend: Attend, reach: AttentionReach = PLAIN
    ) -> None:
        """slots: a multiple of PAGE."""
        self._reach = reach
        self._pages = slots // PAGE
        self._write = write
        self._attend = attend
        self.guard: Guard | None = None
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}
        self._tables: tuple[Plan, Tables] | None = None
        self._pinned: Pinned | None = None

    def of(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Return views without the padding."""
        keys, values = self._of(layer, key, value)
        return _by_head(keys, key.shape[2]), _by_head(values, value.shape[2])

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        layer: int,
        plan: Plan,
        params: AttentionParams,
    ) -> Tensor:
        """Use torch's operations, over the same pages, where the fused attention does not apply."""
        if self._pinned is not None and self._pinned.plan is plan:
            return self._attend_pinned(query, key, value, layer, self._pinned, params)
        if in_use(self.guard) and fits(query.shape[2], key.shape[1], plan, params, self._reach):
            try:
                return self._attend_fused(query, key, value, layer, plan, params)
            except REFUSALS as exc:
                refused(self.guard, exc)
        return attend_rows(query, key, value, layer, plan, params)

    def write(self, layer: int, key: Tensor, value: Tensor, slots: Tensor) -> None:
        """Write whole rows of the pages: an NPU copies what an in-place operation only views."""
        keys, values = self._of(layer, key, value)
        width = self._reach.width
        write_by_index(_widened(key, width), _widened(value, width), keys, values, slots)

    def _attend_fused(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        layer: int,
        plan: Plan,
        params: AttentionParams,
    ) -> Tensor:
        keys, values = self._of(layer, key, value)
        width = query.shape[2]
        query, key, value = (_widened(one, self._reach.width) for one in (query, key, value))
        tables = self._tables_of(plan)
        self._write(key, value, keys, values, tables.slots)
        if not hides(plan, params):
            params = replace(params, window=0)
        return self._attend(query, keys, values, tables, params)[..., :width]

    def computes(self, layers: Iterable[AttentionParams]) -> bool:
        """Whether the fused attention computes such layers for any lengths, of heads as they have
        attended so far."""
        fit = (
            keys.shape[3] == self._reach.width and keys.shape[2] * WIDTH <= WIDEST_PAGE_ROW
            for keys, _ in self._layers.values()
        )
        return all(fit) and all(
            params.softcap is None
            and not params.chunk
            and (self._reach.sinks or params.sinks is None)
            and (self._reach.windows or not params.window)
            for params in layers
        )

    def pin(self, pinned: Pinned) -> None:
        """Let the attention of steps with this plan read so. Only for layers that it computes."""
        self._pinned = pinned

    def _attend_pinned(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        layer: int,
        pinned: Pinned,
        params: AttentionParams,
    ) -> Tensor:
        """`attend` without a guard: the step as a whole is given up if a kernel refuses it."""
        keys, values = self._of(layer, key, value)
        rows, heads, width = query.shape
        key, value = (_widened(one, self._reach.width) for one in (key, value))
        self._write(key, value, keys, values, pinned.tables.slots)
        wide = keys.shape[3]
        queries = pinned.queries.get((heads, wide))
        if queries is None:
            queries = pinned.queries[heads, wide] = query.new_zeros(rows, heads, wide)
        queries[..., :width].copy_(query)
        return self._attend(queries, keys, values, pinned.tables, params)[..., :width]

    def copy(self, source: int, target: int, count: int) -> None:
        for pair in self._layers.values():
            for tensor in pair:
                flat = tensor.view(-1, *tensor.shape[2:])
                flat[target : target + count] = flat[source : source + count]

    def page_rows(self, shares: tuple[Share, ...]) -> list[int]:
        """Return the pages for `Plan.numbers`."""
        return padded(shares)

    @property
    def layers(self) -> int:
        return len(self._layers)

    @property
    def slot_bytes(self) -> int:
        tensors = [tensor for pair in self._layers.values() for tensor in pair]
        return sum(t.element_size() * t.shape[2] * t.shape[3] for t in tensors)

    def _of(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        found = self._layers.get(layer)
        if found is None:
            found = self._layers[layer] = (self._empty(key), self._empty(value))
        return found

    def _empty(self, like: Tensor) -> Tensor:
        width = max(self._reach.width, like.shape[2])
        shape = (self._pages, PAGE, like.shape[1], width)
        return torch.zeros(shape, dtype=like.dtype, device=like.device)

    def _tables_of(self, plan: Plan) -> Tables:
        """Build the tables for the first layer of a step; the others reuse them."""
        if self._tables is None or self._tables[0] is not plan:
            self._tables = (plan, tables_of(plan))
        return self._tables[1]


def hides(plan: Plan, params: AttentionParams) -> bool:
    """Whether a window hides a key of this step."""
    return params.window > 0 and any(share.keys > params.window for share in plan.shares)


def fits(
    width: int, kv_heads: int, plan: Plan, params: AttentionParams, reach: AttentionReach = PLAIN
) -> bool:
    """Return True if the fused attention supports this layer in this step."""
    return (
        params.softcap is None
        and (reach.sinks or params.sinks is None)
        and (reach.windows or not hides(plan, params))
        and not params.chunked(plan.shares)
        and width <= WIDTH
        and kv_heads * WIDTH <= WIDEST_PAGE_ROW
        and 0 < len(plan.shares) <= MOST_SEQUENCES
    )


def tables_of(plan: Plan) -> Tables:
    count, ends = len(plan.slots), list[int]()
    for share in plan.shares:
        ends.append(share.count + (ends[-1] if ends else 0))
    numbers = plan.numbers
    if numbers is None:
        pages = torch.tensor(padded(plan.shares), device=plan.slots.device)
        numbers = torch.cat((plan.slots, pages)).to(torch.int32)
    return Tables(
        pages=numbers[count:].view(len(plan.shares), -1),
        slots=numbers[:count],
        ends=ends,
        keys=[share.keys for share in plan.shares],
    )


def padded(shares: tuple[Share, ...]) -> list[int]:
    """Return the sequences' pages, one after the other, each padded with 0 to the longest."""
    longest = max(len(share.blocks) for share in shares)
    pages: list[int] = []
    for share in shares:
        pages += share.blocks
        pages += [0] * (longest - len(share.blocks))
    return pages


def write_by_index(key: Tensor, value: Tensor, keys: Tensor, values: Tensor, slots: Tensor) -> None:
    """`Write` in torch's operations."""
    for new, kept in ((key, keys), (value, values)):
        kept.view(-1, *kept.shape[2:]).index_copy_(0, slots.to(torch.int64), new)


def paged(
    write: Write, attend: Attend, reach: AttentionReach = PLAIN
) -> Callable[[int], PagedCache]:
    """Return the function for `Kernels.cache`."""
    return lambda slots: PagedCache(slots, write=write, attend=attend, reach=reach)


def _widened(x: Tensor, width: int) -> Tensor:
    return x.contiguous() if x.shape[2] >= width else pad(x, (0, width - x.shape[2]))


def _by_head(pages: Tensor, width: int) -> Tensor:
    """Return [P, PAGE, K, W] as [K, S, D]."""
    return pages.view(-1, *pages.shape[2:])[..., :width].transpose(0, 1)
