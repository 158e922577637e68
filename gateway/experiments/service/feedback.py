"""Feedback: what somebody thought of an answer, from a body to a row of the records."""

import re
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from gateway.config.schema_experiment import Experiment
from gateway.config.schema_metric import FEEDBACK_METRIC, MetricContract
from gateway.experiments.service.metric_contracts import checked_value
from gateway.experiments.statistics.metrics import BUILT_IN, COMMENT, LARGEST
from gateway.store.rows import FeedbackRow
from schemas.errors import InvalidRequest, RouteNotFound

MOST_METRICS = 64
"""That one process takes, beside those that experiments name: each is a column of reports."""
LONGEST_COMMENT = 8_192
YOUNG_S = 60.0
"""A request's row takes seconds to reach the store; until then its feedback is taken on trust."""
MAX_BYTES = 65_536

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_NAMED = re.compile(r"field `([^`]{1,64})")
_METRIC = re.compile(FEEDBACK_METRIC)


class FeedbackBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is sent to `/v1/feedback`: a metric with its value, a comment, or both.

    request_id: the answer's `x-gateway-request-id`.
    metric:     small letters, digits and _; not one of those that the gateway measures.
    value:      a boolean or a number, as the metric's contract says where it has one; of one
                request and metric the last one counts.
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
    """Raises InvalidRequest naming the field."""
    try:
        body = _body.decode(data)
    except msgspec.ValidationError as exc:
        raise _invalid_field(str(exc)) from exc
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as exc:
        raise InvalidRequest(f"the body is no JSON: {exc}") from exc
    if body.value is None and not body.comment:
        raise InvalidRequest("value: give a boolean or a number, or a comment", param="value")
    if body.value is None and body.metric:
        raise InvalidRequest(f"value: metric {body.metric!r} has none", param="value")
    if body.value is not None:
        _check_metric(body.metric)
        if not abs(body.value) <= LARGEST:
            raise InvalidRequest(f"value: at most {LARGEST:g}, either way of 0", param="value")
    if len(body.comment) > LONGEST_COMMENT:
        raise InvalidRequest(
            f"comment: {len(body.comment)} characters; at most {LONGEST_COMMENT} are taken",
            param="comment",
        )
    return body


def _invalid_field(said: str) -> InvalidRequest:
    """said: msgspec's words; they name a field at their end, or in them where the body lacks it."""
    fault, _, path = said.partition(" - at `$.")
    field = path.rstrip("`")
    if field:
        return InvalidRequest(f"{field}: {_WANTED.get(field, fault)}", param=field)
    named = _NAMED.search(fault)
    if named is None:
        return InvalidRequest(f"the body is no object: {fault}")
    known = ", ".join(FeedbackBody.__struct_fields__)
    words = "is missing" if "missing" in fault else "is not known here"
    return InvalidRequest(f"{named[1]}: {words}; feedback has {known}", param=named[1])


def row_of(
    body: FeedbackBody,
    key: str,
    at: float,
    contracts: Sequence[MetricContract],
    experiments: Sequence[Experiment],
) -> FeedbackRow:
    """key: the sender's name. at: Unix seconds.

    Raises InvalidRequest for a value that its metric does not take.
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
    """Whether an id of ours was made so lately that its row may still be on its way.

    The first 48 bits are its milliseconds (RFC 9562); clocks of replicas may differ a little.
    """
    if not _ID.fullmatch(request_id):
        return False
    made = int(request_id[:8] + request_id[9:13], 16) / 1e3
    return abs(at - made) <= YOUNG_S


def request_not_found(request_id: str) -> RouteNotFound:
    """The same words for an id that is unknown and for one of another key."""
    return RouteNotFound(
        f"request_id: no request {request_id[:64]!r} was made with this key; send the "
        "x-gateway-request-id of the answer, with the key that asked for it",
        param="request_id",
        code="request_not_found",
    )


class FeedbackMetrics:
    """The names of feedback that this process takes: those that are configured, and a few more."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def admit(
        self,
        metric: str,
        contracts: Sequence[MetricContract],
        experiments: Sequence[Experiment],
    ) -> None:
        """Raises InvalidRequest for one name too many."""
        if metric in self._seen or any(one.name == metric for one in contracts):
            return
        if any(one.decided_by(metric) for one in experiments):
            return
        if len(self._seen) >= MOST_METRICS:
            raise InvalidRequest(
                f"metric: {metric!r} is one more than the {MOST_METRICS} that are kept; use "
                "fewer names, or give it a contract under `metrics` of the configuration",
                param="metric",
            )
        self._seen.add(metric)


def _check_metric(metric: str) -> None:
    if not metric:
        raise InvalidRequest("metric: is missing; a value needs a name", param="metric")
    if not _METRIC.fullmatch(metric):
        raise InvalidRequest(
            f"metric: {metric[:64]!r} is no name: up to 64 small letters, digits and _, "
            "starting with a letter",
            param="metric",
        )
    if metric in BUILT_IN or metric == COMMENT:
        raise InvalidRequest(
            f"metric: {metric!r} is a name of the gateway's own; use another", param="metric"
        )
