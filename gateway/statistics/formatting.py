"""Format the numbers of a report for sentences, tables and plots."""

from math import ceil, floor, log10

from strowger_gateway.gateway.statistics.metrics import Metric


def change(metric: Metric, difference: float) -> str:
    """Format a difference on the metric's scale: see `signed`."""
    return signed(metric.effect(difference), relative=metric.scale == "log")


def amount(metric: Metric, difference: float) -> str:
    """Format a difference without a sign: "0.021", or "8.1 %"."""
    return change(metric, abs(difference)).removeprefix("+")


def signed(value: float, *, relative: bool) -> str:
    """Format a difference with its sign: "+0.021", or "−8.1 %" if it is relative."""
    if not relative:
        return figure(value, "+.3g")
    size = abs(100 * value)
    form = "+.3g" if size < 999.5 else "+,.0f" if size < 1e5 else "+.2g"
    return f"{figure(100 * value, form)} %"


def figure(value: float, form: str) -> str:
    """Format a number by a format specification, with a typographic minus, as wide as a plus."""
    return format(value, form).replace("-", "−")


def rounded(number: float) -> str:
    """Round up to two significant digits, with separators: 12,345 is "13,000"."""
    if number <= 0:
        return "0"
    step = 10 ** max(floor(log10(number)) - 1, 0)
    return f"{ceil(number / step) * step:,}"
