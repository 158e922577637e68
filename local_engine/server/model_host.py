"""Load the configured generating models, each with its lane in the engine loop."""

import os
import time
from collections.abc import Callable, Mapping
from typing import cast

import torch
from msgspec import UNSET, Struct, UnsetType, structs
from transformers.generation.configuration_utils import GenerationConfig

from strowger_gateway.local_engine.config import EngineConfig, ModelConfig
from strowger_gateway.local_engine.device import choose_device, choose_dtype, free_bytes, probe
from strowger_gateway.local_engine.execution.model_lane import ModelLane
from strowger_gateway.local_engine.execution.model_runner import Runner
from strowger_gateway.local_engine.execution.step_sampler import tried_sampler
from strowger_gateway.local_engine.guided.compiler import GuideCompiler
from strowger_gateway.local_engine.loading.checkpoint import Loaded, end_tokens, load
from strowger_gateway.local_engine.loading.checkpoint_files import check_tokenizer
from strowger_gateway.local_engine.loading.hub_files import check_declared
from strowger_gateway.local_engine.loading.load_faults import model_named
from strowger_gateway.local_engine.loading.model_paths import model_folder
from strowger_gateway.local_engine.ops.kernel_selection import KernelSelection, select_kernels
from strowger_gateway.local_engine.ops.native_build import cpu_kernels
from strowger_gateway.local_engine.ops.self_test import TrialSizes
from strowger_gateway.local_engine.peft.lora_cache import LoraCache
from strowger_gateway.local_engine.peft.lora_layers import Adapter
from strowger_gateway.local_engine.peft.peft_format import load_adapter
from strowger_gateway.local_engine.protocol.stats import Footprint
from strowger_gateway.local_engine.requests.answer_stream import TokenNames
from strowger_gateway.local_engine.requests.request_reader import RequestReader
from strowger_gateway.local_engine.sampling.top_candidates import use_finder
from strowger_gateway.local_engine.scheduling.block_pool import BlockPool
from strowger_gateway.local_engine.scheduling.scheduler import Scheduler
from strowger_gateway.local_engine.scheduling.steps import SchedulerLimits
from strowger_gateway.local_engine.server.memory_fit import refuse_too_large
from strowger_gateway.local_engine.server.request_adapters import AdapterResolver
from strowger_gateway.local_engine.server.tokenizer_fit import refuse_other_tokenizer
from strowger_gateway.local_engine.server.warmup import warm_up
from strowger_gateway.local_engine.text.tokenizer import Tokenizer
from strowger_gateway.schemas.errors import InvalidConfig
from strowger_gateway.schemas.sampling import Sampling

CPU_CACHE_BYTES = 2 << 30
STEP_TOKENS = {"cpu": 512, "cuda": 8192, "npu": 8192}


class ServedModel(Struct, frozen=True, kw_only=True, eq=False):
    """A loaded model, or a LoRA adapter on it. context: tokens of prompt and answer together.

    base: the model whose lane computes it: itself, or the one that the adapter changes.
    """

    name: str
    base: str
    adapter_resolver: AdapterResolver
    tokenizer: Tokenizer
    names: TokenNames
    reader: RequestReader
    guides: GuideCompiler
    lane: ModelLane
    context: int
    vocabulary: int


Hosting = Callable[[EngineConfig, Callable[[str], None]], dict[str, ServedModel]]


