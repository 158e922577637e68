"""The record of one request's payload: what is written as a line, or sent as a log record."""

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.config.redaction import Redactor
from strowger_gateway.gateway.observability.payloads.joined_stream import joined_stream
from strowger_gateway.gateway.observability.telemetry.access_log import AccessLine
from strowger_gateway.gateway.routing.request_record import CapturedPayload
from strowger_gateway.schemas.measured_json import NotJson, read_json

_encoder = msgspec.json.Encoder()


class PayloadRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Fields up to `ms` are those of the access line.

    request, response: JSON after redaction; a text if it is not JSON or longer than max_bytes;
    absent if there is none, or if it is listed in `omitted`. A stream's events are joined.
    request_bytes, response_bytes: as received and sent.
    truncated, omitted: which of both; omitted ones are over 1 MiB, cannot be read as a stream, are
    not JSON while there are rules, or are a request in which guardrails have masked or blocked
    something, or that they have not seen.
    guardrails: what they found, as in the access log.
    """

    time: float
    request_id: str
    client_request_id: str = ""
    surface: str
    task: str = ""
    key: str = ""
    team: str = ""
    model: str = ""
    backend: str = ""
    status: int
    error: str = ""
    stream: bool = False
    ms: float
    request: msgspec.Raw | str | None = None
    response: msgspec.Raw | str | None = None
    request_bytes: int = 0
    response_bytes: int = 0
    truncated: tuple[str, ...] = ()
    omitted: tuple[str, ...] = ()
    guardrails: tuple[str, ...] = ()


def payload_record(
    line: AccessLine, captured: CapturedPayload, redactor: Redactor, max_bytes: int
) -> PayloadRecord:
    """Build the record. Nothing that a rule covers is in it."""
    truncated: list[str] = []
    omitted: list[str] = []
    request: msgspec.Raw | str | None = None
    response: msgspec.Raw | str | None = None
    if captured.request is None or captured.withheld:
        omitted.append("request")
    elif captured.request:
        try:
            request, cut = _fitted(_redacted(captured.request, redactor), max_bytes)
        except ValueError:
            omitted.append("request")
        else:
            truncated += ["request"] * cut
    answer = b"".join(captured.parts)
    if captured.too_large:
        omitted.append("response")
    elif answer:
        try:
            read = _redacted_events if captured.streamed else _redacted
            response, cut = _fitted(read(answer, redactor), max_bytes)
        except ValueError:
            omitted.append("response")
        else:
            truncated += ["response"] * cut
    return PayloadRecord(
        time=line.time,
        request_id=line.request_id,
        client_request_id=line.client_request_id,
        surface=line.surface,
        task=line.task,
        key=line.key,
        team=line.team,
        model=line.model,
        backend=line.backend,
        status=line.status,
        error=line.error,
        stream=line.stream,
        ms=line.ms,
        request=request,
        response=response,
        request_bytes=captured.request_bytes,
        response_bytes=captured.answer_bytes,
        truncated=tuple(truncated),
        omitted=tuple(omitted),
        guardrails=line.guardrails,
    )


def _redacted(body: bytes, redactor: Redactor) -> object:
    """Raises ValueError if rules cannot be applied, because the body is not JSON."""
    try:
        value = read_json(body)
    except NotJson:
        if redactor.has_rules:
            raise ValueError("not JSON") from None
        return body.decode("utf-8", "replace")
    return redactor.value(value)


def _redacted_events(frames: bytes, redactor: Redactor) -> object:
    """Raises ValueError for frames that cannot be read."""
    try:
        return redactor.value(joined_stream(frames))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _fitted(value: object, max_bytes: int) -> tuple[msgspec.Raw | str, bool]:
    """Return the value, and whether only its beginning, as a text."""
    if isinstance(value, str):
        data = value.encode("utf-8", "replace")
        cut = len(data) > max_bytes
        return data[:max_bytes].decode("utf-8", "ignore") if cut else value, cut
    data = _encoder.encode(value)
    if len(data) <= max_bytes:
        return msgspec.Raw(data), False
    return data[:max_bytes].decode("utf-8", "ignore"), True
