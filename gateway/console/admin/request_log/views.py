"""A request as the API shows it: from the memory of a process, or from the store."""

from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.observability.telemetry.recent_requests import RecentRequest
from strowger_gateway.gateway.routing.exclusion import Exclusion
from strowger_gateway.gateway.routing.request_record import AttemptRecord
from strowger_gateway.gateway.storage.sql.request_queries import RecordedRequest
from strowger_gateway.gateway.storage.sql.rows import Attribute, RecordedFields


class AttemptView(Struct, frozen=True, kw_only=True):
    """One attempt. outcome: `ok`, `cancelled`, `lost` to a faster attempt, or the error's code.

    hedge:   started in parallel because the first attempt was late; from the store: the one of two
             parallel attempts that did not serve.
    refused: nothing was sent, because the backend's API cannot express the request; not stored.
    provider_key: the name of the vendor's key, if the provider has several.
    """

    backend: str
    outcome: str
    ms: float
    hedge: bool
    refused: bool
    provider_key: str = ""


class RuledOutView(Struct, frozen=True, kw_only=True):
    backend: str
    reason: str


class RequestView(RecordedFields, frozen=True, kw_only=True, omit_defaults=False):
    """One finished request: its access log line, and why it was routed as it was.

    source:     memory, or the store, which does not keep decisions: `rule`, `candidates`,
                `ruled_out`, `excluded`, `refused`, `dropped`, `repaired`, `tags`, `usage_source`
                and the counts of cached and reasoning tokens are then empty.
    total_cost_usd: of all attempts, also those that the client saw nothing of; null if no price is
                known, or for a request with several attempts that is not in the store yet.
    payload:    path of its bodies in the API; "" if they are not in the store, or not for the
                reader's role. Only `/admin/requests/{id}` has it.
    rule:       index of the `when` rule that matched, from 0.
    excluded:   why it does not count in its model's experiment; null: it does, or there is none.
    candidates: in order of preference, tried or not. refused: why no backend was tried, else "".
    """

    attributes: Mapping[str, Attribute] = {}
    source: Literal["memory", "store"]
    total_cost_usd: float | None
    payload: str = ""
    excluded: Exclusion | None
    rule: int | None
    candidates: tuple[str, ...]
    ruled_out: list[RuledOutView]
    attempts: list[AttemptView]
    refused: str
    dropped: tuple[str, ...]
    repaired: tuple[str, ...]
    cached_tokens: int | None
    reasoning_tokens: int | None
    usage_source: str


def viewed(decision: RecentRequest) -> RequestView:
    """Combine the access line's fields and the decisions, under the same names."""
    values: dict[str, object] = {"source": "memory", "total_cost_usd": _total_cost(decision)}
    for name in RequestView.__struct_fields__:
        if name not in (*values, "payload"):
            values[name] = getattr(decision if hasattr(decision, name) else decision.line, name)
    values["attributes"] = decision.line.attributes or {}
    values["ruled_out"] = [
        RuledOutView(backend=backend, reason=reason) for backend, reason in decision.ruled_out
    ]
    values["attempts"] = [_attempt(attempt) for attempt in decision.line.attempts]
    return msgspec.convert(values, RequestView)


def _total_cost(decision: RecentRequest) -> float | None:
    """The line has the cost of the answer only; of several attempts, the store adds it up."""
    sent = sum(not attempt.refused for attempt in decision.line.attempts)
    return decision.line.cost_usd if sent < 2 else None


def of_store(one: RecordedRequest) -> RequestView:
    """Copy the row's fields under the same names."""
    values: dict[str, object] = {
        field: getattr(one, field) for field in RecordedFields.__struct_fields__
    }
    attempts = [
        AttemptView(
            backend=attempt.backend,
            outcome=attempt.outcome,
            ms=round(attempt.ms, 3),
            hedge=attempt.role == "hedge",
            refused=False,
            provider_key=attempt.provider_key,
        )
        for attempt in one.attempts
        if attempt.role != "mirror"
    ]
    values |= {"attributes": one.attributes or {}, "attempts": attempts}
    values["total_cost_usd"] = one.total_cost_usd
    return msgspec.convert({**_NOT_STORED, **values}, RequestView)


_NOT_STORED: dict[str, object] = {
    "source": "store",
    "rule": None,
    "candidates": (),
    "ruled_out": [],
    "excluded": None,
    "refused": "",
    "dropped": (),
    "repaired": (),
    "cached_tokens": None,
    "reasoning_tokens": None,
    "usage_source": "",
}


def _attempt(attempt: AttemptRecord) -> AttemptView:
    return AttemptView(
        backend=attempt.backend,
        outcome=attempt.outcome,
        ms=round(attempt.ms, 3),
        hedge=attempt.hedge,
        refused=attempt.refused,
        provider_key=attempt.provider_key,
    )
