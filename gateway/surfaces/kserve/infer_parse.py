"""Parse a KServe infer request for TensorRT-LLM as a token request, or as a text completion.

Source: the seed's table of tensors, https://nvidia.github.io/TensorRT-LLM/advanced/inference-request.html
"""

from collections.abc import Mapping
from functools import partial
from typing import Final, Literal

from msgspec import UNSET, UnsetType

from strowger_gateway.gateway.surfaces.base import Inbound
from strowger_gateway.gateway.surfaces.kserve.binary import split_body
from strowger_gateway.gateway.surfaces.kserve.bodies import VERSION
from strowger_gateway.gateway.surfaces.kserve.infer_fields import (
    draft_tokens,
    lora_adapter,
    name_of,
    pad_token,
    prompt_ids,
    prompt_table,
    reject_streaming,
    sampling_terms,
)
from strowger_gateway.gateway.surfaces.kserve.inputs import Inputs, read_inputs
from strowger_gateway.gateway.surfaces.kserve.parameter_tables import INPUTS, OUTPUTS, TensorSpec
from strowger_gateway.gateway.surfaces.kserve.requests import (
    InferReply,
    InferRequest,
    InferTextRequest,
    RequestedOutput,
)
from strowger_gateway.gateway.surfaces.kserve.sampling import SamplingTerms, check, sampling_of
from strowger_gateway.gateway.surfaces.kserve.wire import INFER, InferParameters, InferWire
from strowger_gateway.schemas.errors import InvalidRequest

_NO_PARAMETERS: Final = InferParameters()
_TOKENS_ONLY: Final = tuple(spec.name for spec in INPUTS if spec.of == "tokens")
_OFFERED: Final[Mapping[Literal["tokens", "text"], Mapping[str, TensorSpec]]] = {
    "tokens": {spec.name: spec for spec in OUTPUTS if spec.of in ("tokens", "both")},
    "text": {spec.name: spec for spec in OUTPUTS if spec.of in ("text", "both")},
}
_FLAGS: Final = frozenset(spec.flag for spec in OUTPUTS)
_UNFLAGGED: Final = {
    (kind, binary): tuple(
        RequestedOutput(name=spec.name, binary=binary) for spec in offered.values() if not spec.flag
    )
    for kind, offered in _OFFERED.items()
    for binary in (False, True)
}
"""The outputs of a request without flags, by what it is made of and whether they are binary."""


def parse_infer(inbound: Inbound) -> InferRequest | InferTextRequest:
    """Raise InvalidRequest whose param is the tensor's name, or the JSON path."""
    json, tail = split_body(inbound)
    wire, unknown = INFER.read(json)
    if unknown:
        name = min(unknown)
        raise InvalidRequest(f"{name}: unknown field of an infer request", param=name)
    _check_model(wire, inbound.model)
    inputs = read_inputs(wire.inputs, tail)
    reject_streaming(inputs)
    text = inputs.texts("text_input")
    terms = sampling_terms(inputs, text=not isinstance(text, UnsetType))
    check(terms, partial(name_of, inputs), max_choices=inbound.max_choices)
    if isinstance(text, UnsetType):
        return _token_request(inbound.model, wire, inputs, terms)
    return _text_request(inbound.model, wire, inputs, terms, text[0])


def _token_request(
    model: str, wire: InferWire, inputs: Inputs, terms: SamplingTerms
) -> InferRequest:
    parameters = wire.parameters or _NO_PARAMETERS
    return InferRequest(
        model=model,
        tokens=prompt_ids(inputs),
        sampling=sampling_of(terms),
        optional=("pad_id",) if inputs.has("end_id") else ("end_id", "pad_id"),
        priority=priority(parameters.priority),
        timeout_s=timeout_s(parameters.timeout),
        lora=lora_adapter(inputs),
        prompt_table=prompt_table(inputs),
        draft=draft_tokens(inputs),
        return_context_logits=inputs.flag("return_context_logits") or UNSET,
        return_generation_logits=inputs.flag("return_generation_logits") or UNSET,
        reply=InferReply(
            id=wire.id or "",
            outputs=_outputs(wire, inputs, "tokens"),
            pad=pad_token(terms),
            with_input=not inputs.flag("exclude_input_in_output", silent=True),
        ),
    )


def _text_request(
    model: str, wire: InferWire, inputs: Inputs, terms: SamplingTerms, text: str
) -> InferTextRequest:
    for name in _TOKENS_ONLY:
        if inputs.has(name):
            raise InvalidRequest(
                f"{name}: only supported in requests with input_ids and without text_input",
                param=name,
            )
    parameters = wire.parameters or _NO_PARAMETERS
    return InferTextRequest(
        model=model,
        prompts=(text,),
        sampling=sampling_of(terms),
        optional=("pad_id",),
        priority=priority(parameters.priority),
        timeout_s=timeout_s(parameters.timeout),
        echo=UNSET if inputs.flag("exclude_input_in_output", silent=True) else True,
        reply=InferReply(id=wire.id or "", outputs=_outputs(wire, inputs, "text")),
    )


def priority(given: int | None) -> int | UnsetType:
    """Return Triton's priority, where 0 is the default. Raises InvalidRequest."""
    if given is not None and not 0 <= given <= 5:
        raise InvalidRequest(
            f"parameters.priority: {given} must be at least 0 and at most 5",
            param="parameters.priority",
        )
    return given or UNSET


def timeout_s(microseconds: int | None) -> float | UnsetType:
    """Return Triton's timeout in seconds. Raises InvalidRequest if negative; 0 means none."""
    if microseconds is not None and microseconds < 0:
        raise InvalidRequest(
            f"parameters.timeout: {microseconds} must be at least 0 microseconds",
            param="parameters.timeout",
        )
    return microseconds / 1e6 if microseconds else UNSET


def _check_model(wire: InferWire, model: str) -> None:
    for field, given, wanted in (
        ("model_name", wire.model_name, model),
        ("model_version", wire.model_version, VERSION),
    ):
        if given not in (None, wanted):
            raise InvalidRequest(f"{field}: is {given!r}, but the path has {wanted!r}", param=field)


def _outputs(
    wire: InferWire, inputs: Inputs, kind: Literal["tokens", "text"]
) -> tuple[RequestedOutput, ...]:
    """Return the requested outputs; if none are named, all that the request's flags enable."""
    binary = bool((wire.parameters or _NO_PARAMETERS).binary_data_output)
    offered = _OFFERED[kind]
    if not wire.outputs:
        if not inputs.has_any(_FLAGS):
            return _UNFLAGGED[kind, binary]
        return tuple(
            RequestedOutput(name=spec.name, binary=binary)
            for spec in offered.values()
            if not spec.flag or inputs.flag(spec.flag)
        )
    found: dict[str, RequestedOutput] = {}
    for place, output in enumerate(wire.outputs):
        spec = offered.get(output.name)
        path = f"outputs[{place}].name"
        if spec is None:
            raise InvalidRequest(
                f"{path}: a {kind} request has no output {output.name!r}; available: "
                f"{', '.join(offered)}",
                param=path,
            )
        if spec.flag and not inputs.flag(spec.flag):
            raise InvalidRequest(
                f"{path}: {output.name} is available only if {spec.flag} is true", param=path
            )
        own = output.parameters.binary_data if output.parameters else None
        found[output.name] = RequestedOutput(
            name=output.name, binary=binary if own is None else own
        )
    return tuple(found.values())
