"""One model's lane, stepped by the test: no thread, no event loop."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import torch
from msgspec import UNSET

from strowger_gateway.local_engine.child_process.text_encoder import reading_gate
from strowger_gateway.local_engine.execution.jobs import Beams, Job, Outcome
from strowger_gateway.local_engine.execution.model_lane import ModelLane
from strowger_gateway.local_engine.execution.step_sampler import SampledToken
from strowger_gateway.local_engine.sampling.sampling_params import RowParams, resolve_params
from strowger_gateway.local_engine.sampling.token_history import new_history
from strowger_gateway.local_engine.scheduling.sequence import new_sequence
from strowger_gateway.local_engine.server.model_host import ServedModel, host
from strowger_gateway.local_engine.server.request_adapters import RequestAdapters
from strowger_gateway.schemas.holdings import ANONYMOUS, Holder
from strowger_gateway.schemas.requests import TokenRequest
from strowger_gateway.schemas.sampling import Sampling
from tests.local_engine.services import MODEL, config
from tests.local_engine.tiny import VOCABULARY

PLAIN = RequestAdapters()
MOST_STEPS = 20_000
"""Of one run, far more than any test needs."""


def hosted(folder: Path, **changes: object) -> ServedModel:
    return host(config(folder, **changes), lambda _: None)[MODEL]


def resolve_adapters(
    model: ServedModel, request: TokenRequest, tenant: str = ""
) -> RequestAdapters:
    """Resolve a request's adapters.

    Not as the result of a task: asyncio.run() makes an enum of its signal handler, whose error
    message prints the task with all weights in its result.
    """
    resolved: list[RequestAdapters] = []
    gate = reading_gate("here")

    async def resolve() -> None:
        resolved.append(await model.adapter_resolver.resolve(request, Holder(tenant), gate))

    asyncio.run(resolve())
    return resolved[0]


def settled(sampling: Sampling, *, seed: int = 0) -> RowParams:
    return resolve_params(sampling, vocabulary=VOCABULARY, end_ids=(2,), seed=seed)


class Runs:
    """Answers in progress on one lane; pages are checked after every step."""

    def __init__(self, lane: ModelLane) -> None:
        self.lane = lane
        self.drawn: dict[int, list[SampledToken]] = {}
        self.outcomes: dict[int, Outcome] = {}
        self.reasons: dict[int, str] = {}
        self.cached: dict[int, int] = {}

    def add(
        self,
        prompt: Sequence[int],
        sampling: Sampling,
        *,
        priority: int = 5,
        salt: bytes = b"",
        deadline: float = float("inf"),
        beams: Beams | None = None,
        conditions: RequestAdapters = PLAIN,
        drafts: Sequence[int] = (),
        proposal: torch.Tensor | None = None,
        holder: Holder = ANONYMOUS,
    ) -> int:
        """Greedy sampling ignores the end token, so that answers have a known length."""
        id = len(self.drawn) + 1
        params = settled(sampling)
        count = sampling.max_tokens
        assert count is not UNSET
        assert count is not None
        sequence = new_sequence(
            id=id,
            prompt=list(prompt),
            max_total=len(prompt) + count,
            priority=priority,
            arrival=float(id),
            salt=conditions.salt(salt),
            deadline=deadline,
            holder=holder,
            adapter=conditions.adapter,
            table=conditions.table,
            drafts=list(drafts),
        )
        history = new_history(params, prompt, len(prompt), vocabulary=VOCABULARY)
        self.lane.add(
            Job(
                lane="",
                sequence=sequence,
                params=params,
                history=history,
                beams=beams,
                proposal=proposal,
            )
        )
        self.drawn[id] = []
        return id

    def step(self, now: float = 0.0) -> None:
        with torch.inference_mode():
            deltas = self.lane.step(now)
        self.lane.check()
        for delta in deltas:
            if delta.drawn:
                self.drawn[delta.id] += delta.drawn
                self.cached[delta.id] = delta.cached
            if delta.outcome is not None:
                self.outcomes[delta.id] = delta.outcome
                self.reasons[delta.id] = delta.reason

    def finish(self) -> list[list[int]]:
        """Step until all have ended; return their tokens in the order of their ids."""
        steps = 0
        while self.lane.busy:
            self.step()
            steps += 1
            assert steps < MOST_STEPS, "an answer never ends"
        return [self.tokens(id) for id in sorted(self.drawn)]

    def tokens(self, id: int) -> list[int]:
        return [drawn.token for drawn in self.drawn[id]]
