"""Circuits where gateways on one store have different files, so that two epochs are live."""

from collections.abc import Generator
from pathlib import Path

import pytest

from strowger_gateway.gateway.experiments.harm_limits import HarmLimitMonitor
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.rows import RequestRow, Row
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.schemas.secret import Secret
from tests.gateway.config.configs import read
from tests.gateway.experiments.recorded_gateway import config

(TRIAL,) = read(config("http://127.0.0.1:9/v1")).experiments


class Live:
    """A store with an older and a newer epoch, and a monitor."""

    def __init__(self, store: SqlStore) -> None:
        self.store = store
        self.monitor = HarmLimitMonitor(store, every_s=0)
        self._rows = 0

    def send(self, epoch: int, requests: int, *, failing: bool) -> tuple[str, ...]:
        """Of each variant, of which treatment fails; then check."""
        rows: list[Row] = [
            RequestRow(
                surface="openai",
                request_id=f"{self._rows}-{number}-{variant}",
                time=1.0,
                status=502 if failing and variant == "treatment" else 200,
                ms=10.0,
                experiment="trial",
                epoch=epoch,
                variant=variant,
                unit=f"{variant}-{number % 5}",
            )
            for number in range(requests)
            for variant in ("control", "treatment")
        ]
        self.store.import_rows("file", self._rows, self._rows + len(rows), rows)
        self._rows += len(rows)
        return self.monitor.check((TRIAL,))


@pytest.fixture
def live(tmp_path: Path) -> Generator[Live]:
    store = open_store(Secret(f"sqlite:///{tmp_path / 'strowger.db'}"))
    store.prepare()
    for mark in ("old", "new"):
        store.epoch("trial", mark, {"control": 0.5, "treatment": 0.5}, 1.0)
    yield Live(store)
    store.close()


def test_a_variant_that_fails_at_the_gateway_with_the_older_file_is_paused(live: Live) -> None:
    healthy = [live.send(epoch, 30, failing=False) for epoch in (1, 2, 1, 2)]
    failing = [live.send(1, 10, failing=True) for _ in range(4)]

    assert (healthy, failing) == ([()] * 4, [(), (), (), ("trial",)])


def test_both_epochs_are_watched_each_by_itself(live: Live) -> None:
    found = [live.send(epoch, 6, failing=True) for epoch in (1, 1, 2, 2, 2)]

    assert found == [()] * 5
    assert live.send(2, 6, failing=True) == ("trial",)


def test_what_failed_before_the_file_was_changed_pauses_nothing(live: Live) -> None:
    """Also requests that were not answered yet when it was."""
    before = [live.send(2, 6, failing=True) for _ in range(3)]
    live.store.epoch("trial", "repaired", {"control": 0.5, "treatment": 0.5}, 2.0)
    after = [live.send(2, 6, failing=True), live.send(3, 30, failing=False)]
    late = [live.send(2, 5, failing=True), *(live.send(3, 30, failing=False) for _ in range(3))]

    assert [*before, *after, *late] == [()] * 9
