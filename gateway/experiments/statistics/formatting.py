"""How the numbers of a report read, wherever people read them: sentences, tables and plots."""

from math import ceil, floor, log10

from gateway.experiments.statistics.metrics import Metric


def change(metric: Metric, difference: float) -> str:
    """A difference in the metric's own scale: see `signed`."""
    return signed(metric.effect(difference), relative=metric.scale == "log")


def amount(metric: Metric, difference: float) -> str:
    """A difference without a sign: "0.021", or "8.1 %"."""
    return change(metric, abs(difference)).removeprefix("+")


def signed(value: float, *, relative: bool) -> str:
    """A difference as people read it, with its sign: "+0.021", or "−8.1 %" where it is a part."""
    if not relative:
        return figure(value, "+.3g")
    size = abs(100 * value)
    form = "+.3g" if size < 999.5 else "+,.0f" if size < 1e5 else "+.2g"
    return f"{figure(100 * value, form)} %"


def figure(value: float, form: str) -> str:
    """A number by a format specification, with a minus that is as long as a plus."""
    return format(value, form).replace("-", "−")


def rounded(number: float) -> str:
    """Rounded up to two digits that count, with separators: 12,345 is "13,000"."""
    if number <= 0:
        return "0"
    step = 10 ** max(floor(log10(number)) - 1, 0)
    return f"{ceil(number / step) * step:,}"
