"""A KServe infer request for TensorRT-LLM as a request of tokens.

Source: the seed's table of tensors, https://nvidia.github.io/TensorRT-LLM/advanced/inference-request.html
"""

from typing import Final

from msgspec import UNSET, UnsetType

from gateway.surfaces.base import Inbound
from gateway.surfaces.kserve_binary import cut
from gateway.surfaces.kserve_bodies import VERSION
from gateway.surfaces.kserve_inputs import Inputs, read_inputs
from gateway.surfaces.kserve_requests import InferReply, InferRequest, Wanted
from gateway.surfaces.kserve_sampling import Terms, check, sampling_of
from gateway.surfaces.kserve_tables import OUTPUT, OUTPUTS
from gateway.surfaces.kserve_tensors import numbers
from gateway.surfaces.kserve_wire import INFER, InferParameters, InferWire
from schemas.errors import InvalidRequest
from schemas.requests import Draft, LoraRequest, PromptTable

NO_END: Final = -1
"""The seed: "End token Id. If not specified, defaults to -1"."""

NAMES: Final = {
    "max_tokens": ("request_output_len",),
    "sequences": ("num_return_sequences",),
    "top_k": ("runtime_top_k",),
    "top_p": ("runtime_top_p",),
    "top_p_min": ("runtime_top_p_min", "top_p_min"),
    "top_p_decay": ("runtime_top_p_decay", "top_p_decay"),
    "top_p_reset_id": ("runtime_top_p_reset_ids", "top_p_reset_ids"),
    "min_p": ("runtime_min_p",),
    "length_penalty": ("len_penalty",),
    "min_tokens": ("min_length", "min_tokens"),
    "seed": ("random_seed", "seed"),
}
"""Our word for a term, and its tensor's names: the seed's first, and today's."""

_NO_PARAMETERS: Final = InferParameters()


def parse_infer(inbound: Inbound) -> InferRequest:
    """Raises InvalidRequest whose param is the tensor's name, or the JSON's path."""
    json, tail = cut(inbound)
    wire, unknown = INFER.read(json)
    if unknown:
        name = min(unknown)
        raise InvalidRequest(f"{name}: an infer request has no such field", param=name)
    _check_model(wire, inbound.model)
    inputs = read_inputs(wire.inputs, tail)
    _refuse_streams(inputs)
    terms = _terms(inputs)
    names = {ours: inputs.sent(*theirs) for ours, theirs in NAMES.items()}
    check(terms, names, max_choices=inbound.max_choices)
    parameters = wire.parameters or _NO_PARAMETERS
    return InferRequest(
        model=inbound.model,
        tokens=_prompt(inputs),
        sampling=sampling_of(terms, tokens=True),
        optional=("pad_id",) if inputs.has("end_id") else ("end_id", "pad_id"),
        priority=priority(parameters.priority),
        timeout_s=timeout_s(parameters.timeout),
        lora=_lora(inputs),
        prompt_table=_prompt_table(inputs),
        draft=_draft(inputs),
        return_context_logits=inputs.flag("return_context_logits") or UNSET,
        return_generation_logits=inputs.flag("return_generation_logits") or UNSET,
        reply=InferReply(
            id=wire.id or "",
            outputs=_outputs(wire, inputs),
            pad=pad_of(terms),
            with_input=not inputs.flag("exclude_input_in_output", silent=True),
        ),
    )


def priority(given: int | None) -> int | UnsetType:
    """Triton's parameter, where 0 is the default. Raises InvalidRequest."""
    if given is not None and not 0 <= given <= 5:
        raise InvalidRequest(
            f"parameters.priority: {given} must be at least 0 and at most 5",
            param="parameters.priority",
        )
    return given or UNSET


def timeout_s(microseconds: int | None) -> float | UnsetType:
    """Triton's parameter. Raises InvalidRequest for one below 0; 0 is none."""
    if microseconds is not None and microseconds < 0:
        raise InvalidRequest(
            f"parameters.timeout: {microseconds} must be at least 0 microseconds",
            param="parameters.timeout",
        )
    return microseconds / 1e6 if microseconds else UNSET


def pad_of(terms: Terms) -> int:
    """What fills up beams of unequal length: the pad token, else the end token."""
    if not isinstance(terms.pad_id, UnsetType):
        return terms.pad_id
    return NO_END if isinstance(terms.end_id, UnsetType) else terms.end_id


def _check_model(wire: InferWire, model: str) -> None:
    for field, given, wanted in (
        ("model_name", wire.model_name, model),
        ("model_version", wire.model_version, VERSION),
    ):
        if given not in (None, wanted):
            raise InvalidRequest(
                f"{field}: is {given!r}, but the path says {wanted!r}", param=field
            )


def _refuse_streams(inputs: Inputs) -> None:
    if inputs.flag("streaming"):
        raise InvalidRequest(
            "streaming: infer over HTTP gives one answer; for a stream ask "
            "/v2/models/{model}/generate_stream with input_ids and stream: true",
            param="streaming",
        )
    if inputs.flag("stop"):
        raise InvalidRequest(
            "stop: a request over HTTP cannot end another one; close the connection of the one "
            "that is to end",
            param="stop",
        )
    if inputs.flag("return_perf_metrics"):
        raise InvalidRequest(
            "return_perf_metrics: the gateway's metrics are at /metrics; leave it out",
            param="return_perf_metrics",
        )
    if inputs.number("beam_search_diversity_rate") not in (UNSET, 0.0):
        raise InvalidRequest(
            "beam_search_diversity_rate: must be 0; no backend diversifies beams",
            param="beam_search_diversity_rate",
        )


