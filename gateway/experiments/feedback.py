"""Feedback on answers: from a request body to a recorded row."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.config.schema.experiment import Experiment
from strowger_gateway.gateway.config.schema.metric import FEEDBACK_METRIC, MetricContract
from strowger_gateway.gateway.experiments.metric_contracts import checked_value
from strowger_gateway.gateway.statistics.metrics import COMMENT, LARGEST, MEASURED
from strowger_gateway.gateway.storage.sql.base import KnownRequest
from strowger_gateway.gateway.storage.sql.rows import FeedbackRow
from strowger_gateway.schemas.errors import InvalidRequest, RouteNotFound

MOST_METRICS = 64
"""Metric names that one process accepts besides those in experiments and contracts: each becomes a
column of reports."""

LONGEST_COMMENT = 8_192
YOUNG_S = 60.0
"""A request's row takes seconds to reach the store; until then feedback on it is not checked."""

MAX_BYTES = 65_536

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_NAMED = re.compile(r"field `([^`]{1,64})")
_METRIC = re.compile(FEEDBACK_METRIC)


class FeedbackBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of `/v1/feedback`: a metric with its value, a comment, or both.

    request_id: the answer's `x-gateway-request-id`.
    metric:     lower-case letters, digits and _; not one of those that the gateway measures.
    value:      a boolean or a number, according to the metric's contract if it has one; the last
                one for a request and metric counts.
    """

    request_id: str
    metric: str = ""
    value: bool | int | float | None = None
    comment: str = ""


_WANTED = {
    "request_id": "give the answer's x-gateway-request-id, as text",
    "metric": "give its name, as text",
    "value": "give true, false or a number, not in quotes",
    "comment": "give text",
}

_body = msgspec.json.Decoder(FeedbackBody)


def read_feedback(data: bytes) -> FeedbackBody:
    """Decode and check a body. Raises InvalidRequest naming the field."""
    try:
        body = _body.decode(data)
    except msgspec.ValidationError as exc:
        raise _invalid_field(str(exc)) from exc
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as exc:
        raise InvalidRequest(f"the body is not valid JSON: {exc}") from exc
    if body.value is None and not body.comment:
        raise InvalidRequest("value: give a boolean or a number, or a comment", param="value")
    if body.value is None and body.metric:
        raise InvalidRequest(f"value: is missing for metric {body.metric!r}", param="value")
    if body.value is not None:
        _check_metric(body.metric)
        if not abs(body.value) <= LARGEST:
            raise InvalidRequest(
                f"value: must be between -{LARGEST:g} and {LARGEST:g}", param="value"
            )
    if len(body.comment) > LONGEST_COMMENT:
        raise InvalidRequest(
            f"comment: has {len(body.comment)} characters; at most {LONGEST_COMMENT} are allowed",
            param="comment",
        )
    return body


def _invalid_field(message: str) -> InvalidRequest:
    """message: msgspec's. It ends with the field's path, or quotes the name of a missing field."""
    fault, _, path = message.partition(" - at `$.")
    field = path.rstrip("`")
    if field:
        return InvalidRequest(f"{field}: {_WANTED.get(field, fault)}", param=field)
    named = _NAMED.search(fault)
    if named is None:
        return InvalidRequest(f"the body is not a JSON object: {fault}")
    known = ", ".join(FeedbackBody.__struct_fields__)
    words = "is missing" if "missing" in fault else "is unknown"
    return InvalidRequest(f"{named[1]}: {words}; the fields are {known}", param=named[1])


def row_of(
    body: FeedbackBody,
    key: str,
    at: float,
    contracts: Sequence[MetricContract],
    experiments: Sequence[Experiment],
) -> FeedbackRow:
    """Build the row of a checked body. key: the sender's name. at: Unix seconds.

    Raises InvalidRequest for a value that its metric does not accept.
    """
    value = given = None
    if body.value is not None:
        value, given = checked_value(body.metric, body.value, contracts, experiments)
    return FeedbackRow(
        request_id=body.request_id,
        time=at,
        key=key,
        metric=body.metric if value is not None else COMMENT,
        value=value,
        given=given,
        comment=body.comment,
        boolean=isinstance(body.value, bool),
    )


def is_young(request_id: str, at: float) -> bool:
    """True if an id of ours is so recent that its row may not be in the store yet.

    Its first 48 bits are Unix milliseconds (RFC 9562); clocks of gateways may differ a little.
    """
    if not _ID.fullmatch(request_id):
        return False
    made = int(request_id[:8] + request_id[9:13], 16) / 1e3
    return abs(at - made) <= YOUNG_S


def request_not_found(request_id: str) -> RouteNotFound:
    """Return one error for unknown ids and those of other keys, so that neither is revealed."""
    return RouteNotFound(
        f"request_id: this key made no request {request_id[:64]!r}; send the x-gateway-request-id "
        "of the answer, with the key that made the request",
        param="request_id",
        code="request_not_found",
    )


def check_in_time(request: KnownRequest, row: FeedbackRow) -> None:
    """Raise InvalidRequest for a vote that comes later than `votes_until` of its experiment."""
    if request.votes_until is not None and row.time > request.votes_until:
        until = datetime.fromtimestamp(request.votes_until, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        raise InvalidRequest(
            f"request_id: votes on this answer counted until {until}, and this one does not; the "
            "operator sets votes_until of the experiment",
            param="request_id",
            code="vote_too_late",
        )


class FeedbackMetrics:
    """The feedback metrics that this process accepts: configured ones and MOST_METRICS more."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def admit(
        self,
        metric: str,
        contracts: Sequence[MetricContract],
        experiments: Sequence[Experiment],
    ) -> None:
        """Accept a metric's name. Raises InvalidRequest if there are too many."""
        if metric in self._seen or any(one.name == metric for one in contracts):
            return
        if any(one.decided_by(metric) for one in experiments):
            return
        if len(self._seen) >= MOST_METRICS:
            raise InvalidRequest(
                f"metric: {metric!r} exceeds the limit of {MOST_METRICS} names without a contract; "
                "use fewer names, or add a contract under `metrics` in the configuration",
                param="metric",
            )
        self._seen.add(metric)


def _check_metric(metric: str) -> None:
    if not metric:
        raise InvalidRequest("metric: is missing; a value needs a name", param="metric")
    if not _METRIC.fullmatch(metric):
        raise InvalidRequest(
            f"metric: {metric[:64]!r} is not a valid name; use up to 64 lower-case letters, digits "
            "and _, starting with a letter",
            param="metric",
        )
    if metric in MEASURED or metric == COMMENT:
        raise InvalidRequest(
            f"metric: {metric!r} is reserved for the gateway; use another name", param="metric"
        )
