"""Experiments that the configuration has no more: what they were, as the store has kept it."""

from collections.abc import Collection

import msgspec
from msgspec import Struct

from gateway.config.schema_experiment import Experiment
from gateway.store.base import Store

UNKNOWN = (
    "it was removed from the configuration, and the store does not know what it was: it ended "
    "before definitions were kept, or another version defined it"
)
_experiment = msgspec.json.Decoder(Experiment)


class RemovedExperiment(Struct, frozen=True, kw_only=True):
    """experiment: as it last was; `None` where the store has no definition that can be read.

    requests: that took part. last: when the last of them ended, Unix seconds; 0 unknown.
    """

    name: str
    experiment: Experiment | None
    requests: int
    last: float

    @property
    def state(self) -> tuple[str, int, float]:
        """Changes when anything was recorded of it."""
        return self.name, self.requests, self.last


def definition(experiment: Experiment) -> str:
    """As the store keeps it."""
    return msgspec.json.encode(experiment).decode()


def removed_experiments(store: Store, configured: Collection[str]) -> tuple[RemovedExperiment, ...]:
    """Those with requests in the store that are not in the configuration, the last one first.

    Blocks. Raises StoreUnavailable.
    """
    found = [
        RemovedExperiment(
            name=one.experiment,
            experiment=_read(one.definition),
            requests=one.requests,
            last=one.last,
        )
        for one in store.runs()
        if one.experiment not in configured
    ]
    return tuple(sorted(found, key=lambda one: (-one.last, one.name)))


def _read(text: str) -> Experiment | None:
    """A later version may know fields that this one does not."""
    try:
        return _experiment.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
