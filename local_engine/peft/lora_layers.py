"""LoRA adapters next to a model's weights: y += x A^T B^T x scale in the rows of a batch that have
an adapter (https://arxiv.org/abs/2106.09685).

The linear layers of the decoder are wrapped once, when the model is loaded. Each step sets which
rows use which adapter; a step without adapters costs one check of an empty tuple per layer. Layers
that were joined behind one weight stay joined: their adapter is one product with all A side by
side, and one with each B.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import torch
from msgspec import Struct
from torch import Tensor, nn

from strowger_gateway.local_engine.ops.linear import Linear, Sibling

_LAYER = re.compile(r"(?:.*?\.)?\w+\.(\d+)\.(.+)")
"""A linear layer of a decoder layer: its number, and the name inside."""

EXPERTS = "experts"
"""Mixtures route each expert other rows than the batch has, so its layers take no adapter."""


class Site(Struct, frozen=True, kw_only=True):
    """A linear layer that adapters can change, by its transformers name: y = x W^T.

    layer: of the decoder, from 0. leaf: the last part of the name.
    inputs, outputs: features.
    """

    name: str
    layer: int
    leaf: str
    inputs: int
    outputs: int


class Factors(Struct, frozen=True, kw_only=True, eq=False):
    """One site's factors. down: A, [D, inputs]. up: B, [outputs, D], including the scale."""

    down: Tensor
    up: Tensor


class Product(Struct, frozen=True, kw_only=True, eq=False):
    """One wrapped layer's matrices of an adapter.

    down: [inputs, R]. ups: (first output, first rank, [D, outputs]) for each site of the layer.
    """

    down: Tensor
    ups: tuple[tuple[int, int, Tensor], ...]

    def delta(self, x: Tensor, y: Tensor) -> None:
        """Add the product to y: [n, all outputs], in place; x: [n, inputs]."""
        low = x @ self.down
        for first, rank, up in self.ups:
            y[:, first : first + up.shape[1]].addmm_(low[:, rank : rank + up.shape[0]], up)


class Adapter(Struct, frozen=True, kw_only=True, eq=False):
    """An adapter in memory.

    digest: of its weights; equal digests compute the same. products: by wrapped layer.
    bytes:  of the products.
    """

    digest: bytes
    products: Mapping[int, Product]
    bytes: int


class Active(Struct, frozen=True, kw_only=True, eq=False):
    """An adapter's rows in a step: a slice if they are contiguous, else their indices."""

    adapter: Adapter
    rows: slice | Tensor


class StepAdapters:
    """The adapters of the step in progress; set by the runner, read by every wrapped layer.

    active: empty if no row has an adapter. rows: all packed tokens of the step.
    """

    def __init__(self) -> None:
        self.active: tuple[Active, ...] = ()
        self.rows = 0


class WrongRows(RuntimeError):
    """A layer does not see the step's packed tokens, so its rows cannot be adapted."""


class AdaptedLinear(nn.Module):
    """A linear layer, or several joined ones, plus the step's adapters."""

    def __init__(self, linear: Linear, place: int, step: StepAdapters) -> None:
        super().__init__()
        self._linear = linear
        self._place = place
        self._step = step

    def forward(self, x: Tensor) -> Tensor:
        """x: [..., in] -> [..., out]. Raises WrongRows."""
        y = self._linear(x)
        if self._step.active:
            self._adapt(x, y)
        return y

    def _adapt(self, x: Tensor, y: Tensor) -> None:
        rows, out = x.reshape(-1, x.shape[-1]), y.view(-1, y.shape[-1])
        if rows.shape[0] != self._step.rows:
            raise WrongRows(f"a layer gets {rows.shape[0]} rows; the step has {self._step.rows}")
        for active in self._step.active:
            product = active.adapter.products.get(self._place)
            if product is None:
                continue
            where = active.rows
            if isinstance(where, slice):
                product.delta(rows[where], out[where])
            else:
                part = out.index_select(0, where)
                product.delta(rows.index_select(0, where), part)
                out.index_copy_(0, where, part)


