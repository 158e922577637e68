"""Votes as they are read from the store."""

from msgspec import Struct


class Votes(Struct, frozen=True, kw_only=True):
    """Feedback of one metric on one experiment.

    boolean:     all values are. least, greatest: of the values that count.
    capped:      values above the contract's cap, which count as the cap.
    """

    boolean: bool
    least: float
    greatest: float
    capped: int = 0


class Vote(Struct, frozen=True, kw_only=True):
    """A feedback value on a request of an experiment.

    value: as it counts. given: as sent, if that is above the contract's cap. time: Unix seconds.
    """

    request_id: str
    key: str
    time: float
    epoch: int
    variant: str
    unit: str
    value: float
    given: float | None
    boolean: bool
