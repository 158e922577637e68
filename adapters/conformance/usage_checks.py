"""Checks that `Usage.raw` keeps all of the vendor's `usage`.

Surfaces return members outside our schema to clients, so none may be missing.
"""

from collections.abc import Iterator
from typing import cast

import msgspec

from strowger_gateway.adapters.base import Adapter
from strowger_gateway.adapters.conformance.recordings import Recording, request_for
from strowger_gateway.adapters.conformance.replay import frames, translate
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.events import Usage
from strowger_gateway.schemas.requests import EmbeddingsRequest
from strowger_gateway.schemas.tasks.task import TaskRequest, Unsampled

_Fields = dict[str, object]


def check_usage(adapter: Adapter, recording: Recording) -> None:
    """Check that every member of a recorded answer's usage object is in `raw`.

    An answer of several choices may be counted per choice, and then has no such object.
    """
    request = request_for(recording)
    if isinstance(request, EmbeddingsRequest):
        usage = adapter.embeddings(request, recording.body).usage
        bodies = [recording.body]
    elif isinstance(request, TaskRequest):
        return  # what a vendor bills by is read into our own fields
    else:
        try:
            events = translate(adapter, request, [recording.body])
        except GatewayError:
            return  # another check decides whether it should be an answer
        usage = next((one for one in reversed(events) if isinstance(one, Usage)), None)
        bodies = (
            [data for _, data in frames(adapter, [recording.body])] if recording.streamed else []
        )
        bodies = bodies or [recording.body]
    counted = [found for body in bodies for found in _usages(_decoded(body))]
    several = not isinstance(request, Unsampled) and (request.sampling.n or 1) > 1
    if not counted or usage is None or (several and usage.raw is None):
        return
    counts = {name for name, value in counted[-1].items() if value is not None}
    kept = set[str]() if usage.raw is None else set(_fields(usage.raw))
    missing = counts - kept
    assert not missing, f"{recording.name}: {sorted(missing)} of the vendor's usage is lost"


def _decoded(body: bytes) -> object:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _fields(raw: msgspec.Raw) -> _Fields:
    return msgspec.json.decode(raw, type=_Fields)


def _usages(value: object) -> Iterator[_Fields]:
    """Yield objects with counts under a top-level name such as `usage` or `usageMetadata`."""
    if not isinstance(value, dict):
        return
    for name, inner in cast("_Fields", value).items():
        if name.lower().startswith("usage") and isinstance(inner, dict):
            fields = cast("_Fields", inner)
            if any(type(count) is int for count in fields.values()):
                yield fields
