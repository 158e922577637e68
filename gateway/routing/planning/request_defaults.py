"""The operator's values in a request: what `defaults` and `overrides` of a model say."""

from collections.abc import Iterator

import msgspec
from msgspec import UNSET, Struct

from gateway.config.schema import RequestFields
from schemas.requests import EmbeddingsRequest, Request
from schemas.sampling import Sampling


def with_values(request: Request, defaults: RequestFields, overrides: RequestFields) -> Request:
    """The request with the operator's values: defaults where it is silent, overrides anyway.

    A field that the request's task does not have is left out.
    """
    own = {
        **{name: value for name, value in _given(defaults) if _silent(request, name)},
        **{name: value for name, value in _given(overrides) if hasattr(request, name)},
    }
    if not isinstance(request, EmbeddingsRequest):
        sampling = request.sampling
        sampled = {
            **{n: value for n, value in _given(defaults.sampling) if _silent(sampling, n)},
            **dict(_given(overrides.sampling)),
        }
        own["sampling"] = msgspec.structs.replace(sampling, **sampled)
    return msgspec.structs.replace(request, **own)


def _given(values: Struct) -> Iterator[tuple[str, object]]:
    for name in values.__struct_fields__:
        value: object = getattr(values, name)
        if value is not UNSET and not isinstance(value, Sampling):
            yield name, value


def _silent(request: Struct, name: str) -> bool:
    return getattr(request, name, False) in (UNSET, None)
