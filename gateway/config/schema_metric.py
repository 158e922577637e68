"""The shape of `metrics`: the contract of each metric of feedback.

For the whole gateway rather than for an experiment: feedback comes for requests of every model, in
an experiment or not, and a name must mean the same in all of them.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

FEEDBACK_METRIC = r"[a-z][a-z0-9_]{0,63}"
"""What feedback may call its metrics."""

MetricName = Annotated[
    str,
    Meta(
        pattern=f"^{FEEDBACK_METRIC}$",
        description="up to 64 small letters, digits and _, starting with a letter",
    ),
]


class MetricContract(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the values of one metric of feedback are. Whatever else comes is refused, not stored.

    range:     the least and the greatest value of a number; () of a boolean.
    higher_is: which way is better, for verdicts and guardrails.
    cap:       a greater value counts as this one; `None`: none does.
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
        """Between which every value lies that is sent."""
        return (0.0, 1.0) if self.type == "boolean" else (self.range[0], self.range[-1])

    @property
    def kind(self) -> str:
        """In words what a value is: `true or false`, `a number from 1 to 5`."""
        low, high = self.bounds
        return "true or false" if self.type == "boolean" else f"a number from {low:g} to {high:g}"

    @property
    def words(self) -> str:
        """All of it in words, for reports."""
        parts = [self.kind]
        if self.higher_is == "worse":
            parts.append("higher is worse")
        if self.cap is not None:
            parts.append(f"capped at {self.cap:g}")
        if self.level == "unit":
            parts.append("one value per unit, the mean of its votes")
        return ", ".join(parts)