def host(config: EngineConfig, report: Callable[[str], None]) -> dict[str, ServedModel]:
    """Load every generating model, in order.

    `report` receives a line when a long step starts or ends.
    Raises InvalidConfig naming the model that cannot be served.
    """
    if config.threads:
        torch.set_num_threads(config.threads)
    available = probe()
    device = choose_device(config.device, available)
    dtype = choose_dtype(config.dtype, device, available)
    report(f"device {device}, {str(dtype).removeprefix('torch.')}")
    loaded = _load(config, device, dtype, report)
    lora_cache = LoraCache(most=config.max_loras, most_bytes=config.max_lora_bytes)
    named = _adapters(config, {model.name: weights for model, weights, _ in loaded}, report)
    kv_bytes = _cache_bytes(config, device) // max(len(loaded), 1)
    kernels = cpu_kernels(config.compile, device, dtype, report)
    use_finder(kernels.best)
    hosted: dict[str, ServedModel] = {}
    for model, weights, tokenizer in loaded:
        with model_named(model.name, model.path):
            sizes = TrialSizes(
                step_tokens=config.max_step_tokens or STEP_TOKENS[device],
                sequences=config.max_sequences,
            )
            selection = select_kernels(device, dtype, weights.shapes, sizes=sizes)
            if device == "cpu":
                selection = structs.replace(selection, kernels=kernels)
            else:
                if not config.graphs:
                    selection = structs.replace(selection, capture=None)
                for line in selection.lines:
                    report(f"{model.name}: {line}")
            device_share = _DeviceShare(
                lora_cache=lora_cache, device=device, kv_bytes=kv_bytes, selection=selection
            )
            one = _build_model(config, model, weights, tokenizer, device_share)
        hosted[model.name] = one
        for lora in config.loras:
            if lora.base == model.name:
                adapter_resolver = one.adapter_resolver.adapted(named[lora.name])
                hosted[lora.name] = structs.replace(
                    one, name=lora.name, adapter_resolver=adapter_resolver
                )
    _warm_up(config, hosted, device, report)
    return hosted


def _warm_up(
    config: EngineConfig,
    hosted: Mapping[str, ServedModel],
    device: str,
    report: Callable[[str], None],
) -> None:
    """Run each lane once before clients do. Raises InvalidConfig naming the model."""
    paths = {model.name: model.path for model in config.models}
    for one in hosted.values():
        if one.name == one.base:
            report(f"warming up {one.name}")
            budget = config.max_step_tokens or STEP_TOKENS[device]
            with model_named(one.name, paths[one.name]):
                warm_up(one.name, one.lane, vocabulary=one.vocabulary, step_tokens=budget)
        stats = one.lane.stats()
        report(f"{one.name} is ready: context {one.context}, {stats.blocks_total} cache blocks")


def _load(
    config: EngineConfig, device: str, dtype: torch.dtype, report: Callable[[str], None]
) -> list[tuple[ModelConfig, Loaded, Tokenizer]]:
    """Read the generating models' files. Raises InvalidConfig naming the model."""
    loaded: list[tuple[ModelConfig, Loaded, Tokenizer]] = []
    for model in config.models:
        if model.task != "generate":
            continue
        path = model_folder(model.path, model.revision)
        report(f"loading {model.name} from {model.path}")
        adapters = config.accept_lora or any(lora.base == model.name for lora in config.loras)
        with model_named(model.name, path):
            check_tokenizer(path, model.task)
            check_declared(path, model.task)
            refuse_too_large(path, device, dtype)
            weights = load(path, device=device, dtype=dtype, adapters=adapters)
            tokenizer = Tokenizer(path, parses=model.special_tokens_in_prompts == "parse")
            refuse_other_tokenizer(tokenizer, path, weights.vocab, ends=end_tokens(weights, None))
        if weights.cut:
            report(f"{model.name}: {weights.cut}")
        loaded.append((model, weights, tokenizer))
    return loaded


class _DeviceShare(Struct, frozen=True, kw_only=True, eq=False):
    """The share of the device that one model gets."""

    lora_cache: LoraCache
    device: str
    kv_bytes: int
    selection: KernelSelection


