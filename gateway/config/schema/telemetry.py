"""The shape of `telemetry` in config.yaml: where traces are sent."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

from schemas.secret import Secret


class Otlp(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An OpenTelemetry collector.

    endpoint: base URL; `/v1/traces` is appended. headers: sent with every export; all of them
    secrets. sample: share of the traces that begin here.
    """

    endpoint: str
    protocol: Literal["http/protobuf"] = "http/protobuf"
    headers: Mapping[str, Secret] = {}
    sample: Annotated[float, Meta(ge=0, le=1)] = 0.1


class Telemetry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """otlp: receives OpenTelemetry traces."""

    otlp: Otlp | None = None
