"""Collect the logits of a prompt's tokens, chunk by chunk."""

# torch annotates tolist in part only:
# pyright: reportUnknownMemberType=false

from typing import cast

import torch
from torch import Tensor

from strowger_gateway.local_engine.execution.jobs import Job
from strowger_gateway.local_engine.execution.step_sampler import SampledToken


class PromptRows:
    """Collects logits, or only log probabilities, from the rows of each chunk.

    logits: [prompt, V] float32 on the CPU; row i was computed after token i.
    drawn:  the tokens from the second on, each with its log probability given those before it.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._tokens = list(job.sequence.tokens[: job.sequence.prompt])
        self._rows: Tensor | None = None
        self._drawn: dict[int, SampledToken] = {}

    @property
    def logits(self) -> Tensor | None:
        return self._rows

    @property
    def drawn(self) -> tuple[SampledToken, ...]:
        return tuple(self._drawn[place] for place in sorted(self._drawn))

    def add(self, start: int, rows: Tensor) -> None:
        """rows: [count, V] float32, of the tokens from `start` on; those past the prompt are
        ignored."""
        count = min(rows.shape[0], len(self._tokens) - start)
        if count <= 0:
            return
        if self._job.context:
            if self._rows is None:
                self._rows = torch.empty(len(self._tokens), rows.shape[1])
            self._rows[start : start + count] = rows[:count].cpu()
        if self._job.prompt_logprobs:
            self._score(start, rows[: min(count, len(self._tokens) - start - 1)])

    def _score(self, start: int, rows: Tensor) -> None:
        if rows.shape[0] == 0:
            return
        following = self._tokens[start + 1 : start + 1 + rows.shape[0]]
        logprobs = rows.log_softmax(-1)
        chosen = logprobs.gather(1, torch.tensor(following, device=rows.device).unsqueeze(1))
        best = logprobs.topk(max(self._job.params.logprobs, 0), dim=-1)
        values = cast(list[list[float]], best.values.tolist())
        ids = cast(list[list[int]], best.indices.tolist())
        scores = cast(list[list[float]], chosen.tolist())
        for place, token in enumerate(following):
            self._drawn[start + 1 + place] = SampledToken(
                token=token,
                logprob=scores[place][0],
                top=tuple(zip(ids[place], values[place], strict=True)),
            )
