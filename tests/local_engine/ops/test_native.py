"""Kernels compiled on this machine compute torch's numbers, and are optional."""

import random
import shutil

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from strowger_gateway.local_engine.ops.attention import AttentionParams, Plan, Share, Span
from strowger_gateway.local_engine.ops.kernels import PAGE, TORCH, Kernels
from strowger_gateway.local_engine.ops.native import (
    NativeLibrary,
    NoCompiler,
    library,
    native_kernels,
)
from strowger_gateway.local_engine.ops.native_build import cpu_kernels
from strowger_gateway.local_engine.sampling.batch_params import SamplingRows
from strowger_gateway.local_engine.sampling.sampler import sample
from strowger_gateway.local_engine.sampling.sampling_params import RowParams
from strowger_gateway.local_engine.sampling.top_candidates import block_maxima, use_finder
from strowger_gateway.schemas.errors import InvalidConfig
from tests.examples import examples

needs_compiler = pytest.mark.skipif(
    shutil.which("g++") is None and shutil.which("c++") is None, reason="no C++ compiler"
)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> NativeLibrary:
    return library(tmp_path_factory.mktemp("kernels"))


@pytest.fixture(scope="module")
def kernels(compiled: NativeLibrary) -> Kernels:
    return native_kernels(compiled)


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@needs_compiler
@settings(max_examples=examples(100), deadline=None)
@given(
    seed=st.integers(0, 2**31),
    vocabulary=st.sampled_from((130, 1000, 4096, 20_001)),
    count=st.integers(1, 128),
    kind=st.sampled_from(("plain", "ties", "banned", "all banned")),
    places=st.sampled_from((None, (0,), (2, 0), (1, 1, 2))),
)
def test_candidates_are_those_of_a_stable_sort(
    kernels: Kernels,
    seed: int,
    vocabulary: int,
    count: int,
    kind: str,
    places: tuple[int, ...] | None,
) -> None:
    logits = noise(3, vocabulary, seed=seed)
    if kind == "ties":
        logits = logits.round() + 0.0
    elif kind != "plain":
        logits = logits.masked_fill(logits > (0 if kind == "banned" else -9), -torch.inf)
    rows = None if places is None else torch.tensor(places)
    peaks = block_maxima(logits)
    count = min(count, peaks.size(1) - 1)
    assert kernels.best is not None

    ids = kernels.best(logits, peaks, count, rows)

    chosen = logits if rows is None else logits[rows]
    assert torch.equal(ids, chosen.sort(dim=-1, descending=True, stable=True)[1][:, :count])


@needs_compiler
def test_seeded_rows_get_the_same_tokens_with_the_kernel_and_without(kernels: Kernels) -> None:
    params = [RowParams(temperature=0.8, top_k=50, top_p=0.9, seed=seed) for seed in range(6)] + [
        RowParams(temperature=1.1, top_p=0.8, seed=7),
        RowParams(min_p=0.02, seed=8),
    ]
    logits = noise(len(params), 30_000) * 3

    def drawn() -> list[int]:
        rows = SamplingRows(
            params, [4] * len(params), vocabulary=30_000, device=torch.device("cpu")
        )
        return [int(token) for token in sample(logits, rows).ids]

    plain = drawn()
    use_finder(kernels.best)
    try:
        assert drawn() == plain
    finally:
        use_finder(None)


@needs_compiler
@pytest.mark.parametrize("rows", [1, 3, 70])
@pytest.mark.parametrize("width", [16, 50, 896])
def test_small_operations_are_torchs(rows: int, width: int, kernels: Kernels) -> None:
    x, branch, weight = noise(rows, width), noise(rows, width, seed=1), noise(width, seed=2)
    expected = [
        TORCH.norm(x, weight, 1e-6),
        *TORCH.add_norm(x.clone(), branch, weight, 1e-6),
        TORCH.swiglu(x * 20),
    ]

    out = [
        kernels.norm(x, weight, 1e-6),
        *kernels.add_norm(x.clone(), branch, weight, 1e-6),
        kernels.swiglu(x * 20),
    ]

    for mine, theirs in zip(out, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5)


@needs_compiler
def test_the_gate_of_a_very_negative_number_is_zero(kernels: Kernels) -> None:
    out = kernels.swiglu(torch.tensor([[-1e4, 1e4, 2.0, 3.0]]))

    torch.testing.assert_close(out, torch.tensor([[0.0, 3e4]]))


@needs_compiler
@pytest.mark.parametrize("width", [16, 64, 100])
def test_heads_are_rotated_as_torch_rotates_them(width: int, kernels: Kernels) -> None:
    heads = noise(5, 9, width)[:, :7]
    angles = noise(5, width, seed=1), noise(5, width, seed=2)
    expected = TORCH.rotary.rotate(heads, *TORCH.rotary.prepare(*angles))

    out = kernels.rotary.rotate(heads, *kernels.rotary.prepare(*angles))

    torch.testing.assert_close(out, expected)


def exact(query: Tensor, keys: Tensor, values: Tensor, window: int) -> Tensor:
    """One token's attention in float64. query: [H, D]; keys, values: [L, K, D]."""
    group = query.shape[0] // keys.shape[1]
    first = max(0, len(keys) - window) if window else 0
    k, v = (one[first:].double().repeat_interleave(group, dim=1) for one in (keys, values))
    scores = torch.einsum("hd,lhd->hl", query.double(), k) * 0.3
    return torch.einsum("hl,lhd->hd", scores.softmax(-1), v).float()