def _build_model(
    config: EngineConfig,
    model: ModelConfig,
    loaded: Loaded,
    tokenizer: Tokenizer,
    device_share: _DeviceShare,
) -> ServedModel:
    lane = _lane(config, loaded, device_share)
    ends = end_tokens(loaded, tokenizer.end)
    guides = GuideCompiler(
        tokenizer.describe(), vocabulary=loaded.vocab, known=tokenizer.size, ends=ends
    )
    reader = RequestReader(
        tokenizer,
        guides,
        vocabulary=loaded.vocab,
        ends=ends,
        longest=lane.longest(),
        max_new=config.max_new_tokens,
        defaults=_defaults(loaded.generation),
        hidden=loaded.hidden,
        max_logits_bytes=config.max_logits_bytes,
        holds_calls=model.holds_calls,
    )
    adapter_resolver = AdapterResolver(
        loaded,
        model=model.name,
        lora_cache=device_share.lora_cache,
        device=device_share.device,
        accept_lora=config.accept_lora,
    )
    return ServedModel(
        name=model.name,
        base=model.name,
        adapter_resolver=adapter_resolver,
        tokenizer=tokenizer,
        names=TokenNames(tokenizer),
        reader=reader,
        guides=guides,
        lane=lane,
        context=lane.longest(),
        vocabulary=loaded.vocab,
    )


def _lane(config: EngineConfig, loaded: Loaded, device_share: _DeviceShare) -> ModelLane:
    context = min(config.max_seq_len or loaded.context, loaded.context)
    runner = Runner(
        loaded,
        device=device_share.device,
        kv_bytes=device_share.kv_bytes,
        max_tokens=config.max_sequences * context,
        kernels=device_share.selection.kernels,
        capture=device_share.selection.capture,
    )
    limits = SchedulerLimits(
        max_step_tokens=config.max_step_tokens or STEP_TOKENS[device_share.device],
        max_sequences=config.max_sequences,
        max_seq_len=context,
        max_first_token_wait_s=config.max_first_token_wait_s,
    )
    pool = BlockPool(runner.blocks, runner.block_size, prefix_cache=config.prefix_cache)
    footprint = Footprint(
        weights_bytes=loaded.weights_bytes,
        cache_bytes=runner.cache_bytes,
        loaded_since=time.time(),
    )
    return ModelLane(
        runner,
        Scheduler(limits, pool),
        tried_sampler(loaded.vocab, device_share.device, device_share.selection.operator),
        footprint,
        drafts=config.draft_tokens,
    )


def _adapters(
    config: EngineConfig, models: Mapping[str, Loaded], report: Callable[[str], None]
) -> dict[str, Adapter]:
    """Load the configured adapters, by name. Raises InvalidConfig."""
    found: dict[str, Adapter] = {}
    for lora in config.loras:
        base = models.get(lora.base)
        if base is None or base.sites is None:
            raise InvalidConfig((f"engine.loras: {lora.name}: base model {lora.base} not found",))
        if lora.name in found or lora.name in models:
            raise InvalidConfig((f"engine.loras: {lora.name}: the name is already used",))
        report(f"loading {lora.name} from {lora.path}")
        found[lora.name] = load_adapter(lora.name, os.path.expanduser(lora.path), base.sites)
    return found


def _cache_bytes(config: EngineConfig, device: str) -> int:
    if config.kv_cache != "auto":
        return config.kv_cache
    free = free_bytes(device)
    if config.accept_lora:
        free = max(free - config.max_lora_bytes, 0)
    whole = min(CPU_CACHE_BYTES, free // 4) if device == "cpu" else int(0.9 * free)
    return whole // config.engines


def _defaults(generation: GenerationConfig) -> Sampling:
    """Return the checkpoint's recommended sampling (generation_config.json), if any.

    `do_sample: false` means temperature 0.
    """

    def number(name: str) -> float | UnsetType:
        value = cast(object, getattr(generation, name, None))
        return float(value) if isinstance(value, int | float) else UNSET

    top_k = number("top_k")
    greedy = cast(object, generation.do_sample) is False
    return Sampling(
        temperature=0.0 if greedy else number("temperature"),
        top_p=number("top_p"),
        top_k=UNSET if top_k is UNSET else int(top_k),
        min_p=number("min_p"),
        repetition_penalty=number("repetition_penalty"),
    )
