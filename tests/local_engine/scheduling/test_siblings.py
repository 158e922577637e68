"""Several answers to one prompt: they share its pages, and cancelling one affects no other."""

import torch

from strowger_gateway.local_engine.execution.jobs import Delta, Job
from strowger_gateway.local_engine.execution.model_lane import ModelLane
from strowger_gateway.local_engine.scheduling.sequence import new_sequence
from strowger_gateway.schemas.sampling import Sampling
from tests.local_engine.conftest import Folder
from tests.local_engine.execution.lane_runs import hosted, settled

PROMPT = [7 + place for place in range(40)]
COUNT = 6


def family(deadline: float = float("inf")) -> Job:
    """Return a job for three answers, each with its own seed."""
    lead, *others = [
        Job(
            lane="",
            sequence=new_sequence(
                id=id, prompt=PROMPT, max_total=len(PROMPT) + COUNT, deadline=deadline
            ),
            params=settled(Sampling(temperature=1.0, seed=id)),
            siblings=(),
        )
        for id in (1, 2, 3)
    ]
    return Job(lane="", sequence=lead.sequence, params=lead.params, siblings=tuple(others))


def step(lane: ModelLane, now: float = 0.0) -> list[Delta]:
    with torch.inference_mode():
        deltas = lane.step(now)
    lane.check()
    return deltas


def finish(lane: ModelLane) -> dict[int, list[int]]:
    tokens: dict[int, list[int]] = {}
    while lane.busy:
        for delta in step(lane):
            tokens.setdefault(delta.id, []).extend(drawn.token for drawn in delta.drawn)
    return tokens


def test_a_cancelled_first_answer_leaves_the_prompt_to_the_others(folder: Folder) -> None:
    whole = hosted(folder("llama"), max_step_tokens=16).lane
    whole.add(family())
    expected = finish(whole)
    lane = hosted(folder("llama"), max_step_tokens=16).lane
    lane.add(family())
    step(lane)

    lane.drop(1)

    assert finish(lane) == {2: expected[2], 3: expected[3]}
    assert len({tuple(tokens) for tokens in expected.values()}) == 3


def test_an_abandoned_request_frees_everything_at_any_step(folder: Folder) -> None:
    """Before its prompt is computed, when its answers have just started, and later."""
    lane = hosted(folder("llama"), max_step_tokens=16, prefix_cache=False).lane
    for steps in range(6):
        lane.add(family())
        for _ in range(steps):
            step(lane)

        for id in (1, 2, 3):
            lane.drop(id)

        lane.check()
        assert not lane.busy
        assert lane.stats().blocks_free == lane.stats().blocks_total


def test_a_deadline_during_the_prompt_ends_every_answer_once(folder: Folder) -> None:
    lane = hosted(folder("llama"), max_step_tokens=16).lane
    lane.add(family(deadline=5.0))
    step(lane)

    ended = step(lane, now=6.0)

    assert sorted((delta.id, delta.outcome) for delta in ended) == [
        (1, "expired"),
        (2, "expired"),
        (3, "expired"),
    ]
    assert not lane.busy