def _terms(inputs: Inputs) -> Terms:
    end_id = inputs.integer("end_id")
    return Terms(
        max_tokens=numbers(inputs.required("request_output_len"))[0],
        beam_width=inputs.integer("beam_width"),
        sequences=inputs.integer("num_return_sequences"),
        temperature=inputs.number("temperature"),
        top_k=inputs.integer("runtime_top_k"),
        top_p=inputs.number("runtime_top_p"),
        top_p_min=inputs.number(*NAMES["top_p_min"]),
        top_p_decay=inputs.number(*NAMES["top_p_decay"]),
        top_p_reset_id=inputs.integer(*NAMES["top_p_reset_id"]),
        min_p=inputs.number("runtime_min_p"),
        length_penalty=inputs.number("len_penalty"),
        early_stopping=inputs.integer("early_stopping"),
        repetition_penalty=inputs.number("repetition_penalty"),
        presence_penalty=inputs.number("presence_penalty"),
        frequency_penalty=inputs.number("frequency_penalty"),
        min_tokens=inputs.integer(*NAMES["min_tokens"]),
        no_repeat_ngram_size=inputs.integer("no_repeat_ngram_size"),
        seed=inputs.integer(*NAMES["seed"]),
        end_id=NO_END if isinstance(end_id, UnsetType) else end_id,
        pad_id=inputs.integer("pad_id"),
        embedding_bias=inputs.tensor("embedding_bias"),
        bad_word_ids=inputs.words("bad_words_list"),
        stop_words=inputs.words("stop_words_list"),
        log_probs=inputs.flag("return_log_probs"),
    )


def _prompt(inputs: Inputs) -> tuple[int, ...]:
    tokens = inputs.tokens("input_ids")
    length = inputs.integer("input_lengths")
    if not isinstance(length, UnsetType):
        if not 0 < length <= len(tokens):
            raise InvalidRequest(
                f"input_lengths: {length} must be at least 1 and at most {len(tokens)}, the "
                "length of input_ids",
                param="input_lengths",
            )
        tokens = tokens[:length]
    if not tokens:
        raise InvalidRequest("input_ids: must hold at least one token", param="input_ids")
    return tokens


def _lora(inputs: Inputs) -> LoraRequest | UnsetType:
    task = inputs.integer("lora_task_id")
    weights, config = inputs.tensor("lora_weights"), inputs.tensor("lora_config")
    if isinstance(task, UnsetType):
        for name in ("lora_weights", "lora_config"):
            if inputs.has(name):
                raise InvalidRequest(f"{name}: needs lora_task_id beside it", param=name)
        return UNSET
    if (weights is UNSET) != (config is UNSET):
        missing = "lora_weights" if weights is UNSET else "lora_config"
        raise InvalidRequest(
            f"{missing}: weights and configuration are sent together, the first time", param=missing
        )
    return LoraRequest(task_id=task, weights=weights, config=config)


def _prompt_table(inputs: Inputs) -> PromptTable | UnsetType:
    table, size = inputs.tensor("prompt_embedding_table"), inputs.integer("prompt_vocab_size")
    if isinstance(table, UnsetType):
        if size is not UNSET:
            raise InvalidRequest(
                "prompt_vocab_size: needs prompt_embedding_table beside it",
                param="prompt_vocab_size",
            )
        return UNSET
    if isinstance(size, UnsetType):
        raise InvalidRequest(
            "prompt_vocab_size is required with prompt_embedding_table", param="prompt_vocab_size"
        )
    return PromptTable(table=table, vocab_size=size)


def _draft(inputs: Inputs) -> Draft | UnsetType:
    if not inputs.has("draft_input_ids"):
        if inputs.has("draft_logits"):
            raise InvalidRequest(
                "draft_logits: needs draft_input_ids beside it", param="draft_logits"
            )
        return UNSET
    return Draft(tokens=inputs.tokens("draft_input_ids"), logits=inputs.tensor("draft_logits"))


def _outputs(wire: InferWire, inputs: Inputs) -> tuple[Wanted, ...]:
    """Those asked for; all that the request's flags call for where it names none."""
    binary = bool((wire.parameters or _NO_PARAMETERS).binary_data_output)
    if not wire.outputs:
        return tuple(
            Wanted(name=spec.name, binary=binary)
            for spec in OUTPUTS
            if not spec.flag or inputs.flag(spec.flag)
        )
    found: dict[str, Wanted] = {}
    for place, output in enumerate(wire.outputs):
        spec = OUTPUT.get(output.name)
        path = f"outputs[{place}].name"
        if spec is None:
            raise InvalidRequest(
                f"{path}: there is no output {output.name!r}; there are {', '.join(OUTPUT)}",
                param=path,
            )
        if spec.flag and not inputs.flag(spec.flag):
            raise InvalidRequest(
                f"{path}: {output.name} exists only where {spec.flag} is true", param=path
            )
        own = output.parameters.binary_data if output.parameters else None
        found[output.name] = Wanted(name=output.name, binary=binary if own is None else own)
    return tuple(found.values())
