"""The kernels that an NVIDIA GPU may have, each with its trial against torch's operations."""

from collections.abc import Callable, Iterable
from functools import partial
from random import Random
from typing import cast

import torch
from msgspec.structs import replace
from torch import Tensor

from strowger_gateway.local_engine.ops.attention import AttentionParams, Share
from strowger_gateway.local_engine.ops.contiguous_cache import KeyValueCache
from strowger_gateway.local_engine.ops.cuda import HALVES, Flash, FlashCache, Paged
from strowger_gateway.local_engine.ops.kernels import PAGE
from strowger_gateway.local_engine.ops.page_table import PageTable, page_rows
from strowger_gateway.local_engine.ops.self_test import (
    SMALL,
    Offer,
    Shape,
    TrialSizes,
    attention_pairs,
    noise,
    plan_of,
)
from strowger_gateway.local_engine.ops.triton_layers import layer_offers, refusing
from strowger_gateway.local_engine.ops.triton_ops import TritonAttention, load_programs

LENGTHS = (1, 16, 17, 150, 700)
"""Keys of the trial's sequences: one block and many, whole pages and parts."""


def triton_attention() -> Paged:
    """Raises ImportError without Triton."""
    return TritonAttention(load_programs(), PAGE)


def cuda_offers(
    shape: Shape,
    dtype: torch.dtype,
    device: str = "cuda",
    flash: Flash | None = None,
    paged: Callable[[], Paged] = triton_attention,
    sizes: TrialSizes = SMALL,
) -> tuple[Offer, ...]:
    """flash, paged: the operator and the maker of the kernel, or substitutes for tests."""
    if dtype not in HALVES:
        return ()
    kernel = flash or cast(Flash, torch.ops.aten._flash_attention_forward)

    def cache(slots: int) -> FlashCache:
        return FlashCache(slots, flash=kernel)

    def paged_cache(slots: int) -> FlashCache:
        return FlashCache(slots, flash=kernel, paged=paged())

    def flash_pairs(chosen: Callable[[int], FlashCache]) -> Iterable[tuple[Tensor, Tensor]]:
        for scattered in (False, True):
            for window in (0, 7):
                yield from attention_pairs(
                    chosen,
                    shape,
                    PAGE,
                    dtype,
                    device,
                    scattered=scattered,
                    window=window,
                    sizes=sizes,
                )

    def paged_pairs() -> Iterable[tuple[Tensor, Tensor]]:
        yield from decode_pairs(paged(), shape, dtype, device)
        yield from flash_pairs(paged_cache)

    return (
        Offer(
            kernel="paged attention in Triton, _flash_attention_forward",
            role="attention",
            check=partial(refusing, paged_pairs),
            install=lambda kernels: replace(kernels, cache=paged_cache),
        ),
        Offer(
            kernel="_flash_attention_forward",
            role="attention",
            check=lambda: flash_pairs(cache),
            install=lambda kernels: replace(kernels, cache=cache),
        ),
        *layer_offers(shape, dtype, device, sizes=sizes),
    )


def decode_pairs(
    paged: Paged, shape: Shape, dtype: torch.dtype, device: str
) -> Iterable[tuple[Tensor, Tensor]]:
    """Yield the paged attention of scattered sequences and torch's, for each number of parts."""
    pages = -(-max(LENGTHS) // PAGE) * len(LENGTHS)
    free = iter(Random(0).sample(range(pages), pages))
    shares = tuple(
        Share(count=1, keys=keys, blocks=tuple(next(free) for _ in range(-(-keys // PAGE))))
        for keys in LENGTHS
    )
    cache = KeyValueCache(pages * PAGE)
    heads = noise(len(LENGTHS), shape.heads, shape.width, like=dtype, device=device)
    kept = [
        noise(pages * PAGE, shape.kv_heads, shape.width, like=dtype, device=device, seed=seed)
        for seed in (1, 2)
    ]
    for mine, new in zip(cache.of(0, *kept), kept, strict=True):
        mine.copy_(new.transpose(0, 1))
    plan = plan_of(cache, shares, PAGE, device)
    # The step's own keys are those that the cache already has.
    own = [new.index_select(0, plan.slots) for new in kept]
    rows = page_rows(PageTable(pages, torch.device(device)), shares)
    plain = AttentionParams(scale=shape.width**-0.5, window=0, softcap=None, sinks=None)
    sinks = noise(shape.heads, like=dtype, device=device, seed=3)
    cases = [(plain, splits) for splits in (1, 4, 16, 64)]
    cases += [(replace(plain, window=100), splits) for splits in (1, 4)]
    cases += [(replace(plain, softcap=5.0), 4), (replace(plain, sinks=sinks), 4)]
    for params, splits in cases:
        ours = paged(heads, kept[0], kept[1], rows, params, splits)
        yield (
            ours,
            cache.attend(heads, own[0], own[1], 0, plan_of(cache, shares, PAGE, device), params),
        )
