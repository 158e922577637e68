"""Apply the operator's values, a model's `defaults` and `overrides`, to a request."""

from collections.abc import Iterator

import msgspec
from msgspec import UNSET, Struct

from strowger_gateway.gateway.config.schema.config import RequestFields
from strowger_gateway.schemas.requests import Request
from strowger_gateway.schemas.sampling import Sampling
from strowger_gateway.schemas.tasks.task import Unsampled


def with_values(request: Request, defaults: RequestFields, overrides: RequestFields) -> Request:
    """The request with the operator's values: defaults for absent fields, overrides always.

    Fields that the request's task does not have are ignored.
    """
    fields = {
        **{name: value for name, value in _values(defaults) if _absent(request, name)},
        **{name: value for name, value in _values(overrides) if hasattr(request, name)},
    }
    if not isinstance(request, Unsampled):
        sampling = request.sampling
        sampled = {
            **{n: value for n, value in _values(defaults.sampling) if _absent(sampling, n)},
            **dict(_values(overrides.sampling)),
        }
        fields["sampling"] = msgspec.structs.replace(sampling, **sampled)
    return msgspec.structs.replace(request, **fields)


def _values(values: Struct) -> Iterator[tuple[str, object]]:
    """Name and value of the fields that are set, without `sampling`."""
    for name in values.__struct_fields__:
        value: object = getattr(values, name)
        if value is not UNSET and not isinstance(value, Sampling):
            yield name, value


def _absent(request: Struct, name: str) -> bool:
    """Whether the request has such a field, but the client did not set it."""
    return getattr(request, name, False) in (UNSET, None)
