"""An experiment with a history in a real store; users prefer one variant."""

import random
from collections.abc import Iterable, Iterator
from pathlib import Path

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.config.schema.experiment import Experiment, Variant, VariantFields
from strowger_gateway.gateway.experiments.background_jobs import ExperimentJobs
from strowger_gateway.gateway.experiments.experiment_service import ExperimentService
from strowger_gateway.gateway.experiments.history import HistoryRecorder, intervals_of
from strowger_gateway.gateway.experiments.process_side import ExperimentsSide
from strowger_gateway.gateway.experiments.report import report_of
from strowger_gateway.gateway.experiments.state_poller import ExperimentPoller
from strowger_gateway.gateway.statistics.assignment import Assignment, WeightedArm
from strowger_gateway.gateway.statistics.interval_history import Point
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.rows import FeedbackRow, RequestRow, Row, SpoolEntry
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.gateway.storage.store_access import StoreAccess
from strowger_gateway.schemas.secret import Secret

DAY_S = 86_400.0
EXPERIMENT = """
experiments:
  - name: larger-model
    model: small
    assign_by: header:x-session-id
    primary: solved
    variants:
      - {name: control, backend: cellar/small, weight: 50}
      - {name: larger, backend: cellar/medium, weight: 50}
"""


REMOVED = Experiment(
    name="shorter-answers",
    model="assistant",
    assign_by="header:x-session-id",
    primary="solved",
    variants=(
        Variant(name="control", backend="north/large", weight=50),
        Variant(
            name="shorter", backend="north/large", weight=50, set=VariantFields(system="Be brief.")
        ),
    ),
)
"""An experiment that was removed from the configuration."""


class DroppingRecorder:
    """A recorder that drops its rows: the tests write to the store themselves."""

    @property
    def full(self) -> bool:
        return False

    def add(self, row: SpoolEntry) -> None:
        """Drop it."""

    def extend(self, rows: Iterable[SpoolEntry]) -> None:
        """Drop it."""


class ExperimentRecords:
    """The store of a gateway. Pass `equip` to `serving`; close the store afterwards."""

    def __init__(self, folder: Path) -> None:
        self.store: SqlStore = open_store(Secret(f"sqlite:///{folder / 'strowger.db'}"))
        self.store.prepare()
        self._place = self._removed_place = 0

    def equip(self, gateway: Gateway) -> None:
        gateway.store = StoreAccess(self.store)
        side = gateway.side(ExperimentsSide)
        side.service = ExperimentService(
            gateway.store,
            DroppingRecorder(),
            gateway.runtime.routing.experiments,
            lambda: gateway.runtime.config.experiments,
        )
        side.jobs = ExperimentJobs(
            self.store, lambda: gateway.runtime.config.experiments, shown=lambda: True
        )
        side.jobs.start()

    async def add_history(self, gateway: Gateway, now: float, *, steps: int, units: int) -> None:
        """Add `steps` of `units` each, one minute apart, until now."""
        trials, jobs = gateway.side(ExperimentsSide).service, gateway.side(ExperimentsSide).jobs
        assert trials is not None
        assert jobs is not None
        clock = [now]
        await jobs.close()
        history = HistoryRecorder(self.store, lambda: trials.experiments, clock=lambda: clock[0])
        jobs.history = history
        draw = random.Random(21)
        for step in range(steps):
            clock[0] = now - 60 * (steps - step)
            numbers = range(step * units, (step + 1) * units)
            rows = [row for number in numbers for row in _unit(number, clock[0], draw)]
            self.store.import_rows("past", self._place, self._place + len(rows), rows)
            self._place += len(rows)
            await history.update()

    def add_removed(self, now: float, units: int = 400) -> None:
        """REMOVED ended three days ago with a worse treatment. units: per day."""
        ExperimentPoller(self.store, clock=lambda: now - 9 * DAY_S).poll((REMOVED,))
        draw = random.Random(8)
        for day in range(8, 2, -1):
            at = now - day * DAY_S
            rows: list[Row] = []
            for number in range(units):
                variant = REMOVED.variants[number % 2].name
                request_id = f"f{day}-{number}"
                rows.append(
                    RequestRow(
                        surface="openai",
                        request_id=request_id,
                        time=at,
                        status=200,
                        ms=900 * draw.lognormvariate(0, 0.3),
                        experiment=REMOVED.name,
                        epoch=1,
                        variant=variant,
                        unit=request_id,
                    )
                )
                solved = draw.random() < (0.7 if variant == "control" else 0.52)
                rows.append(
                    FeedbackRow(
                        request_id=request_id, time=at, key="", metric="solved",
                        value=float(solved), boolean=True,
                    )
                )  # fmt: skip
            self.store.import_rows(
                "removed", self._removed_place, self._removed_place + len(rows), rows
            )
            self._removed_place += len(rows)
            report = report_of(REMOVED, self.store)
            self.store.add_interval_point(
                REMOVED.name, "solved", Point(time=at, intervals=intervals_of(report))
            )


def _unit(number: int, at: float, draw: random.Random) -> Iterator[Row]:
    arms = [WeightedArm(name="control", weight=50), WeightedArm(name="larger", weight=50)]
    variant = Assignment("larger-model", arms).variant(f"session-{number}")
    slow = 1.25 if variant == "larger" else 1.0
    yield RequestRow(
        surface="openai",
        request_id=f"r{number}",
        time=at,
        status=200,
        ms=640 * slow * draw.lognormvariate(0, 0.3),
        model="small",
        route="small",
        ttft_ms=90 * slow * draw.lognormvariate(0, 0.3),
        completion_tokens=draw.randrange(5, 60),
        experiment="larger-model",
        epoch=1,
        variant=variant,
        unit=f"u{number}",
    )
    solved = draw.random() < (0.74 if variant == "larger" else 0.61)
    yield FeedbackRow(
        request_id=f"r{number}", time=at, key="", metric="solved", value=float(solved), boolean=True
    )