class AdapterSites:
    """The wrapped layers of one model: `find_sites` before `optimise`, `wrap` after it."""

    def __init__(self, sites: Sequence[Site]) -> None:
        self.step = StepAdapters()
        self._sites = {site.name: site for site in sites}
        self._layers: list[tuple[Site, ...]] = []
        self._place: dict[str, tuple[int, int]] = {}
        self._dtype = torch.float32
        self._device = torch.device("cpu")

    @property
    def sites(self) -> Iterable[Site]:
        return self._sites.values()

    @property
    def item_bytes(self) -> int:
        """Bytes of one number of an adapter in memory."""
        return self._dtype.itemsize

    def place(self, name: str) -> tuple[int, int]:
        """Return the wrapped layer of a site and its first output there."""
        return self._place[name]

    def wrap(self, model: nn.Module) -> None:
        """Replace each site, or joined siblings, by an AdaptedLinear."""
        first = next(model.parameters())
        self._dtype, self._device = first.dtype, first.device
        joined: dict[int, list[tuple[int, Site]]] = {}
        for site in self._sites.values():
            module = model.get_submodule(site.name)
            if isinstance(module, Sibling):
                joined.setdefault(id(module.shared), []).append((module.place, site))
                continue
            parent, _, leaf = site.name.rpartition(".")
            wrapped = self._wrapped(cast(Linear, module), (site,))
            setattr(model.get_submodule(parent), leaf, wrapped)
        for siblings in joined.values():
            members = tuple(site for _, site in sorted(siblings, key=lambda pair: pair[0]))
            sibling = cast(Sibling, model.get_submodule(members[0].name))
            sibling.shared.linear = self._wrapped(sibling.shared.linear, members)

    def adapter(self, factors: Mapping[str, Factors], digest: bytes) -> Adapter:
        """factors: by site, of matching shapes, on any device in any floating dtype.

        Raises ValueError for a number that is infinite or NaN, also after conversion to the model's
        dtype.
        """
        grouped: dict[int, list[str]] = {}
        for name in factors:
            grouped.setdefault(self._place[name][0], []).append(name)
        products: dict[int, Product] = {}
        for place, names in grouped.items():
            names.sort(key=lambda name: self._place[name][1])
            products[place] = self._product({name: factors[name] for name in names})
        return Adapter(
            digest=digest,
            products=products,
            bytes=sum(_bytes(product) for product in products.values()),
        )

    def _wrapped(self, linear: Linear, members: tuple[Site, ...]) -> AdaptedLinear:
        place = len(self._layers)
        self._layers.append(members)
        first = 0
        for site in members:
            self._place[site.name] = (place, first)
            first += site.outputs
        return AdaptedLinear(linear, place, self.step)

    def _product(self, factors: Mapping[str, Factors]) -> Product:
        downs: list[Tensor] = []
        ups: list[tuple[int, int, Tensor]] = []
        rank = 0
        for name, pair in factors.items():
            downs.append(self._checked(pair.down, name))
            ups.append((self._place[name][1], rank, self._checked(pair.up, name).t().contiguous()))
            rank += pair.down.shape[0]
        return Product(down=torch.cat(downs).t().contiguous(), ups=tuple(ups))

    def _checked(self, tensor: Tensor, name: str) -> Tensor:
        cast_ = tensor.to(device=self._device, dtype=self._dtype)
        if not bool(cast_.isfinite().all()):
            raise ValueError(f"{name}: a weight is infinite or not a number as {self._dtype}")
        return cast_


def find_sites(model: nn.Module) -> AdapterSites:
    """Return the linear layers of the decoder; call before `optimise` joins and repacks them."""
    sites: list[Site] = []
    modules = cast(Iterable[tuple[str, nn.Module]], model.named_modules())
    for name, module in modules:
        found = _LAYER.fullmatch(name)
        if not isinstance(module, nn.Linear) or found is None or EXPERTS in name.split("."):
            continue
        sites.append(
            Site(
                name=name,
                layer=int(found[1]),
                leaf=name.rpartition(".")[2],
                inputs=module.in_features,
                outputs=module.out_features,
            )
        )
    return AdapterSites(sites)


def group_rows(owners: Iterable[tuple[Adapter | None, int]], device: str) -> tuple[Active, ...]:
    """Group rows by adapter, from each chunk's adapter and row count in packed order."""
    runs: dict[int, tuple[Adapter, list[tuple[int, int]]]] = {}
    row = 0
    for adapter, count in owners:
        if adapter is not None:
            _, mine = runs.setdefault(id(adapter), (adapter, []))
            if mine and mine[-1][1] == row:
                mine[-1] = (mine[-1][0], row + count)
            else:
                mine.append((row, row + count))
        row += count
    return tuple(
        Active(adapter=adapter, rows=_rows(mine, device)) for adapter, mine in runs.values()
    )


def _rows(runs: list[tuple[int, int]], device: str) -> slice | Tensor:
    if len(runs) == 1:
        return slice(*runs[0])
    return torch.tensor([row for first, end in runs for row in range(first, end)], device=device)


def _bytes(product: Product) -> int:
    tensors = [product.down, *(up for _, _, up in product.ups)]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
