"""Totals of requests, some in the store and some not yet."""

from collections.abc import Sequence

from msgspec.structs import replace

from strowger_gateway.gateway.console.admin.request_log.views import RequestView
from strowger_gateway.gateway.storage.sql.request_log.filters import is_error, is_failed
from strowger_gateway.gateway.storage.sql.request_log.search import Totals


def plus(totals: Totals, remembered: Sequence[RequestView]) -> Totals:
    """Add requests that are not in the totals, but for those before `totals.since`."""
    since = totals.since
    more = [one for one in remembered if since is None or one.time >= since]
    if not more:
        return totals
    costs = [one.total_cost_usd for one in more if one.completion_tokens is not None]
    return replace(
        totals,
        requests=totals.requests + len(more),
        failed=totals.failed + sum(map(is_failed, more)),
        errors=totals.errors + sum(map(is_error, more)),
        cost_usd=totals.cost_usd + sum(one.total_cost_usd or 0.0 for one in more),
        prompt_tokens=totals.prompt_tokens + sum(one.prompt_tokens or 0 for one in more),
        completion_tokens=totals.completion_tokens
        + sum(one.completion_tokens or 0 for one in more),
        unpriced=totals.unpriced + costs.count(None),
    )
