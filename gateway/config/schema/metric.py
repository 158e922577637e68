"""The schema of `metrics`: the contract of each feedback metric.

Contracts apply to the whole gateway and not to one experiment: feedback arrives for requests of
every model, in an experiment or not, and a name must mean the same everywhere.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

FEEDBACK_METRIC = r"[a-z][a-z0-9_]{0,63}"
"""Allowed names of feedback metrics."""

MetricName = Annotated[
    str,
    Meta(
        pattern=f"^{FEEDBACK_METRIC}$",
        description="up to 64 lower-case letters, digits and _, starting with a letter",
    ),
]


class MetricContract(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The valid values of one feedback metric. Any other value is rejected, not stored.

    range:     the minimum and maximum of a number; () for a boolean.
    higher_is: which direction is better, for verdicts and harm limits.
    cap:       a greater value counts as this one; `None`: no cap.
    level:     unit: a unit counts once, with the mean of its values.
    """

    name: MetricName
    type: Literal["boolean", "number"]
    range: tuple[float, ...] = ()
    higher_is: Literal["better", "worse"] = "better"
    cap: float | None = None
    level: Literal["request", "unit"] = "request"

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and greatest valid value."""
        return (0.0, 1.0) if self.type == "boolean" else (self.range[0], self.range[-1])

    @property
    def kind(self) -> str:
        """Describe a value: `true or false`, `a number from 1 to 5`."""
        low, high = self.bounds
        return "true or false" if self.type == "boolean" else f"a number from {low:g} to {high:g}"

    @property
    def words(self) -> str:
        """Describe the contract, for reports."""
        parts = [self.kind]
        if self.higher_is == "worse":
            parts.append("higher is worse")
        if self.cap is not None:
            parts.append(f"capped at {self.cap:g}")
        if self.level == "unit":
            parts.append("one value per unit, the mean of its votes")
        return ", ".join(parts)
