"""Read `options`: what our schema has becomes sampling, and the rest stays for an Ollama server.

Ollama never refuses an option: it ignores those that its runner does not have. So each of them may
be left out for a backend without it, and is then named in `x-gateway-dropped-params`.
"""

import math
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import UNSET, DecodeError, Raw, Struct, UnsetType, ValidationError
from msgspec.structs import replace

from strowger_gateway.gateway.surfaces.decoding import invalid_request, is_null, null_to_unset
from strowger_gateway.gateway.surfaces.ollama.wire import ALLOWED, OptionsWire
from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.schemas.sampling import Sampling

OPTIONS: Final = "options"

NAMES: Final[Mapping[str, str]] = {
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "typical_p": "typical_p",
    "max_tokens": "num_predict",
    "seed": "seed",
    "stop": "stop",
    "repetition_penalty": "repeat_penalty",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}
"""Our names -> names under `options`."""

OMITTABLE: Final = (
    "frequency_penalty",
    "min_p",
    "presence_penalty",
    "reasoning_effort",
    "repetition_penalty",
    "seed",
    "temperature",
    "top_k",
    "top_p",
    "typical_p",
)
"""What a backend without it answers without. Not the limit and the stop strings, which a client
relies on."""

RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "temperature": (0, 2),
    "top_k": (1, math.inf),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "typical_p": (1e-9, 1),
    "repeat_penalty": (1e-9, math.inf),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
}
"""What the options mean to every backend. Ollama takes any number, and gives some of them a meaning
of its own (a `top_k` of 0 keeps the whole vocabulary): only an Ollama server gets another one."""

_READ: Final = frozenset(OptionsWire.__struct_fields__)
_INTEGERS: Final = ("top_k", "num_predict", "seed")
_options: Final = msgspec.json.Decoder(OptionsWire)
_number: Final = msgspec.json.Decoder(float)
_fields: Final = msgspec.json.Decoder(dict[str, Raw])


class Options(Struct, frozen=True, kw_only=True):
    """rest: the options that our schema does not have, or not with that value, as one object.

    names: their paths.
    """

    sampling: Sampling = Sampling()
    rest: Raw | UnsetType = UNSET
    names: tuple[str, ...] = ()


_NONE: Final = Options()


def read_options(raw: Raw | UnsetType) -> Options:
    """Raises InvalidRequest for an option of the wrong type."""
    raw = null_to_unset(raw)
    if isinstance(raw, UnsetType):
        return _NONE
    try:
        fields = _fields.decode(raw)
        wire = _decoded(raw, fields)
    except (DecodeError, RecursionError) as exc:
        raise invalid_request(exc, OPTIONS, ALLOWED) from exc
    kept = {name: one for name, one in fields.items() if name not in _READ and not is_null(one)}
    outside = [name for name, bounds in RANGES.items() if _is_outside(getattr(wire, name), bounds)]
    for name in outside:
        kept[name] = fields[name]
        wire = replace(wire, **{name: None})
    # Ollama's defaults: no limit at 0 and below, and any seed below 0.
    limit, seed = wire.num_predict, wire.seed
    return Options(
        sampling=Sampling(
            temperature=_given(wire.temperature),
            top_k=UNSET if wire.top_k is None else wire.top_k,
            top_p=_given(wire.top_p),
            min_p=_given(wire.min_p),
            typical_p=_given(wire.typical_p),
            max_tokens=limit if limit is not None and limit > 0 else UNSET,
            seed=seed if seed is not None and seed >= 0 else UNSET,
            stop=_stop(wire.stop),
            repetition_penalty=_given(wire.repeat_penalty),
            presence_penalty=_given(wire.presence_penalty),
            frequency_penalty=_given(wire.frequency_penalty),
        ),
        rest=Raw(encode(kept)) if kept else UNSET,
        names=tuple([f"{OPTIONS}.{name}" for name in kept]),
    )


def _decoded(raw: Raw, fields: Mapping[str, Raw]) -> OptionsWire:
    """Return the options. A fraction of an integer is cut off, as an Ollama server does."""
    try:
        return _options.decode(raw)
    except ValidationError:
        whole = {name: _whole(fields[name]) for name in _INTEGERS if name in fields}
        return _options.decode(encode({**fields, **whole}))


def _whole(raw: Raw) -> Raw:
    try:
        return Raw(encode(int(_number.decode(raw))))
    except (ValidationError, OverflowError):
        return raw


def option_names(rest: Raw) -> list[str]:
    """Return the paths of the options in an object that `read_options` has written."""
    return [f"{OPTIONS}.{name}" for name in _fields.decode(rest)]


def _is_outside(value: float | None, bounds: tuple[float, float]) -> bool:
    return value is not None and not bounds[0] <= value <= bounds[1]


def _given(value: float | None) -> float | UnsetType:
    return UNSET if value is None else value


def _stop(stop: str | tuple[str, ...] | None) -> tuple[str, ...] | UnsetType:
    """Drop empty strings: they stop nothing."""
    if stop is None:
        return UNSET
    return tuple([one for one in ((stop,) if isinstance(stop, str) else stop) if one]) or UNSET
