"""Compare a device's kernels with torch's before they are used; skip those that differ.

So a wrong assumption about a kernel costs speed, but never a wrong token.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Final

import torch
from msgspec import Struct
from msgspec.structs import replace
from torch import Tensor

from strowger_gateway.local_engine.ops.attention import (
    AttentionParams,
    LayerCaches,
    Plan,
    Share,
    Span,
)
from strowger_gateway.local_engine.ops.contiguous_cache import KeyValueCache
from strowger_gateway.local_engine.ops.device_faults import REFUSALS, first_line
from strowger_gateway.local_engine.ops.kernels import TORCH, Kernels
from strowger_gateway.local_engine.ops.trial_log import Trying, trying

CLOSE: dict[torch.dtype, float] = {torch.float32: 1e-4, torch.float16: 5e-3, torch.bfloat16: 3e-2}
"""Allowed difference of two implementations, for numbers around 1."""


class Shape(Struct, frozen=True, kw_only=True):
    """A model's dimensions for the trials.

    width: of a head. hidden: of the residual stream. window: of some layers, 0 without. sinks: its
    heads have sinks.
    """

    heads: int
    kv_heads: int
    width: int
    hidden: int
    window: int = 0
    sinks: bool = False


class TrialSizes(Struct, frozen=True, kw_only=True):
    """The largest steps that an engine runs: its tokens, and the sequences that decode together."""

    step_tokens: int = 64
    sequences: int = 8

    @property
    def rows(self) -> tuple[int, ...]:
        """Numbers of packed tokens to try: a decoding step of one answer, a few, and the most."""
        return tuple(dict.fromkeys((1, 5, self.step_tokens)))


SMALL: Final = TrialSizes()

LONGEST_TRIAL: Final = 2048
"""Tokens of the longest attention that is tried: torch's own takes memory by their square."""


class Trial(Struct, frozen=True, kw_only=True):
    """role: the operation that it replaces. problem: "" if it works, else why it is not used."""

    kernel: str
    role: str
    problem: str


class Offer(Struct, frozen=True, kw_only=True, eq=False):
    """A kernel that a device may have; offers of one role are alternatives, best first.

    check:   [(its result, the reference's)], on any device; may raise one of REFUSALS.
    install: puts it into a `Kernels`.
    """

    kernel: str
    role: str
    check: Callable[[], Iterable[tuple[Tensor, Tensor]]]
    install: Callable[[Kernels], Kernels]


def for_all_shapes(offers: Sequence[Sequence[Offer]]) -> tuple[Offer, ...]:
    """Return offers that are checked with every shape. offers: the same kernels for each shape."""

    def joined(same: Sequence[Offer]) -> Offer:
        return replace(same[0], check=lambda: chain.from_iterable(one.check() for one in same))

    return tuple(joined(same) for same in zip(*offers, strict=True))


def run_trials(offers: Sequence[Offer], *, thorough: bool = False) -> tuple[Trial, ...]:
    """Call each kernel once; without `thorough`, skip roles that already have a working kernel."""
    filled: set[str] = set()
    trials: list[Trial] = []
    for offer in offers:
        if offer.role in filled and not thorough:
            continue
        with trying(offer.role, offer.kernel) as tried:
            tried.problem = problem_of(partial(_seen, offer, tried))
        trials.append(Trial(kernel=offer.kernel, role=offer.role, problem=tried.problem))
        if not tried.problem:
            filled.add(offer.role)
    return tuple(trials)


def _seen(offer: Offer, tried: Trying) -> Iterable[tuple[Tensor, Tensor]]:
    return tried.seen(offer.check())


def choose_kernels(name: str, offers: Sequence[Offer], trials: Sequence[Trial]) -> Kernels:
    """Return torch's kernels, replaced in each role by the first offer whose trial passed."""
    works = {trial.kernel for trial in trials if not trial.problem}
    chosen: dict[str, Offer] = {}
    for offer in offers:
        if offer.kernel in works:
            chosen.setdefault(offer.role, offer)
    kernels = TORCH
    for offer in chosen.values():
        kernels = offer.install(kernels)
    return replace(kernels, name=name if chosen else TORCH.name)


def problem_of(check: Callable[[], Iterable[tuple[Tensor, Tensor]]]) -> str:
    """Return "" if every pair agrees, else the problem."""
    try:
        for mine, theirs in check():
            if fault := difference(mine.cpu(), theirs.cpu()):
                return fault
    except REFUSALS as exc:
        return first_line(exc)
    return ""


