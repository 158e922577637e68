"""Programs for NVIDIA GPUs in Triton, which comes with torch's CUDA packages; triton_ops.py runs
them. Importing this module raises ImportError without Triton.

Triton compiles these functions from their source, so they use its language only
(https://triton-lang.org). Letters as in attention.py; lengths in elements.
"""

# Triton is not installed for a CPU, and its language has no types:
# pyright: basic, reportMissingImports=false, reportUntypedFunctionDecorator=false
# pyright: reportUnreachable=false

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)

# Not one argument per line:
# fmt: off


# The parts are equal numbers of blocks of the keys inside the window, so their number is fixed
# while the lengths are read here. The heads are the rows of one product, padded to 16.
# out:   [B, H, D], or with several parts [B, H, splits, D] float32, not divided by the sum.
# state: [B, H, splits, 2] float32, each part's maximum (in powers of two) and sum.
# Not compiled again for other values, nor for buffers at other addresses:
@triton.jit(
    do_not_specialize=["window", "table_row"],
    do_not_specialize_on_alignment=["table", "seats", "used", "sinks", "state"],
)
def attend_pages(
    query, keys, values, table, seats, used, sinks, out, state, scale, softcap, window,
    query_row, query_head, table_row, kv_heads: tl.constexpr, group: tl.constexpr,
    group_padded: tl.constexpr, width: tl.constexpr, width_padded: tl.constexpr,
    page: tl.constexpr, block: tl.constexpr, splits: tl.constexpr, capped: tl.constexpr,
    sunk: tl.constexpr,
):
    """One sequence's query heads of one key/value head, over one part of its keys."""
    row = tl.program_id(0).to(tl.int64)
    kv_head = tl.program_id(1)
    split = tl.program_id(2)
    count = tl.load(used + row)
    pages = table + tl.load(seats + row).to(tl.int64) * table_row
    first = tl.where(window > 0, tl.maximum(count - window, 0), 0)
    begin = first // block
    each = tl.cdiv(tl.cdiv(count, block) - begin, splits)
    begin += split * each
    end = tl.minimum(begin + each, tl.cdiv(count, block))
    member = tl.arange(0, group_padded)
    heads = kv_head * group + member
    item = tl.arange(0, width_padded)
    own = (member < group)[:, None] & (item < width)[None, :]
    places = heads[:, None] * query_head + item[None, :]
    q = tl.load(query + row * query_row + places, mask=own, other=0.0)
    best = tl.full([group_padded], float("-inf"), tl.float32)
    total = tl.zeros([group_padded], tl.float32)
    mixed = tl.zeros([group_padded, width_padded], tl.float32)
    if sunk:  # noqa: SIM102 - a constant, and a number that is known when the program runs
        if split == 0:
            best = tl.load(sinks + heads, mask=member < group, other=0.0).to(tl.float32) * LOG2E
            total += 1.0
    for number in range(begin, end):
        at = number * block + tl.arange(0, block)
        known = at < count
        number_of_page = tl.load(pages + at // page, mask=known, other=0)
        slot = number_of_page.to(tl.int64) * page + at % page
        start = (slot * kv_heads + kv_head) * width
        inside = known[:, None] & (item < width)[None, :]
        k = tl.load(keys + start[:, None] + item[None, :], mask=inside, other=0.0)
        scores = tl.dot(q, tl.trans(k)) * scale
        if capped:
            # tanh(x) = 1 - 2 / (e^2x + 1), which is right at both ends.
            scores = softcap * (1.0 - 2.0 / (tl.exp(2.0 * scores / softcap) + 1.0))
        scores = tl.where((known & (at >= first))[None, :], scores * LOG2E, float("-inf"))
        higher = tl.maximum(best, tl.max(scores, 1))
        weights = tl.exp2(scores - higher[:, None])
        shrink = tl.exp2(best - higher)
        v = tl.load(values + start[:, None] + item[None, :], mask=inside, other=0.0)
        mixed = tl.dot(weights.to(v.dtype), v, mixed * shrink[:, None])
        total = total * shrink + tl.sum(weights, 1)
        best = higher
    place = (row * (kv_heads * group) + heads) * splits + split
    target = out + place[:, None] * width + item[None, :]
    if splits == 1:
        tl.store(target, (mixed / total[:, None]).to(out.dtype.element_ty), mask=own)
    else:
        tl.store(target, mixed, mask=own)
        tl.store(state + place * 2, best, mask=member < group)
        tl.store(state + place * 2 + 1, total, mask=member < group)


@triton.jit
def join_parts(
    parts, state, out, width: tl.constexpr, width_padded: tl.constexpr, splits: tl.constexpr,
):
    """Add up one head's parts. parts, state: from `attend_pages`; out: [B, H, D]."""
    place = tl.program_id(0).to(tl.int64)
    part = place * splits + tl.arange(0, splits)
    item = tl.arange(0, width_padded)
    best = tl.load(state + part * 2)
    weights = tl.exp2(best - tl.max(best, 0))
    total = tl.sum(weights * tl.load(state + part * 2 + 1), 0)
    inside = item < width
    mixed = tl.load(parts + part[:, None] * width + item[None, :], mask=inside[None, :], other=0.0)
    joined = tl.sum(mixed * weights[:, None], 0) / total
    tl.store(out + place * width + item, joined.to(out.dtype.element_ty), mask=inside)


@triton.jit
def add_and_norm(
    x, branch, weight, total, out, eps, x_outer, x_inner, inner: tl.constexpr,
    width: tl.constexpr, width_padded: tl.constexpr, added: tl.constexpr,
):
    """Normalise one row of x, or of x + branch, which is stored in `total`.

    x: rows at x_outer and x_inner, `inner` of the latter; the others are contiguous.
    """
    row = tl.program_id(0).to(tl.int64)
    item = tl.arange(0, width_padded)
    inside = item < width
    start = row // inner * x_outer + row % inner * x_inner
    value = tl.load(x + start + item, mask=inside, other=0.0)
    if added:
        value = value.to(tl.float32) + tl.load(
            branch + row * width + item, mask=inside, other=0.0
        ).to(tl.float32)
        # Rounded as the residual stream that the next layer reads.
        value = value.to(total.dtype.element_ty)
        tl.store(total + row * width + item, value, mask=inside)
    wide = value.to(tl.float32)
    shrink = tl.rsqrt(tl.sum(wide * wide, 0) / width + eps)
    scaled = wide * shrink * tl.load(weight + item, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * width + item, scaled.to(out.dtype.element_ty), mask=inside)


@triton.jit
def gate(
    gate_up, out, width, block: tl.constexpr,
):
    """silu(gate) * up. gate_up: [T, 2F]; out: [T, F], `width` is F."""
    row = tl.program_id(0).to(tl.int64)
    item = tl.program_id(1) * block + tl.arange(0, block)
    inside = item < width
    gated = tl.load(gate_up + row * 2 * width + item, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(gate_up + row * 2 * width + width + item, mask=inside, other=0.0)
    value = (gated / (1.0 + tl.exp(-gated))).to(up.dtype).to(tl.float32) * up.to(tl.float32)
    tl.store(out + row * width + item, value.to(out.dtype.element_ty), mask=inside)


@triton.jit
def finish_heads(
    mixed, cos, sin, query_weight, key_weight, slots, query, keys, values, query_eps, key_eps,
    mixed_row, heads: tl.constexpr, kv_heads: tl.constexpr, width: tl.constexpr,
    half_padded: tl.constexpr, normed: tl.constexpr,
):
    """One head of one token between the joint projection and attention.

    Query heads are normalised (if `normed`), rotated and stored in `query`; key heads are so in the
    cache at the token's slot, and value heads as they are.

    mixed: [T, H + 2K, D]. cos, sin: [T, D], both halves equal. query: [T, H, D]. keys, values:
    [S, K, D].
    """
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    half = tl.arange(0, half_padded)
    inside = half < width // 2
    source = mixed + token * mixed_row + head * width + half
    low = tl.load(source, mask=inside, other=0.0)
    high = tl.load(source + width // 2, mask=inside, other=0.0)
    if head >= heads + kv_heads:
        place = tl.load(slots + token) * kv_heads + head - heads - kv_heads
        tl.store(values + place * width + half, low, mask=inside)
        tl.store(values + place * width + width // 2 + half, high, mask=inside)
    else:
        if normed:
            a, b = low.to(tl.float32), high.to(tl.float32)
            square = (tl.sum(a * a, 0) + tl.sum(b * b, 0)) / width
            if head < heads:
                weight, shrink = query_weight, tl.rsqrt(square + query_eps)
            else:
                weight, shrink = key_weight, tl.rsqrt(square + key_eps)
            first = tl.load(weight + half, mask=inside, other=0.0).to(tl.float32)
            second = tl.load(weight + width // 2 + half, mask=inside, other=0.0).to(tl.float32)
            # Rounded as by separate operations.
            low = (a * shrink * first).to(low.dtype)
            high = (b * shrink * second).to(high.dtype)
        a, b = low.to(tl.float32), high.to(tl.float32)
        angle = token * width + half
        c = tl.load(cos + angle, mask=inside, other=0.0).to(tl.float32)
        s = tl.load(sin + angle, mask=inside, other=0.0).to(tl.float32)
        one = (a * c - b * s).to(low.dtype)
        two = (b * c + a * s).to(low.dtype)
        if head < heads:
            target = query + (token * heads + head) * width
        else:
            place = tl.load(slots + token) * kv_heads + head - heads
            target = keys + place * width
        tl.store(target + half, one, mask=inside)
        tl.store(target + width // 2 + half, two, mask=inside)
