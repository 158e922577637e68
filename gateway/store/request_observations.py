"""What a request says about the variant that it was assigned to, metric by metric.

error:         every request of a unit, also one that the client ended (499) or got wrong (4xx):
               those are no errors, but they are requests. A 429 is an error: limits of our own
               are met before a variant is chosen, so this one came from every backend.
fallback:      every request of a unit: whether a backend answered that is not the variant's. One
               that no backend answered is an error and no fallback.
vote_rate:     every request of a unit: whether it got a vote. None has when it comes;
               `intake` counts those that do.
latency_ms:    of complete answers alone.
ttft_ms:       of streams that showed something, complete or not, unless the client left.
output_tokens: of complete answers, where somebody counted them.
cost_usd:      of everything that has a price, for it was paid.

What is missing is no observation; it does not count as 0.
"""

from gateway.experiments.statistics.metrics import BUILT_IN, VOTE_RATE
from gateway.store.rows import RequestRow

_ttft, _latency = BUILT_IN["ttft_ms"].scaled, BUILT_IN["latency_ms"].scaled
_tokens, _cost = BUILT_IN["output_tokens"].scaled, BUILT_IN["cost_usd"].scaled


def observations(row: RequestRow) -> list[tuple[str, float]]:
    """Metrics, and this request's value of each on the metric's scale."""
    failed = is_error(row)
    found = [("error", float(failed)), ("fallback", float(row.fallback)), (VOTE_RATE, 0.0)]
    if row.stream and row.status == 200 and row.ttft_ms is not None:
        found.append(("ttft_ms", _ttft(row.ttft_ms)))
    if row.status == 200 and not failed:
        found.append(("latency_ms", _latency(row.ms)))
        if row.completion_tokens is not None:
            found.append(("output_tokens", _tokens(float(row.completion_tokens))))
    if row.cost_usd is not None:
        found.append(("cost_usd", _cost(row.cost_usd)))
    return found


def is_error(row: RequestRow) -> bool:
    """Whether the answer failed, before it began or later."""
    if row.status == 429 or row.status >= 500:
        return True
    return row.status < 400 and bool(row.error)
