"""What every export says of its origin: this process of the gateway."""

import os
from importlib.metadata import PackageNotFoundError, version
from uuid import uuid4

from msgspec import Struct

from strowger_gateway.gateway.observability.otlp.protobuf import key_value, part


class Resource(Struct, frozen=True, kw_only=True):
    """Encoded for `export_request`. attributes: of the resource. scope: an InstrumentationScope."""

    attributes: bytes
    scope: bytes
    schema_url: str


def own_resource(schema_url: str) -> Resource:
    """Return the resource of this process.

    Each process counts for itself, so each is an instance of the service: workers, too.
    https://opentelemetry.io/docs/specs/semconv/registry/attributes/service/
    """
    running = _version()
    attributes = (
        ("service.name", "strowger"),
        ("service.version", running),
        ("service.instance.id", str(uuid4())),
        ("process.pid", os.getpid()),
    )
    return Resource(
        attributes=b"".join([part(1, key_value(key, value)) for key, value in attributes]),
        scope=part(1, b"strowger") + part(2, running.encode()),
        schema_url=schema_url,
    )


def _version() -> str:
    try:
        return version("strowger-gateway")
    except PackageNotFoundError:  # run from a checkout
        return "unknown"
