"""An engine's queue: one key leaves places to others, and a full queue is busy."""

import pytest

from strowger_gateway.local_engine.scheduling.key_shares import SEVERAL_S
from strowger_gateway.local_engine.server.queue_places import QueuePlaces
from strowger_gateway.schemas.errors import Throttled, UpstreamBusy
from strowger_gateway.schemas.holdings import ANONYMOUS, Holder

A, B = Holder("a"), Holder("b")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_key_leaves_the_last_eighth_where_another_one_came() -> None:
    places = QueuePlaces(16, "answers", "engine", Clock())
    places.hold(B, 1)
    for _ in range(14):
        places.hold(A, 1)

    with pytest.raises(Throttled, match="14 answers of this key are already queued"):
        places.hold(A, 1)
    places.hold(B, 1)
    with pytest.raises(UpstreamBusy, match="too many answers are queued"):
        places.hold(B, 1)


def test_the_only_key_gets_all_places_and_again_when_the_other_is_forgotten() -> None:
    clock = Clock()
    places = QueuePlaces(16, "answers", "engine", clock)
    places.hold(A, 16)
    places.give_back(A, 16)
    places.hold(B, 1)
    places.give_back(B, 1)
    places.hold(A, 14)

    with pytest.raises(Throttled):
        places.hold(A, 2)
    clock.now += SEVERAL_S
    places.hold(A, 2)


def test_one_request_may_take_all_places_while_its_key_has_none() -> None:
    places = QueuePlaces(16, "answers", "engine", Clock())
    places.hold(B, 1)
    places.give_back(B, 1)

    places.hold(A, 16)

    with pytest.raises(UpstreamBusy):
        places.hold(B, 1)


def test_clients_without_a_key_share_all_places() -> None:
    places = QueuePlaces(16, "inputs", "engine", Clock())
    places.hold(A, 1)
    places.hold(B, 1)

    places.hold(ANONYMOUS, 14)

    with pytest.raises(UpstreamBusy, match="too many inputs"):
        places.hold(ANONYMOUS, 1)
