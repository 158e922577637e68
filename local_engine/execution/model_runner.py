"""The forward pass: pack a step, run the model once, return the rows to sample from."""

import logging
from collections.abc import Mapping, Sequence
from typing import Final, cast

import torch
from msgspec import Struct
from msgspec.structs import replace
from torch import Tensor
from transformers.configuration_utils import PreTrainedConfig

from strowger_gateway.local_engine.execution.eager_trial import DECODED, PROMPT, compare_with_eager
from strowger_gateway.local_engine.execution.fused_decoder import FusedDecoder, fused_decoder
from strowger_gateway.local_engine.execution.prompt_tuning import Overlay, overlay
from strowger_gateway.local_engine.execution.step_layout import (
    Laid,
    kept_rows,
    layout,
    runs_of,
    share_of,
    tokens_of,
)
from strowger_gateway.local_engine.loading.checkpoint import Loaded
from strowger_gateway.local_engine.ops.attention import AttentionParams, Group, Plan, Share, Span
from strowger_gateway.local_engine.ops.cuda import FlashCache
from strowger_gateway.local_engine.ops.cuda_graphs import FlashSteps
from strowger_gateway.local_engine.ops.decode_graphs import Capture, DecodeGraphs, GraphedCache
from strowger_gateway.local_engine.ops.experts import take_experts, use_product
from strowger_gateway.local_engine.ops.kernels import TORCH, Kernels
from strowger_gateway.local_engine.ops.layer_rules import (
    LayerRule,
    check_layers,
    rules_of,
    take_over,
)
from strowger_gateway.local_engine.ops.npu.graphs import PagedSteps
from strowger_gateway.local_engine.ops.npu.paged_cache import PagedCache
from strowger_gateway.local_engine.ops.trial_log import trying
from strowger_gateway.local_engine.ops.upload import Upload
from strowger_gateway.local_engine.peft.lora_layers import group_rows
from strowger_gateway.local_engine.scheduling.steps import Chunk
from strowger_gateway.schemas.errors import InvalidConfig

_log: Final = logging.getLogger("strowger.engine")

TRIAL_TOKENS = 8

ROLES: Final = ("cache", "norm", "add_norm", "rotary", "swiglu", "grouped", "finish")
"""Fields of `Kernels` that the forward pass uses. `finish` needs its own cache, so it is last."""


class ChunkRows(Struct, frozen=True, kw_only=True, eq=False):
    """Rows `first` … `first + count - 1` belong to the chunk's last `count` tokens."""

    chunk: Chunk
    first: int
    count: int

    @property
    def draw(self) -> int:
        """The first row to sample from; there are `chunk.rows` of them."""
        return self.first + self.count - self.chunk.rows


class StepRows(Struct, frozen=True, kw_only=True, eq=False):
    """logits: [R, V] float32; only chunks that keep rows are listed."""

    kept: tuple[ChunkRows, ...]
    logits: Tensor