def difference(mine: Tensor, reference: Tensor) -> str:
    """Return "" if `mine` equals `reference` except for rounding, also in shape and dtype."""
    if mine.shape != reference.shape or mine.dtype != reference.dtype:
        return (
            f"gives {mine.dtype} {list(mine.shape)}, not {reference.dtype} {list(reference.shape)}"
        )
    if not reference.is_floating_point():
        return "" if torch.equal(mine, reference) else "differs from torch"
    allowed = CLOSE[reference.dtype]
    gap = (mine.float() - reference.float()).abs()
    if bool((gap <= allowed + allowed * reference.float().abs()).all()):
        return ""
    return f"differs from torch by up to {float(gap.max()):.3g}"


def noise(*shape: int, like: torch.dtype, device: str, seed: int = 0) -> Tensor:
    """Return normal random numbers, the same on every device."""
    source = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=source).to(device=device, dtype=like)


def attention_pairs(
    cache: Callable[[int], LayerCaches],
    shape: Shape,
    page: int,
    dtype: torch.dtype,
    device: str,
    *,
    scattered: bool = True,
    window: int = 0,
    sinks: bool = False,
    sizes: TrialSizes = SMALL,
) -> Iterable[tuple[Tensor, Tensor]]:
    """Yield attention results and torch's: of three sequences, prefilled, extended and decoded, of
    one token alone, of as many sequences as decode together, and of the longest step.

    scattered: over pages that are not contiguous.
    """
    sunk = noise(shape.heads, like=dtype, device=device, seed=9) if sinks else None
    params = AttentionParams(scale=shape.width**-0.5, window=window, softcap=None, sinks=sunk)
    longest = min(sizes.step_tokens, LONGEST_TRIAL)
    pages = -(-(longest + 1) // page)
    places = [(place * 7 + 3) % pages if pages % 7 else pages - 1 - place for place in range(pages)]
    cases = (
        (
            ((5, 2), (0, 4), (3, 1)) if scattered else ((4, 5), (0, 1), (2, 3)),
            ((page + 3, 5, 2), (7, 1, page), (1, 1, 1), (1, 1, 1)),
        ),
        (((1,),), ((1,), (1,))),
        (
            tuple((sizes.sequences - 1 - place,) for place in range(sizes.sequences)),
            ((1,) * sizes.sequences,) * 2,
        ),
        ((tuple(places if scattered else range(pages)),), ((longest,), (1,))),
    )
    for blocks, steps in cases:
        yield from _attended(cache, shape, page, dtype, device, params, blocks, steps)


def _attended(
    cache: Callable[[int], LayerCaches],
    shape: Shape,
    page: int,
    dtype: torch.dtype,
    device: str,
    params: AttentionParams,
    blocks: Sequence[tuple[int, ...]],
    steps: Sequence[tuple[int, ...]],
) -> Iterable[tuple[Tensor, Tensor]]:
    """blocks: the pages of each sequence. steps: how many tokens each one gets in each step."""
    slots = (max(chain.from_iterable(blocks)) + 1) * page
    ours, reference = cache(slots), KeyValueCache(slots)
    reached = [0] * len(blocks)
    for number, counts in enumerate(steps):
        reached = [before + count for before, count in zip(reached, counts, strict=True)]
        shares = tuple(
            Share(count=count, keys=keys, blocks=pages[: -(-keys // page)])
            for count, keys, pages in zip(counts, reached, blocks, strict=True)
        )
        total, heads = sum(counts), shape.heads + 2 * shape.kv_heads
        made = noise(total, heads, shape.width, like=dtype, device=device, seed=number)
        query, rest = made[:, : shape.heads], made[:, shape.heads :]
        key, value = rest[:, : shape.kv_heads], rest[:, shape.kv_heads :]
        mine, theirs = (
            one.attend(query, key, value, 0, plan_of(one, shares, page, device), params)
            for one in (ours, reference)
        )
        yield mine, theirs


def plan_of(cache: LayerCaches, shares: tuple[Share, ...], page: int, device: str) -> Plan:
    """Return a step over these sequences, read one by one."""
    slots: list[int] = []
    spans: list[Span] = []
    row = 0
    for share in shares:
        places = [block * page + item for block in share.blocks for item in range(page)]
        slots += places[share.keys - share.count : share.keys]
        runs = tuple(
            (block * page, min(page, share.keys - place * page))
            for place, block in enumerate(share.blocks)
        )
        spans.append(Span(row=row, count=share.count, runs=runs))
        row += share.count
    return Plan(
        cache=cache,
        slots=torch.tensor(slots, device=device),
        groups=(),
        spans=tuple(spans),
        shares=shares,
        masks={},
        layer_params={},
    )
