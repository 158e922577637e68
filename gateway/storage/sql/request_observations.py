"""The observations of a request for its assigned variant, metric by metric.

error:         every request of a unit, also one that the client aborted (499) or sent wrongly
               (4xx): those count as requests without error. A 429 is an error: our own limits
               apply before a variant is chosen, so this one came from every backend. Except
               OWN_QUEUE: other requests of its key filled the queue, and no variant answered.
fallback:      every request of a unit: 1 if the answering backend is not the variant's. A request
               that no backend answered is an error, not a fallback.
vote_rate:     every request of a unit: 1 if it got a vote. It starts as 0; `import_rows` counts
               the votes.
latency_ms:    complete answers only.
ttft_ms:       streams with content, complete or not, unless the client disconnected.
output_tokens: complete answers with a token count.
cost_usd:      every request with a price, because it was paid.
prompt_tokens, log_prompt_tokens: every request whose prompt was measured, because its experiment
               adjusts by it (`PROMPT_ATTRIBUTE`). They are not outcomes.

A missing value is not an observation; it does not count as 0.
"""

from math import log1p

from strowger_gateway.gateway.statistics.metrics import (
    BUILT_IN,
    LOG_PROMPT_TOKENS,
    PROMPT_TOKENS,
    VOTE_RATE,
)
from strowger_gateway.gateway.storage.sql.rows import RequestRow

_ttft, _latency = BUILT_IN["ttft_ms"].scaled, BUILT_IN["latency_ms"].scaled
_tokens, _cost = BUILT_IN["output_tokens"].scaled, BUILT_IN["cost_usd"].scaled


PROMPT_ATTRIBUTE = "experiment_prompt_tokens"
"""Among the attributes of a request: the tokens of its prompt, as its experiment counts them."""

OWN_QUEUE = "connections_in_use"
"""The code of a request for which none of the gateway's connections to a provider was free."""


def observations(row: RequestRow) -> list[tuple[str, float]]:
    """Return the metrics, and this request's value of each on the metric's scale."""
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
    if row.attributes is not None:
        tokens = row.attributes.get(PROMPT_ATTRIBUTE)
        if isinstance(tokens, int):
            found += ((PROMPT_TOKENS, float(tokens)), (LOG_PROMPT_TOKENS, log1p(tokens)))
    return found


def is_error(row: RequestRow) -> bool:
    """True if the answer failed, before it started or later."""
    if row.error == OWN_QUEUE:
        return False
    if row.status == 429 or row.status >= 500:
        return True
    return row.status < 400 and bool(row.error)
