"""What a trial start of an engine finds, for `strowger doctor --engine`; read without torch."""

from msgspec import Struct


class Tried(Struct, frozen=True, kw_only=True):
    """One trial.

    role: what is computed. kernel: by what. tried: the shapes or lengths.
    gap: the greatest difference, for numbers around 1 or relative to their size; `None`: not
    compared. seconds: of wall-clock time. problem: "" if it agrees, else why it does not.
    """

    role: str
    kernel: str
    tried: str
    gap: float | None
    seconds: float
    problem: str


class Diagnosis(Struct, frozen=True, kw_only=True):
    """A trial start.

    lines: what the start reported. problem: why the engine would not start, else "".
    """

    lines: tuple[str, ...]
    trials: tuple[Tried, ...]
    problem: str
