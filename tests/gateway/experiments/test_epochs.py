"""An epoch starts with every relevant change, the same one in every process, and with no other."""

from collections.abc import Generator
from pathlib import Path

import pytest

from strowger_gateway.gateway.config.schema.experiment import Experiment
from strowger_gateway.gateway.experiments.state_poller import ExperimentPoller
from strowger_gateway.gateway.routing.planning.enrolment import ExperimentStatus
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.schemas.secret import Secret
from tests.gateway.config.configs import read
from tests.gateway.experiments.recorded_gateway import ARMS, config


@pytest.fixture
def store(tmp_path: Path) -> Generator[SqlStore, None, None]:
    found = open_store(Secret(f"sqlite:///{tmp_path / 'strowger.db'}"))
    found.prepare()
    yield found
    found.close()


def experiments(arms: str = ARMS, more: str = "") -> tuple[Experiment, ...]:
    return read(config("http://127.0.0.1:9/v1", arms, more)).experiments


def standing(watch: ExperimentPoller, found: tuple[Experiment, ...]) -> ExperimentStatus:
    (one,) = watch.poll(found).values()
    return one


def test_a_change_of_weights_or_of_what_is_set_begins_an_epoch_and_nothing_else_does(
    store: SqlStore,
) -> None:
    watch = ExperimentPoller(store)
    ramped = ARMS.replace("weight: 50}", "weight: 90}")
    setting = ARMS.replace("weight: 50}", "weight: 50, set: {temperature: 0}}")

    epochs = [
        standing(watch, found).epoch
        for found in (
            experiments(),
            experiments(),
            experiments(ramped),
            experiments(ramped, "    planned: 500"),
            experiments(setting),
            experiments(),
        )
    ]

    assert epochs == [1, 1, 2, 2, 3, 4]


def test_every_process_gets_the_same_epoch_and_pause(store: SqlStore) -> None:
    one, other = ExperimentPoller(store), ExperimentPoller(store)
    both = [standing(watch, experiments()) for watch in (one, other)]

    store.pause("trial", "too dear", 1.0)
    paused = [standing(watch, experiments()) for watch in (one, other, ExperimentPoller(store))]
    store.resume("trial")
    resumed = [standing(watch, experiments()) for watch in (one, other)]

    assert both == [ExperimentStatus(epoch=1)] * 2
    assert paused == [ExperimentStatus(epoch=2, paused=True, reason="too dear")] * 3
    assert resumed == [ExperimentStatus(epoch=3)] * 2


def test_what_is_prepared_begins_its_epoch_and_the_old_one_goes_on_until_it_is_in_force(
    store: SqlStore,
) -> None:
    one, other = ExperimentPoller(store), ExperimentPoller(store)
    ramped = experiments(ARMS.replace("weight: 50}", "weight: 90}"))
    before = [standing(watch, experiments()) for watch in (one, other)]

    (coming,) = one.prepare(ramped).values()
    meanwhile = [standing(watch, experiments()) for watch in (one, other)]
    after = [standing(watch, ramped) for watch in (one, other)]
    back = standing(one, experiments())

    assert before == meanwhile == [ExperimentStatus(epoch=1)] * 2
    assert after == [coming] * 2 == [ExperimentStatus(epoch=2)] * 2
    assert back == ExperimentStatus(epoch=3)
    assert len(store.epochs("trial")) == 3


def test_two_configurations_side_by_side_begin_no_epochs_when_read(
    store: SqlStore,
) -> None:
    old, new = ExperimentPoller(store), ExperimentPoller(store)
    ramped = experiments(ARMS.replace("weight: 50}", "weight: 90}"))

    epochs = [(standing(old, experiments()).epoch, standing(new, ramped).epoch) for _ in range(3)]

    assert epochs == [(1, 2)] * 3
    assert len(store.epochs("trial")) == 2


def test_a_pause_that_is_over_between_two_polls_leaves_an_epoch(store: SqlStore) -> None:
    old, new = ExperimentPoller(store), ExperimentPoller(store)
    ramped = experiments(ARMS.replace("weight: 50}", "weight: 90}"))
    before = [standing(old, experiments()).epoch, standing(new, ramped).epoch]

    for at in (1.0, 2.0):
        store.pause("trial", "too dear", at)
        store.resume("trial")
    (coming,) = old.prepare(experiments()).values()
    after = [(standing(old, experiments()).epoch, standing(new, ramped).epoch) for _ in range(3)]

    assert before == [1, 2]
    assert coming.epoch == 4
    assert after == [(4, 5)] * 3
    assert [one.number for one in store.epochs("trial") if one.paused] == [3]


def test_two_configurations_have_one_epoch_for_a_pause(store: SqlStore) -> None:
    old, new = ExperimentPoller(store), ExperimentPoller(store)
    ramped = experiments(ARMS.replace("weight: 50}", "weight: 90}"))

    def both() -> list[int]:
        return [standing(old, experiments()).epoch, standing(new, ramped).epoch]

    before = both()
    store.pause("trial", "too dear", 1.0)
    paused = [*both(), *both(), standing(ExperimentPoller(store), experiments()).epoch]
    store.resume("trial")

    assert before == [1, 2]
    assert paused == [3] * 5
    assert both() == both() == [4, 5]