class Runner:
    """One model and its cache. Used by the engine's thread only."""

    def __init__(
        self,
        loaded: Loaded,
        *,
        device: str,
        kv_bytes: int,
        max_tokens: int,
        kernels: Kernels = TORCH,
        capture: Capture | None = None,
    ) -> None:
        """kv_bytes: for keys and values. max_tokens: upper limit of useful slots.
        kernels: kernels that passed their tests on the device.
        capture: makes decoding steps replayable if kernels and model support it.

        Raises InvalidConfig if the model's layers cannot be run, or do not all attend through the
        engine, or if not even one block fits.
        """
        self._loaded = loaded
        self._device = device
        self.block_size = kernels.page
        self._cache = TORCH.cache(self.block_size)
        self._fused: FusedDecoder | None = None
        self._upload = Upload(device)
        config = loaded.config
        try:
            check_layers(config)
            if device == "npu" or kernels.grouped is not None:
                take_experts(loaded.module)
            self._rules = rules_of(loaded.module, config)
            take_over(loaded.module, taken=True)
            self._compare_with_eager(config)
            expected, layer_params = self._trial()
        except (RuntimeError, TypeError, ValueError, IndexError, AttributeError) as exc:
            raise InvalidConfig((f"the model's layers cannot be run here: {exc}",)) from exc
        if self._cache.layers != loaded.layers:
            raise InvalidConfig(
                (
                    f"only {self._cache.layers} of the model's {loaded.layers} layers use "
                    "attention that the engine supports; serve the model with another engine",
                )
            )
        self.kernels = kernels if kernels is TORCH else self._verified(kernels, expected)
        block_bytes = self._cache.slot_bytes * self.block_size
        self.blocks = min(kv_bytes // block_bytes, -(-max_tokens // self.block_size))
        if self.blocks < 1:
            raise InvalidConfig(
                (f"engine.kv_cache: {kv_bytes} bytes; set at least {block_bytes} (one block)",)
            )
        spare = 0 if capture is None else 1
        self._cache = self.kernels.cache((self.blocks + spare) * self.block_size)
        for candidate in (self.kernels, replace(TORCH, page=self.block_size)):
            self._fused = fused_decoder(loaded.module, layer_params, candidate)
            if self._fused is None or self._agrees(expected, f"{candidate.name}, fused"):
                break
            self._fused = None
        self._trial()
        self.graphs = None if capture is None else self._capture_graphs(capture)

    def _capture_graphs(self, capture: Capture) -> DecodeGraphs | None:
        """Return the graphs, or `None` if a step is more than kernels over a suitable cache."""
        cache, fused, device = self._cache, self._fused, self._device
        if fused is None or self._loaded.sites is not None:
            return None
        spare = self.blocks * self.block_size
        longest = min(self._loaded.context, spare)
        source: GraphedCache
        if isinstance(cache, FlashCache):
            source = FlashSteps(cache, spare=spare, longest=longest, device=device)
        elif isinstance(cache, PagedCache) and cache.computes(fused.params):
            source = PagedSteps(cache, spare=spare, longest=longest, device=device)
        else:
            return None
        return DecodeGraphs(
            lambda ids, positions, plan: fused(ids, positions, None, plan),
            source,
            capture,
            spare=spare,
            device=device,
        )

    def _verified(self, kernels: Kernels, expected: Tensor) -> Kernels:
        """Return the kernels with which the model's logits match those with torch's.

        If they do not match with all of them, each role whose kernel changes them is torch's.
        """
        if self._matches(kernels, expected):
            return kernels
        kept = replace(TORCH, page=self.block_size)
        if not self._matches(kept, expected):
            raise InvalidConfig(("the model's logits differ between two equal runs",))
        for role in ROLES:
            kernel = getattr(kernels, role)
            if kernel is getattr(TORCH, role):
                continue
            one_more = replace(kept, name=kernels.name, **{role: kernel})
            if self._matches(one_more, expected):
                kept = one_more
            else:
                _log.warning(
                    "the model's logits differ with the kernel for %s, so torch computes it, "
                    "which is slower",
                    role,
                )
        use_product(self._loaded.module, kept.grouped)
        return kept

    def _matches(self, kernels: Kernels, expected: Tensor) -> bool:
        """Whether the logits with these kernels, also in the fused decoder, are the expected."""
        self._cache = kernels.cache(self.block_size)
        use_product(self._loaded.module, kernels.grouped)
        layer_params = self._trial()[1]
        self._fused = fused_decoder(self._loaded.module, layer_params, kernels)
        agrees = self._agrees(expected, kernels.name)
        self._fused = None
        return agrees

    def _agrees(self, expected: Tensor, kernels: str) -> bool:
        """True if the mean difference to `expected` is within rounding."""
        allowed = 1e-3 if self._loaded.module.dtype == torch.float32 else 5e-2
        with trying("the whole model", f"kernels: {kernels}") as trial:
            trial.tried = f"{TRIAL_TOKENS} tokens"
            found = self._trial()[0]
            trial.gap = float((found - expected).abs().mean() / expected.abs().mean())
            if not (agrees := trial.gap <= allowed):
                trial.problem = "the logits differ from those with torch's operations"
        return agrees

    @torch.inference_mode()
    def forward(self, chunks: Sequence[Chunk]) -> StepRows:
        """Compute the chunks in one pass. Single tokens come first, in the order of their slots."""
        size = self.block_size
        laid = [(chunk, runs_of(chunk, size)) for chunk in chunks]
        laid.sort(key=lambda pair: (pair[0].count > 1, len(pair[1]) > 1, pair[1][0][0]))
        ids: list[int] = []
        positions: list[int] = []
        slots: list[int] = []
        wanted: list[int] = []
        kept: list[ChunkRows] = []
        for chunk, _ in laid:
            end = chunk.start + chunk.count
            blocks = chunk.sequence.blocks
            ids += tokens_of(chunk.sequence, chunk.start, end)
            positions += range(chunk.start, end)
            slots += [blocks[p // size] * size + p % size for p in range(chunk.start, end)]
            if count := kept_rows(chunk):
                kept.append(ChunkRows(chunk=chunk, first=len(wanted), count=count))
                wanted += range(len(ids) - count, len(ids))
        groups, spans = layout(laid, self.blocks * size)
        shares = tuple(share_of(chunk, size) for chunk, _ in laid)
        replaced = overlay(
            [(chunk.sequence, chunk.count) for chunk, _ in laid],
            ids,
            self._loaded.vocab,
            self._device,
        )
        self._adapt(laid)
        packed, keep, numbers = self._packed(
            [*ids, *positions, *slots],
            None if len(wanted) == len(ids) else wanted or [0],
            self._cache.page_rows(shares) if isinstance(self._cache, PagedCache) else [],
        )
        plan = self._plan(packed[2], packed[1], groups, spans, shares, numbers)
        logits: Tensor | None = None
        if self.graphs is not None and keep is None and replaced is None:
            logits = self.graphs.logits(packed, plan)
        if logits is None:
            logits = self._run(packed[0], packed[1], keep, plan, replaced)
        return StepRows(kept=tuple(kept), logits=logits.float() if wanted else logits[:0].float())

    def _packed(
        self, lanes: list[int], wanted: list[int] | None, pages: list[int]
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Return lanes as [3, T] int64, the wanted rows, and slots and pages for `Plan.numbers`.

        lanes: ids, positions and slots. One copy to the device for all.
        """
        if wanted is None and not pages:
            return self._upload(lanes).view(3, -1), None, None
        flat = self._upload([*lanes, *pages, *(wanted or ())])
        count, end = len(lanes), len(lanes) + len(pages)
        numbers = flat[count // 3 * 2 : end].to(torch.int32) if pages else None
        return flat[:count].view(3, -1), None if wanted is None else flat[end:], numbers

    @torch.inference_mode()
    def copy(self, source: int, target: int) -> None:
        """Copy a page to another one, in every layer."""
        size = self.block_size
        self._cache.copy(source * size, target * size, size)

    @property
    def cache_bytes(self) -> int:
        """Memory of all pages."""
        return self._cache.slot_bytes * self.block_size * self.blocks

    @property
    def fused(self) -> bool:
        """True if the model runs without transformers' modules."""
        return self._fused is not None

    def _adapt(self, laid: "Laid") -> None:
        """Set the adapter of each of the step's rows for the model's layers."""
        if self._loaded.sites is not None:
            step = self._loaded.sites.step
            step.active = group_rows(((c.sequence.adapter, c.count) for c, _ in laid), self._device)
            step.rows = sum(chunk.count for chunk, _ in laid)

    def _run(
        self,
        ids: Tensor,
        positions: Tensor,
        keep: Tensor | None,
        plan: Plan,
        replaced: Overlay | None = None,
    ) -> Tensor:
        """Return [R, V] float32 logits for the rows `keep` of T packed tokens (`None`: all)."""
        embedded: Tensor | None = None
        if replaced is not None:
            embedded = cast(Tensor, self._loaded.embed(ids))
            embedded.index_copy_(0, replaced.rows, replaced.values)
        if self._fused is not None:
            return self._fused(ids, positions, keep, plan, embedded).float()
        output = self._loaded.forward(
            input_ids=ids.unsqueeze(0) if embedded is None else None,
            inputs_embeds=None if embedded is None else embedded.unsqueeze(0),
            position_ids=positions.unsqueeze(0),
            use_cache=False,
            logits_to_keep=0 if keep is None else keep,
            plan=plan,
        )
        return output.logits[0].float()

    @torch.inference_mode()
    def _trial(self) -> tuple[Tensor, dict[int, AttentionParams]]:
        """Run a few tokens through all layers: creates the caches, records attention parameters.

        Returns [TRIAL_TOKENS, V] logits and the attention parameters by layer.
        """
        places = torch.arange(TRIAL_TOKENS, device=self._device)
        span = Span(row=0, count=TRIAL_TOKENS, runs=((0, TRIAL_TOKENS),))
        share = Share(count=TRIAL_TOKENS, keys=TRIAL_TOKENS, blocks=(0,))
        plan = self._plan(places, places, (), (span,), (share,))
        ids = places * 37 % self._loaded.vocab
        return self._run(ids, places, None, plan), plan.layer_params

    def _compare_with_eager(self, config: PreTrainedConfig) -> None:
        """Raises WrongAttention if the engine's attention is not the model's own."""
        count = min(PROMPT + DECODED, self._loaded.context)
        ids = torch.arange(count, device=self._device) * 37 % self._loaded.vocab
        compare_with_eager(self._loaded.module, config, ids, self._steps)

    @torch.inference_mode()
    def _steps(
        self, ids: Tensor, prompt: int, rules: Mapping[int, LayerRule]
    ) -> tuple[Tensor, Mapping[int, int]]:
        """See `eager_trial.Steps`: one sequence over torch's operations and a cache of its own."""
        pages = -(-len(ids) // self.block_size)
        cache, size = TORCH.cache(pages * self.block_size), self.block_size
        first: dict[int, int] = {}
        logits: list[Tensor] = []
        start = 0
        for end in (prompt, *range(prompt + 1, len(ids) + 1)):
            places = torch.arange(start, end, device=self._device)
            blocks = tuple(range(-(-end // size)))
            plan = Plan(
                cache=cache,
                slots=places,
                groups=(),
                spans=(Span(row=0, count=end - start, runs=((0, end),)),),
                shares=(Share(count=end - start, keys=end, blocks=blocks),),
                masks={},
                layer_params={},
                rules=rules,
                positions=places,
                calls=None if start else first,
            )
            logits.append(self._run(ids[start:end], places, None, plan))
            start = end
        return torch.cat(logits), first

    def _plan(
        self,
        slots: Tensor,
        positions: Tensor,
        groups: tuple[Group, ...],
        spans: tuple[Span, ...],
        shares: tuple[Share, ...],
        numbers: Tensor | None = None,
    ) -> Plan:
        return Plan(
            cache=self._cache,
            slots=slots,
            groups=groups,
            spans=spans,
            shares=shares,
            masks={},
            layer_params={},
            rules=self._rules,
            positions=positions,
            numbers=numbers,
        )
