"""Parse MindIE's /infer_token bodies, or raise an InvalidRequest that names the field.

Two defaults are filled in because MindIE's clients rely on them: `max_new_tokens` is 20, and
`do_sample` follows from whether any sampling parameter is set. Everything else that is absent
stays absent.
"""

from typing import Final

import msgspec
from msgspec import UNSET, DecodeError, Raw, Struct, UnsetType

from strowger_gateway.gateway.surfaces.decoding import BodyReader, null_to_unset
from strowger_gateway.gateway.surfaces.mindie.wire import (
    ALLOWED,
    DEFAULT_NEW_TOKENS,
    MAX_SEED,
    PARAMETERS,
    TOKENS,
    InferTokenOuter,
    ParametersWire,
)
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.fields import TEXT
from strowger_gateway.schemas.requests import TokenRequest
from strowger_gateway.schemas.sampling import Sampling

OPTIONAL: Final = ("typical_p", "watermark")
"""MindIE accepts these and ignores them, so they never make a request fail here. And if no
backend returns text for its tokens, an answer of ids is still valid."""

_SILENT: Final = ParametersWire()
_NOTHING: Final[dict[str, Raw]] = {}


class _Text(Struct, frozen=True, kw_only=True):
    inputs: Raw | UnsetType = UNSET


_text: Final = msgspec.json.Decoder(_Text)
_body: Final = BodyReader(InferTokenOuter, ALLOWED, numbers={"input_id": (TOKENS, TOKENS)})
_parameters: Final = BodyReader(ParametersWire, ALLOWED, where="parameters")


def parse_infer_token(body: bytes, *, model: str) -> TokenRequest:
    """`POST /infer_token`.

    model: the path's or the operator's default, "" if neither names one.
    Raises InvalidRequest.
    """
    if not model:
        raise InvalidRequest(
            "this path names no model, and there are several; post to "
            "/v1/models/MODEL/infer_token, or ask the operator to set server.default_model",
            param="model",
        )
    wire, unknown = _outer(body)
    raw = null_to_unset(wire.parameters)
    parameters, strange = (_SILENT, _NOTHING) if raw is UNSET else _parameters.read(bytes(raw))
    if unknown or strange:
        _check_places(unknown, strange)
    sent = {"typical_p": parameters.typical_p, "watermark": parameters.watermark}
    return TokenRequest(
        model=model,
        tokens=wire.input_id,
        sampling=_sampling(parameters),
        stream=wire.stream or False,
        details=parameters.details or False,
        text=True,
        priority=UNSET if parameters.priority is None else parameters.priority,
        timeout_s=UNSET if parameters.timeout is None else float(parameters.timeout),
        optional=(TEXT, *[name for name in OPTIONAL if sent[name] is not None]),
        extra={**unknown, **{f"parameters.{name}": raw for name, raw in strange.items()}},
    )


def _outer(body: bytes) -> tuple[InferTokenOuter, dict[str, Raw]]:
    try:
        wire, unknown = _body.read(body)
    except InvalidRequest as exc:
        if exc.param == "input_id" and _has_text(body):
            raise _text_refused() from exc
        raise
    if "inputs" in unknown:
        raise _text_refused()
    if "model" in unknown:
        raise InvalidRequest(
            "model belongs in the path: /v1/models/MODEL/infer_token", param="model"
        )
    return wire, unknown


def _has_text(body: bytes) -> bool:
    try:
        return null_to_unset(_text.decode(body).inputs) is not UNSET
    except (DecodeError, RecursionError):
        return False


def _text_refused() -> InvalidRequest:
    return InvalidRequest(
        "inputs: this route accepts token ids, in input_id; for text use /v1/completions",
        param="inputs",
    )


def _check_places(unknown: dict[str, Raw], strange: dict[str, Raw]) -> None:
    """Raise InvalidRequest for a known field that is one level too high or too low."""
    for name in unknown:
        if name in PARAMETERS:
            raise InvalidRequest(f"{name} belongs inside parameters: parameters.{name}", param=name)
    for name in strange:
        if name in InferTokenOuter.__struct_fields__:
            path = f"parameters.{name}"
            raise InvalidRequest(
                f"{path}: {name} belongs next to parameters, not inside it", param=path
            )


def _sampling(parameters: ParametersWire) -> Sampling:
    drawn = (parameters.temperature, parameters.top_k, parameters.top_p, parameters.typical_p)
    sample = parameters.do_sample
    if sample is None:
        sample = any(value is not None for value in drawn)
    penalty = parameters.repetition_penalty
    return Sampling(
        temperature=UNSET if parameters.temperature is None else parameters.temperature,
        top_k=UNSET if parameters.top_k is None else parameters.top_k,
        top_p=UNSET if parameters.top_p is None else parameters.top_p,
        typical_p=UNSET if parameters.typical_p is None else parameters.typical_p,
        do_sample=sample,
        max_tokens=DEFAULT_NEW_TOKENS
        if parameters.max_new_tokens is None
        else parameters.max_new_tokens,
        seed=UNSET if parameters.seed is None else _seed(parameters.seed),
        repetition_penalty=UNSET if penalty is None else penalty,
        watermark=UNSET if parameters.watermark is None else parameters.watermark,
    )


def _seed(seed: int) -> int:
    if not 1 <= seed <= MAX_SEED:
        path = "parameters.seed"
        raise InvalidRequest(f"{path} must be {ALLOWED[path]}", param=path)
    return seed
