"""The engine's side of a comparison: the lane of one model, stepped by the benchmark."""

from collections.abc import Sequence
from pathlib import Path

import torch
from msgspec.structs import replace

from benchmarks.engine.shapes import CONTEXT, Shape, folder
from benchmarks.engine.timing import Run, Stopwatch
from strowger_gateway.local_engine.config import CompileMode
from strowger_gateway.local_engine.execution.jobs import Job
from strowger_gateway.local_engine.execution.model_lane import ModelLane
from strowger_gateway.local_engine.execution.model_runner import Runner
from strowger_gateway.local_engine.execution.step_sampler import StepSampler
from strowger_gateway.local_engine.loading.checkpoint import load
from strowger_gateway.local_engine.ops.half_precision import HalfLinear
from strowger_gateway.local_engine.ops.kernel_selection import select_kernels
from strowger_gateway.local_engine.ops.native_build import cpu_kernels
from strowger_gateway.local_engine.sampling.sampling_params import RowParams
from strowger_gateway.local_engine.sampling.token_history import new_history
from strowger_gateway.local_engine.scheduling.block_pool import BlockPool
from strowger_gateway.local_engine.scheduling.scheduler import Scheduler
from strowger_gateway.local_engine.scheduling.sequence import new_sequence
from strowger_gateway.local_engine.scheduling.steps import SchedulerLimits

GREEDY = RowParams(temperature=0.0)
STEP_TOKENS = 4096
KV_BYTES = {"cpu": 2 << 30, "cuda": 64 << 30}


class Ours:
    """A model with cache for `batch` answers of full context length, without prefix cache."""

    def __init__(
        self,
        shape: Shape,
        dtype: torch.dtype,
        batch: int,
        *,
        device: str = "cpu",
        compile: CompileMode = "auto",
        drafts: int = 0,
        path: Path | None = None,
    ) -> None:
        """path: the weights, if they are not the random ones of the shape."""
        loaded = load(str(path or folder(shape)), device=device, dtype=dtype)
        halves = any(isinstance(module, HalfLinear) for module in loaded.module.modules())
        self.weight_bytes = 2 if halves else dtype.itemsize
        self._shape, self._dtype = shape, dtype
        selection = select_kernels(device, dtype, loaded.shapes)
        if device == "cpu":
            kernels = cpu_kernels(compile, device, dtype, lambda _: None)
            selection = replace(selection, kernels=kernels)
        self.runner = Runner(
            loaded,
            device=device,
            kv_bytes=KV_BYTES[device],
            max_tokens=2 * batch * CONTEXT,
            kernels=selection.kernels,
            capture=selection.capture,
        )
        limits = SchedulerLimits(
            max_step_tokens=STEP_TOKENS, max_sequences=batch, max_seq_len=CONTEXT
        )
        pool = BlockPool(self.runner.blocks, self.runner.block_size, prefix_cache=False)
        sampler = StepSampler(shape.vocab_size, device, selection.operator)
        self.lane = ModelLane(self.runner, Scheduler(limits, pool), sampler, drafts=drafts)

    def step_bytes(self, batch: int, context: int) -> int:
        """Minimum number of bytes that a decoding step reads from memory."""
        weights = self._shape.linear_parameters() * self.weight_bytes
        return weights + batch * context * self._shape.cached_numbers() * self._dtype.itemsize

    def generate(
        self, prompts: Sequence[list[int]], tokens: int, params: Sequence[RowParams] = ()
    ) -> Run:
        """All prompts in one batch, `tokens` new ones each; greedy without `params`."""
        return self.generate_each(prompts, [tokens] * len(prompts), params)

    def generate_each(
        self, prompts: Sequence[list[int]], counts: Sequence[int], params: Sequence[RowParams] = ()
    ) -> Run:
        """The same with a separate number of new tokens per prompt."""
        answers: dict[int, list[int]] = {}
        whole = decode = Stopwatch()
        for id, prompt in enumerate(prompts):
            answers[id] = []
            chosen = params[id] if params else GREEDY
            sequence = new_sequence(id=id, prompt=prompt, max_total=len(prompt) + counts[id])
            history = new_history(chosen, prompt, len(prompt))
            self.lane.add(Job(lane="", sequence=sequence, params=chosen, history=history))
        with torch.inference_mode():
            while self.lane.busy:
                for delta in self.lane.step(0.0):
                    answers[delta.id] += (one.token for one in delta.drawn)
                if decode is whole and all(answers.values()):
                    decode = Stopwatch()
        return Run(tokens=list(answers.values()), whole=whole.read(), decode=decode.read())
