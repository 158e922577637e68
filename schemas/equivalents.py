"""The same wish in other words, for a backend that does not know the client's."""

from collections.abc import Collection
from typing import TypeVar

import msgspec
from msgspec import UNSET

from schemas.requests import GenerateRequest

_AnyRequest = TypeVar("_AnyRequest", bound=GenerateRequest)


def reworded(request: _AnyRequest, known: Collection[str]) -> _AnyRequest:
    """The request without `do_sample`, where that is not among the fields that are `known`.

    `False` becomes temperature 0, where what would cut the candidates changes nothing and is
    left out; `True` is what every backend does that is not told otherwise.
    """
    sampling = request.sampling
    if sampling.do_sample is UNSET or "do_sample" in known:
        return request
    if sampling.do_sample:
        sampling = msgspec.structs.replace(sampling, do_sample=UNSET)
    else:
        sampling = msgspec.structs.replace(
            sampling,
            do_sample=UNSET,
            temperature=0.0,
            top_p=UNSET,
            top_k=UNSET,
            min_p=UNSET,
            typical_p=UNSET,
        )
    return msgspec.structs.replace(request, sampling=sampling)
