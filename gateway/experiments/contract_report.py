"""The sentences of a report about the contracts of its metrics."""

from collections.abc import Iterator

from strowger_gateway.gateway.experiments.metric_report import MetricReport
from strowger_gateway.gateway.experiments.report import Report
from strowger_gateway.gateway.experiments.trust.value_ranges import range_words


def declared(report: Report) -> tuple[str, ...]:
    """Return sentences without a full stop: each contract, its capped votes, and violations."""
    return tuple(
        sentence for metric in report.metrics for sentence in _of(metric, report.experiment)
    )


def _of(metric: MetricReport, experiment: str) -> Iterator[str]:
    contract = metric.contract
    if contract is not None:
        yield f"{metric.name}: {contract.words}"
    if contract is not None and contract.cap is not None and metric.capped:
        votes = "vote counts" if metric.capped == 1 else "votes count"
        yield f"{metric.name}: {metric.capped:,} {votes} as the cap, {contract.cap:g}"
    if contract is not None and metric.range is not None:
        low, high = contract.bounds
        ends = low, high if contract.cap is None else contract.cap
        yield range_words(metric.name, ends, metric.range)
    if metric.outside is not None:
        low, high = metric.outside
        find = f"strowger experiments votes {experiment} --metric {metric.name} --outside"
        yield (
            f"{metric.name}: there are votes from {low:g} to {high:g}, outside of what it takes; "
            f"to find them: {find}"
        )
