"""The registered attention compared with the textbook's, over every layout of the cache."""

import random
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from torch import Tensor, nn

from strowger_gateway.local_engine.ops.attention import (
    Group,
    Plan,
    Span,
    UnsupportedAttention,
    attend,
)
from strowger_gateway.local_engine.ops.contiguous_cache import KeyValueCache
from tests.examples import examples

SLOTS, HEADS, KV_HEADS, WIDTH = 96, 4, 2, 8


class Layer(nn.Module):
    layer_idx = 0
    is_causal = True


class Part(Struct, frozen=True, kw_only=True):
    """One sequence: the slots of its keys, and how many of its last tokens are computed now."""

    runs: tuple[tuple[int, int], ...]
    count: int

    @property
    def slots(self) -> list[int]:
        return [slot for first, length in self.runs for slot in range(first, first + length)]


class Case(Struct, frozen=True, kw_only=True):
    window: int | None
    softcap: float | None
    sinks: Tensor | None


def textbook(query: Tensor, keys: Tensor, values: Tensor, case: Case) -> Tensor:
    """[count, H, D] for the last `count` of L tokens. query: [H, count, D], keys: [K, L, D]."""
    count, length = query.shape[1], keys.shape[1]
    keys, values = (one.repeat_interleave(HEADS // KV_HEADS, dim=0) for one in (keys, values))
    scores = query @ keys.transpose(1, 2) * WIDTH**-0.5
    if case.softcap is not None:
        scores = torch.tanh(scores / case.softcap) * case.softcap
    for row in range(count):
        own = length - count + row
        scores[:, row, own + 1 :] = -torch.inf
        if case.window is not None:
            scores[:, row, : max(0, own - case.window + 1)] = -torch.inf
    if case.sinks is not None:
        sinks = case.sinks.view(HEADS, 1, 1).expand(-1, count, 1)
        weights = torch.cat([scores, sinks], -1).softmax(-1)[..., :-1]
    else:
        weights = scores.softmax(-1)
    return (weights @ values).transpose(0, 1)


def random_parts(source: random.Random) -> list[Part]:
    """Sequences on disjoint slots: contiguous, in several runs, or at equal distances."""
    parts: list[Part] = []
    for first in range(0, SLOTS, 24):
        length = source.randint(2, 20)
        count = 1 if source.random() < 0.6 else source.randint(2, length)
        runs = ((first, length),)
        if source.random() < 0.3:
            cut = source.randint(1, length - 1)
            runs = ((first + 24 - cut, cut), (first, length - cut))
        parts.append(Part(runs=runs, count=count))
    return parts


def plan_of(parts: list[Part], cache: KeyValueCache) -> tuple[Plan, list[Part]]:
    """Contiguous decoding sequences are one group; the others are single."""
    singles = [part for part in parts if part.count == 1 and len(part.runs) == 1]
    steps = {b.runs[0][0] - a.runs[0][0] for a, b in pairwise(singles)}
    if len(steps) > 1:
        singles = singles[:2]
    others = [part for part in parts if part not in singles]
    spans: list[Span] = []
    row = len(singles)
    for part in others:
        spans.append(Span(row=row, count=part.count, runs=part.runs))
        row += part.count
    groups: tuple[Group, ...] = ()
    if singles:
        stride = singles[1].runs[0][0] - singles[0].runs[0][0] if len(singles) > 1 else 0
        keys = tuple(part.runs[0][1] for part in singles)
        groups = (Group(row=0, slot=singles[0].runs[0][0], stride=stride, keys=keys),)
    ordered = [*singles, *others]
    slots = [slot for part in ordered for slot in part.slots[-part.count :]]
    plan = Plan(
        cache=cache,
        slots=torch.tensor(slots),
        groups=groups,
        spans=tuple(spans),
        shares=(),
        masks={},
        layer_params={},
    )
    return plan, ordered


@settings(deadline=None, max_examples=examples(120))
@given(
    st.integers(0, 2**32),
    st.sampled_from([None, 3, 7, 100]),
    st.sampled_from([None, 2.0]),
    st.booleans(),
)
def test_attention_equals_the_textbooks_for_every_layout(
    seed: int, window: int | None, softcap: float | None, sinks: bool
) -> None:
    noise = torch.Generator().manual_seed(seed)
    case = Case(
        window=window,
        softcap=softcap,
        sinks=torch.randn(HEADS, generator=noise) if sinks else None,
    )
    cache = KeyValueCache(SLOTS)
    plan, parts = plan_of(random_parts(random.Random(seed)), cache)
    total = len(plan.slots)
    query = torch.randn(1, HEADS, total, WIDTH, generator=noise)
    key = torch.randn(1, KV_HEADS, total, WIDTH, generator=noise)
    value = torch.randn(1, KV_HEADS, total, WIDTH, generator=noise)
    keys, values = cache.of(0, key[0].transpose(0, 1), value[0].transpose(0, 1))
    keys.copy_(torch.randn(keys.shape, generator=noise))
    values.copy_(torch.randn(values.shape, generator=noise))

    out, _ = attend(
        Layer(),
        query,
        key,
        value,
        None,
        plan=plan,
        scaling=WIDTH**-0.5,
        sliding_window=window,
        softcap=softcap,
        s_aux=case.sinks,
    )

    row = 0
    for part in parts:
        rows = query[0, :, row : row + part.count]
        expected = textbook(rows, keys[:, part.slots], values[:, part.slots], case)
        torch.testing.assert_close(out[0, row : row + part.count], expected)
        row += part.count


def test_unsupported_attention_is_rejected() -> None:
    cache = KeyValueCache(4)
    one = torch.zeros(1, KV_HEADS, 1, WIDTH)
    query = torch.zeros(1, HEADS, 1, WIDTH)
    span = Span(row=0, count=1, runs=((0, 1),))
    plan = Plan(
        cache=cache,
        slots=torch.tensor([0]),
        groups=(),
        spans=(span,),
        shares=(),
        masks={},
        layer_params={},
    )

    with pytest.raises(UnsupportedAttention, match="keyword arguments"):
        attend(Layer(), query, one, one, None)
    with pytest.raises(UnsupportedAttention, match="its own mask or bias"):
        attend(Layer(), query, one, one, torch.zeros(1), plan=plan)
    with pytest.raises(UnsupportedAttention, match="its own mask or bias"):
        attend(Layer(), query, one, one, None, plan=plan, is_causal=False)
