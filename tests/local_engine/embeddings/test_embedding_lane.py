"""One batch per step: a cancelled, failed or late request affects only its own inputs."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from strowger_gateway.local_engine.embeddings.embedding_lane import EmbeddingLane
from strowger_gateway.local_engine.embeddings.input_queue import Embedded
from tests.local_engine.embeddings.embedding_services import request


class Lengths:
    """An encoder whose vectors are a row's length and first token; it may reject large batches."""

    def __init__(self, most: int = 1000, refuses: int = -1) -> None:
        """most: rows that fit into its memory. refuses: a first token at which it fails."""
        self.batches: list[list[int]] = []
        self._most = most
        self._refuses = refuses

    def embed(self, rows: Sequence[Sequence[int]], skips: Sequence[int]) -> Tensor:
        if len(rows) > self._most:
            raise torch.OutOfMemoryError("too large")
        if any(row[0] == self._refuses for row in rows):
            raise RuntimeError("a kernel broke")
        self.batches.append([len(row) for row in rows])
        return torch.tensor([[len(row), row[0]] for row in rows], dtype=torch.float32)


def finish(lane: EmbeddingLane) -> list[Embedded]:
    ended: list[Embedded] = []
    for _ in range(1000):
        if not lane.busy:
            return ended
        ended += lane.step(0.0)
    pytest.fail("the lane never ends")


def test_vectors_come_back_in_input_order_for_any_order_of_computation() -> None:
    lane = EmbeddingLane(Lengths(), max_step_tokens=64)
    lane.add(request(7, 5, 60, 1, 33, 5))

    ended = finish(lane)

    assert [one.id for one in ended] == [7]
    assert ended[0].vectors is not None
    assert ended[0].vectors[:, 0].tolist() == [5, 60, 1, 33, 5]  # pyright: ignore[reportUnknownMemberType]  # torch
    assert lane.waiting == 0
    assert lane.stats().computed_tokens == 104


def test_a_dropped_request_costs_no_further_pass_and_the_others_continue() -> None:
    encoder = Lengths()
    lane = EmbeddingLane(encoder, max_step_tokens=64)
    lane.add(request(1, *[40] * 50))
    lane.add(request(2, 8))
    lane.step(0.0)
    lane.drop(1)

    ended = finish(lane)

    assert [one.id for one in ended] == [2]
    assert len(encoder.batches) <= 2
    assert lane.stats().waiting == lane.stats().running == 0


def test_a_late_request_ends_before_it_costs_a_pass() -> None:
    encoder = Lengths()
    lane = EmbeddingLane(encoder, max_step_tokens=64)
    lane.add(request(1, 8, deadline=1.0))

    ended = lane.step(1.0)

    assert [(one.id, one.outcome) for one in ended] == [(1, "expired")]
    assert encoder.batches == []
    assert not lane.busy


def test_a_batch_that_does_not_fit_into_memory_is_made_smaller() -> None:
    encoder = Lengths(most=3)
    lane = EmbeddingLane(encoder, max_step_tokens=1000)
    lane.add(request(1, *[10] * 20))

    ended = finish(lane)

    assert ended[0].outcome == "done"
    assert max(len(batch) for batch in encoder.batches) <= 3


def test_an_input_that_never_fits_into_memory_fails_its_request() -> None:
    lane = EmbeddingLane(Lengths(most=0), max_step_tokens=1000)
    lane.add(request(1, 10, 10))

    ended = finish(lane)

    assert [(one.outcome, one.reason) for one in ended] == [("failed", "too large")]


def test_a_pass_that_breaks_fails_the_requests_in_it_only() -> None:
    lane = EmbeddingLane(Lengths(refuses=1), max_step_tokens=16)
    lane.add(request(1, 16, 16))
    lane.add(request(2, 16))

    ended = finish(lane)

    assert [(one.id, one.outcome) for one in ended] == [(1, "failed"), (2, "done")]
