"""In which dialect an error is told to a client that reached no route of the request path."""

from collections.abc import Callable
from typing import Final

from gateway.surfaces import kserve_bodies, mindie
from gateway.surfaces.databricks_errors import error_body as databricks_error
from gateway.surfaces.openai import error_body
from schemas.errors import GatewayError

Envelope = Callable[[GatewayError], bytes]

ENVELOPES: Final[tuple[tuple[str, Envelope], ...]] = (
    ("/infer_token", mindie.error_body),
    ("/serving-endpoints", databricks_error),
    ("/api/2.0/", databricks_error),
    ("/.well-known/databricks-config", databricks_error),
    ("/v2", kserve_bodies.error_body),
    ("/", error_body),
)
"""The beginning of a path -> who writes the errors there; the first that fits."""


def envelope(path: str) -> Envelope:
    path = "/" + path.lstrip("/")
    return next((write for prefix, write in ENVELOPES if path.startswith(prefix)), error_body)
