"""A bug in the gateway, as its log, metrics and clients see it."""

import logging

from strowger_gateway.gateway.observability.telemetry.metrics import Metrics
from strowger_gateway.gateway.routing.request_record import RequestRecord
from strowger_gateway.schemas.errors import GatewayError

_log = logging.getLogger("strowger.endpoint")


def internal_error(
    exc: Exception, record: RequestRecord, path: str, metrics: Metrics
) -> GatewayError:
    """Log and count the exception that is being handled; return the error for the client."""
    told = "request %s at %s failed: bug in the gateway"
    _log.exception(told, record.request_id, path)
    metrics.internal_errors.count(path)
    record.error = "internal_error"
    failure = GatewayError("internal error; the gateway's log has the request id")
    failure.__cause__ = exc
    return failure
