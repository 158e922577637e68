"""Equivalent requests for backends that do not support the fields the client sent."""

from collections.abc import Collection
from typing import Final, TypeVar

import msgspec
from msgspec import UNSET

from strowger_gateway.schemas.fields import STREAM_OPTIONS, stream_members
from strowger_gateway.schemas.requests import GenerateRequest

BEAMS: Final = "use_beam_search"
DEFAULTS: Final[dict[str, bytes]] = {
    BEAMS: b"false",
    "include_stop_str_in_output": b"false",
    "skip_special_tokens": b"true",
}
"""Fields of vLLM's and MindIE's chat outside our schema, with their default values."""

_AnyRequest = TypeVar("_AnyRequest", bound=GenerateRequest)


def without_do_sample(request: _AnyRequest, known: Collection[str]) -> _AnyRequest:
    """Return the request without `do_sample`, unless `known` includes that field.

    `False` becomes temperature 0, at which fields that restrict the candidates have no effect and
    are omitted; `True` is every backend's default.
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


def in_known_fields(request: _AnyRequest, known: Collection[str]) -> _AnyRequest:
    """Return the request for a backend without unknown fields: express them in our own if possible.

    `use_beam_search` becomes `beam_width` if that is `known`: as many beams as `best_of`, or else
    `n`. Fields at their defaults are omitted. All others stay, and are rejected later.
    """
    extra = {
        name: raw
        for name, raw in request.extra.items()
        if DEFAULTS.get(name) != bytes(raw) and (name != STREAM_OPTIONS or stream_members(raw))
    }
    sampling = request.sampling
    width = sampling.n if sampling.best_of is UNSET else sampling.best_of
    switch = extra.get(BEAMS)
    if (
        switch is not None
        and bytes(switch) == b"true"
        and "beam_width" in known
        and sampling.beam_width is UNSET
        and width is not UNSET
        and width > 1
    ):
        del extra[BEAMS]
        sampling = msgspec.structs.replace(sampling, beam_width=width, best_of=UNSET)
    return msgspec.structs.replace(request, sampling=sampling, extra=extra)
