"""The shape of `telemetry` in config.yaml: where traces and metrics are sent."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

from strowger_gateway.schemas.secret import Secret


class Otlp(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An OpenTelemetry collector.

    endpoint: base URL; `/v1/traces` and `/v1/metrics` are appended. headers: sent with every
    export; all of them secrets. sample: share of the traces that begin here.
    metrics_interval_s: `None` exports no metrics.
    """

    endpoint: str
    protocol: Literal["http/protobuf"] = "http/protobuf"
    headers: Mapping[str, Secret] = {}
    sample: Annotated[float, Meta(ge=0, le=1)] = 0.1
    metrics_interval_s: Annotated[float, Meta(ge=1, le=3600)] | None = None


class Telemetry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """otlp: receives OpenTelemetry traces and metrics."""

    otlp: Otlp | None = None
