"""How the numbers of a report read in a sentence."""

from math import ceil, floor, log10

from gateway.experiments.metrics import Metric


def change(metric: Metric, difference: float) -> str:
    """A difference with its sign: "+0.021", or "+8.1 %" for a "log" metric."""
    if metric.scale == "log":
        percent = 100 * metric.effect(difference)
        return f"{percent:+.1f} %" if percent < 1e5 else f"{percent:+.2g} %"
    return f"{difference:+.3g}"


def amount(metric: Metric, difference: float) -> str:
    """A difference without a sign: "0.021", or "8.1 %"."""
    return change(metric, abs(difference)).removeprefix("+")


def rounded(number: float) -> str:
    """Rounded up to two digits that count, with separators: 12,345 is "13,000"."""
    if number <= 0:
        return "0"
    step = 10 ** max(floor(log10(number)) - 1, 0)
    return f"{ceil(number / step) * step:,}"
