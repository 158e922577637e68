"""Warm up a model before it counts as ready: one full prompt step and a batch of answers.

The first pass allocates, compiles and selects kernels; no client should wait for that.
"""

from itertools import count

import torch

from strowger_gateway.local_engine.execution.jobs import Job
from strowger_gateway.local_engine.execution.model_lane import ModelLane
from strowger_gateway.local_engine.sampling.sampling_params import resolve_params
from strowger_gateway.local_engine.scheduling.sequence import new_sequence
from strowger_gateway.schemas.errors import InvalidConfig
from strowger_gateway.schemas.sampling import Sampling

ANSWERS, TOKENS = 8, 3
"""Answers decoded together, and tokens per answer."""

KINDS = (
    Sampling(temperature=0.0),
    Sampling(temperature=0.8, top_k=50, top_p=0.9),
    Sampling(temperature=0.8, top_p=0.9),
    Sampling(temperature=1.0),
    Sampling(temperature=0.8, seed=1, logprobs=True, top_logprobs=2),
    Sampling(temperature=0.8, min_p=0.05),
    Sampling(temperature=0.8, typical_p=0.9),
    Sampling(temperature=0.8, top_k=2000),
)
"""A row of each way to draw."""

_SALT = b"warm-up"
_FIRST_ID = 1 << 60


def warm_up(name: str, lane: ModelLane, *, vocabulary: int, step_tokens: int) -> None:
    """Warm up a lane; afterwards it is idle and its counters are zero.

    step_tokens: the budget of a step. Raises InvalidConfig for a model that the device cannot run.
    """
    longest = lane.longest()
    ids = count(_FIRST_ID)
    prompts = [min(step_tokens, longest - 1)]
    prompts += [min(1 + place % 3, longest - 1) for place in range(ANSWERS - 1)]

    def job(place: int, length: int) -> Job:
        sequence = new_sequence(
            id=next(ids),
            prompt=[(37 * one + place) % vocabulary for one in range(length)],
            max_total=min(length + TOKENS, longest),
            salt=_SALT,
        )
        params = resolve_params(
            KINDS[place % len(KINDS)], vocabulary=vocabulary, end_ids=(), seed=place
        )
        return Job(lane=name, sequence=sequence, params=params)

    for place, length in enumerate(prompts):
        lane.add(job(place, length))
    with torch.inference_mode():
        while lane.busy:
            for delta in lane.step(0.0):
                if delta.outcome == "failed":
                    raise InvalidConfig((f"engine.models: {name}: {delta.reason}",))
    lane.begin_counting()
