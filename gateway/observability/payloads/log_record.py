"""Encode payload records as OTLP log records.

Field numbers: opentelemetry/proto/logs/v1/logs.proto,
https://github.com/open-telemetry/opentelemetry-proto/tree/v1.7.0
"""

from struct import pack
from typing import Final

import msgspec

from strowger_gateway.gateway.observability.otlp.exporter import Signal
from strowger_gateway.gateway.observability.otlp.protobuf import Value, any_value, key_value, part
from strowger_gateway.gateway.observability.payloads.record import PayloadRecord

LOGS: Final = Signal(path="/v1/logs", items="log records")
INFO, ERROR = 9, 17
"""https://opentelemetry.io/docs/specs/otel/logs/data-model/#field-severitynumber"""
EVENT: Final = "strowger.payload"

_encode = msgspec.json.Encoder().encode


def log_record(record: PayloadRecord, trace_id: bytes, span_id: bytes) -> bytes:
    """Encode field 2 of ScopeLogs. trace_id, span_id: of the request's span; b"" without one."""
    at = int(record.time * 1e9)
    severity = ERROR if record.error or record.status >= 400 else INFO
    body = _encode(record).decode()
    attributes: list[tuple[str, Value]] = [
        ("strowger.request_id", record.request_id),
        ("http.response.status_code", record.status),
    ]
    for name, value in (("strowger.model", record.model), ("strowger.key", record.key)):
        if value:
            attributes.append((name, value))
    fields = [
        pack("<BQ", 0x09, at),
        bytes((0x10, severity)),
        part(5, any_value(body, len(body))),
        *(part(6, key_value(name, value)) for name, value in attributes),
        pack("<BQ", 0x59, at),
        part(12, EVENT.encode()),
    ]
    if trace_id and span_id:
        fields += (part(9, trace_id), part(10, span_id), b"\x45" + pack("<I", 1))
    return part(2, b"".join(fields))