@needs_compiler
@pytest.mark.parametrize(("heads", "kv_heads", "width"), [(6, 2, 8), (7, 1, 64), (4, 4, 40)])
@pytest.mark.parametrize("window", [0, 5])
def test_every_token_attends_to_its_own_sequence_for_any_pages(
    heads: int, kv_heads: int, width: int, window: int, kernels: Kernels
) -> None:
    """Three sequences of different lengths on shuffled pages: a prompt, a chunk, single tokens."""
    pages = random.Random(0).sample(range(12), 12)
    blocks = (tuple(pages[:4]), tuple(pages[4:7]), tuple(pages[7:9]))
    cache = kernels.cache(12 * PAGE)
    params = AttentionParams(scale=0.3, window=window, softcap=None, sinks=None)
    sequences: list[list[Tensor]] = [[], [], []]
    for step, counts in enumerate(((PAGE + 3, 40, 2), (5, 1, 1), (1, 1, 20), (1, 1, 1))):
        made = noise(sum(counts), heads + 2 * kv_heads, width, seed=step)
        first = 0
        for seen, count in zip(sequences, counts, strict=True):
            seen += [made[row] for row in range(first, first + count)]
            first += count
        lengths = [len(seen) for seen in sequences]
        plan = _plan(cache, counts, lengths, blocks)
        key, value = made[:, heads:-kv_heads], made[:, -kv_heads:]

        out = cache.attend(made[:, :heads], key, value, 0, plan, params)

        expected = [
            exact(token[:heads], past[:, heads:-kv_heads], past[:, -kv_heads:], window)
            for seen, count in zip(sequences, counts, strict=True)
            for at in range(len(seen) - count, len(seen))
            for token, past in [(seen[at], torch.stack(seen[: at + 1]))]
        ]
        torch.testing.assert_close(out, torch.stack(expected), rtol=1e-4, atol=1e-5)


def _plan(
    cache: object, counts: tuple[int, ...], lengths: list[int], blocks: tuple[tuple[int, ...], ...]
) -> Plan:
    slots: list[int] = []
    spans: list[Span] = []
    for count, length, own in zip(counts, lengths, blocks, strict=True):
        places = [block * PAGE + item for block in own for item in range(PAGE)][:length]
        runs = tuple(
            (block * PAGE, min(PAGE, length - at * PAGE))
            for at, block in enumerate(own[: -(-length // PAGE)])
        )
        spans.append(Span(row=len(slots), count=count, runs=runs))
        slots += places[-count:]
    shares = tuple(
        Share(count=count, keys=length, blocks=own)
        for count, length, own in zip(counts, lengths, blocks, strict=True)
    )
    return Plan(
        cache=cache,  # pyright: ignore[reportArgumentType]  # `attend` does not use it
        slots=torch.tensor(slots),
        groups=(),
        spans=tuple(spans),
        shares=shares,
        masks={},
        layer_params={},
    )


@needs_compiler
def test_several_threads_give_the_numbers_of_one(kernels: Kernels) -> None:
    """With enough sequences and rows to use several threads."""
    lengths = [97, 64, 33, 80, 16, 90]
    blocks = tuple(tuple(range(7 * place, 7 * place + 7)) for place in range(6))
    cache = kernels.cache(42 * PAGE)
    params = AttentionParams(scale=0.3, window=0, softcap=None, sinks=None)
    for store in cache.of(0, noise(1, 4, 64), noise(1, 4, 64)):
        store.copy_(noise(*store.shape, seed=1))
    made, gate_up = noise(6, 20, 64), noise(24, 4096)
    outs: list[tuple[Tensor, Tensor]] = []

    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        try:
            plan = _plan(cache, (1,) * 6, lengths, blocks)
            attended = cache.attend(made[:, :12], made[:, 12:16], made[:, 16:], 0, plan, params)
            outs.append((attended, kernels.swiglu(gate_up)))
        finally:
            torch.set_num_threads(1)

    for attended, gated in outs[1:]:
        assert torch.equal(attended, outs[0][0])
        assert torch.equal(gated, outs[0][1])


@needs_compiler
def test_a_library_is_compiled_once(compiled: NativeLibrary) -> None:
    made = compiled.path.stat().st_mtime_ns

    again = library(compiled.path.parent)

    assert again.path == compiled.path
    assert again.path.stat().st_mtime_ns == made
    assert list(compiled.path.parent.iterdir()) == [compiled.path]


def test_without_a_compiler_torchs_kernels_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    logged: list[str] = []

    kernels = cpu_kernels("auto", "cpu", torch.float32, logged.append)

    assert kernels is TORCH
    assert "no C++ compiler" in logged[-1]
    with pytest.raises(NoCompiler):
        library()
    with pytest.raises(InvalidConfig, match=r"engine\.compile: on, but no C\+\+ compiler"):
        cpu_kernels("on", "cpu", torch.float32, logged.append)


@pytest.mark.parametrize(
    ("device", "dtype"), [("cuda", torch.float32), ("cpu", torch.bfloat16), ("npu", torch.float16)]
)
def test_only_float32_on_a_cpu_is_compiled(device: str, dtype: torch.dtype) -> None:
    assert cpu_kernels("auto", device, dtype, lambda _: None) is TORCH
    with pytest.raises(InvalidConfig, match=r"engine\.compile: on, but"):
        cpu_kernels("on", device, dtype, lambda _: None)


def test_with_compile_off_nothing_is_compiled_or_logged() -> None:
    logged: list[str] = []

    assert cpu_kernels("off", "cpu", torch.float32, logged.append) is TORCH
    assert logged == []
