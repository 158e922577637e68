"""The metrics: which direction is better, and on which scale they are averaged."""

from math import exp, expm1, inf, log
from typing import Literal

from msgspec import Struct

Scale = Literal["plain", "log"]


class Metric(Struct, frozen=True, kw_only=True):
    """A number that each observation has.

    scale:  "log" averages the logarithm, so that an effect is a ratio of geometric means and one
            slow answer in a thousand does not decide; for values above 0. "plain" averages the
            value itself.
    per:    "unit" counts a unit once, with the mean of its values, whatever the experiment does.
    bounds: of every value, if they are known in advance: an arm that has only ever shown one
            value then still gets an honest interval. Without bounds, the range observed in both
            arms is used.
    """

    name: str
    better: Literal["higher", "lower"] = "higher"
    scale: Scale = "plain"
    bounds: tuple[float, float] | None = None
    per: Literal["observation", "unit"] = "observation"

    @property
    def is_rate(self) -> bool:
        """True if every value is from 0 to 1, so that harm limits on it are tested by looks."""
        return self.scale == "plain" and self.bounds == (0.0, 1.0)

    def scaled(self, value: float) -> float:
        """Return the value that the store adds up; for "log" metrics at least that of LEAST."""
        return log(max(value, LEAST)) if self.scale == "log" else value

    def shown(self, mean: float) -> float:
        """Convert a mean on the metric's scale for display: the geometric mean for "log"."""
        return exp(mean) if self.scale == "log" else mean

    def effect(self, difference: float) -> float:
        """Convert a difference for display: for "log" the relative change, −0.1 = 10 % less."""
        if self.scale != "log":
            return difference
        return expm1(difference) if difference < _BEYOND else inf

    def gain(self, difference: float) -> float:
        """Return the difference with the sign such that above 0 is better."""
        return difference if self.better == "higher" else -difference


_BEYOND = 700.0
"""A logarithm whose exponential nearly overflows a double."""

LEAST = 1e-3
"""The least value of a "log" metric, in its own unit; a microsecond for times in ms."""

LARGEST = 1e12
"""Largest absolute value, so that sums of squares stay finite."""

VOTE_RATE = "vote_rate"
"""The share of requests with a vote on any metric."""

BUILT_IN = {
    metric.name: metric
    for metric in (
        Metric(name="error", better="lower", bounds=(0.0, 1.0)),
        Metric(name="fallback", better="lower", bounds=(0.0, 1.0)),
        Metric(name=VOTE_RATE, bounds=(0.0, 1.0)),
        Metric(name="ttft_ms", better="lower", scale="log"),
        Metric(name="latency_ms", better="lower", scale="log"),
        Metric(name="output_tokens", better="lower"),
        Metric(name="cost_usd", better="lower"),
    )
}
"""Metrics that the gateway measures. Tokens and cost are plain, because their sum is paid."""

PROMPT_TOKENS = "prompt_tokens"
"""Tokens of the client's prompt, as the gateway estimates them before it chooses a variant."""

LOG_PROMPT_TOKENS = "log_prompt_tokens"
"""The logarithm of 1 + `PROMPT_TOKENS`, by which "log" metrics are adjusted."""

COVARIATES = (PROMPT_TOKENS, LOG_PROMPT_TOKENS)
"""What is measured of requests and is not an outcome: for `adjustment`."""

MEASURED = frozenset((*BUILT_IN, *COVARIATES))
"""All that the gateway measures; feedback needs other names."""

COMMENT = "comment"
"""The metric of a comment that comes alone; it has no value."""
