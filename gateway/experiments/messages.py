"""What a serving process asks its leader about experiments."""

from msgspec import Struct


class HistoryAsked(Struct, frozen=True, kw_only=True, tag=True):
    """The history of the experiments; answered by an ExperimentHistory."""
