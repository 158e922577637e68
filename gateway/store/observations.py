"""What a request says about the variant that it was assigned to, metric by metric.

error:         every request of a unit, also one that the client ended (499) or got wrong (4xx):
               those are no errors, but they are requests. A 429 is an error: limits of our own
               are met before a variant is chosen, so this one came from every backend.
latency_ms:    of complete answers alone.
ttft_ms:       of streams that showed something, complete or not, unless the client left.
output_tokens: of complete answers, where somebody counted them.
cost_usd:      of everything that has a price, for it was paid.

What is missing is no observation; it does not count as 0.
"""

from collections.abc import Iterator

from gateway.experiments.metrics import BUILT_IN
from gateway.records.rows import RequestRow


def observations(row: RequestRow) -> Iterator[tuple[str, float]]:
    """Metrics, and this request's value of each on the metric's scale."""
    for metric, value in _values(row):
        yield metric, BUILT_IN[metric].scaled(value)


def is_error(row: RequestRow) -> bool:
    """Whether the answer failed, before it began or later."""
    if row.status == 429 or row.status >= 500:
        return True
    return row.status < 400 and bool(row.error)


def _values(row: RequestRow) -> Iterator[tuple[str, float]]:
    failed = is_error(row)
    complete = row.status == 200 and not failed
    yield "error", float(failed)
    if row.stream and row.status == 200 and row.ttft_ms is not None:
        yield "ttft_ms", row.ttft_ms
    if complete:
        yield "latency_ms", row.ms
        if row.completion_tokens is not None:
            yield "output_tokens", float(row.completion_tokens)
    if row.cost_usd is not None:
        yield "cost_usd", row.cost_usd
