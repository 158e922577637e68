"""Experiments that were removed from the configuration, as stored."""

from collections.abc import Collection

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.config.schema.experiment import Experiment
from strowger_gateway.gateway.storage.sql.base import Store
from strowger_gateway.gateway.storage.sql.experiments.exclusions import exclusion_marks

UNKNOWN = (
    "it was removed from the configuration, and the store has no readable definition: it ended "
    "before definitions were stored, or another version defined it"
)
_experiment = msgspec.json.Decoder(Experiment)


class RemovedExperiment(Struct, frozen=True, kw_only=True):
    """An experiment in the store that is not configured.

    experiment: its last definition; `None` if the store has none that can be read.
    requests:   the number enrolled. last: end of the last one, Unix seconds; 0: unknown.
    exclusions: changes with what operators exclude.
    """

    name: str
    experiment: Experiment | None
    requests: int
    last: float
    exclusions: float = 0.0

    @property
    def state(self) -> tuple[str, int, float, float]:
        """A key that changes when anything is recorded for it, or excluded."""
        return self.name, self.requests, self.last, self.exclusions


def definition(experiment: Experiment) -> str:
    """Encode an experiment for the store."""
    return msgspec.json.encode(experiment).decode()


def removed_experiments(store: Store, configured: Collection[str]) -> tuple[RemovedExperiment, ...]:
    """Return experiments with requests in the store and not configured, most recent first.

    Blocks. Raises StoreUnavailable.
    """
    with store.database.reading() as session:
        excluded = exclusion_marks(session)
    found = [
        RemovedExperiment(
            name=one.experiment,
            experiment=_read(one.definition),
            requests=one.requests,
            last=one.last,
            exclusions=excluded.get(one.experiment, 0.0),
        )
        for one in store.runs()
        if one.experiment not in configured
    ]
    return tuple(sorted(found, key=lambda one: (-one.last, one.name)))


def _read(text: str) -> Experiment | None:
    """Decode a definition; `None` if another version wrote it with unknown fields."""
    try:
        return _experiment.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
