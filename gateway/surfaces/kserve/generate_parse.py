"""Parse Triton's generate extension as a text completion, or as a token request.

https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_generate.md
"""

from collections.abc import Mapping
from functools import partial
from typing import Final, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from strowger_gateway.gateway.surfaces.base import Inbound
from strowger_gateway.gateway.surfaces.kserve.generate_wire import GenerateWire, Text, read_generate
from strowger_gateway.gateway.surfaces.kserve.infer_fields import (
    checked_prompt,
    pad_token,
    word_list,
)
from strowger_gateway.gateway.surfaces.kserve.requests import (
    GenerateReply,
    GenerateTextRequest,
    GenerateTokensRequest,
)
from strowger_gateway.gateway.surfaces.kserve.sampling import (
    SILENT,
    SamplingTerms,
    check,
    sampling_of,
)
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.requests import Draft, LoraRequest

_T = TypeVar("_T", bool, int, float)

NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "max_tokens": ("max_tokens", "request_output_len"),
    "sequences": ("num_return_sequences",),
    "top_k": ("top_k", "runtime_top_k"),
    "top_p": ("top_p", "runtime_top_p"),
    "top_p_min": ("top_p_min", "runtime_top_p_min"),
    "top_p_decay": ("top_p_decay", "runtime_top_p_decay"),
    "top_p_reset_id": ("top_p_reset_ids", "runtime_top_p_reset_ids"),
    "min_p": ("min_p", "runtime_min_p"),
    "length_penalty": ("length_penalty", "len_penalty"),
    "min_tokens": ("min_length", "min_tokens"),
    "seed": ("random_seed", "seed"),
    "stream": ("stream", "streaming"),
}
"""The gateway's name of a term, and the fields for it, if they differ."""

_NUMBERS: Final = (
    *("max_tokens", "beam_width", "sequences", "temperature", "top_k", "top_p", "top_p_min"),
    *("top_p_decay", "top_p_reset_id", "min_p", "length_penalty", "early_stopping"),
    *("repetition_penalty", "presence_penalty", "frequency_penalty", "min_tokens"),
    *("no_repeat_ngram_size", "seed", "end_id", "pad_id"),
)
"""The terms that are numbers, in the order of their errors."""

_PLACE: Final = {field: place for place, field in enumerate(_NUMBERS)}
_TERM: Final = {name: field for field in _NUMBERS for name in NAMES.get(field, (field,))}

_TOKENS_ONLY: Final = (
    "input_lengths",
    "lora_task_id",
    "draft_input_ids",
    "return_context_logits",
    "return_generation_logits",
)
"""Fields of requests with input_ids."""


def parse_generate(
    inbound: Inbound, body: bytes, *, streams: bool
) -> GenerateTextRequest | GenerateTokensRequest:
    """streams: the route is generate_stream. Raises InvalidRequest naming the field."""
    wire = read_generate(body)
    if _flag(wire.stop):
        raise InvalidRequest(
            "stop: a request over HTTP cannot stop another one; close the connection of the "
            "request to stop",
            param="stop",
        )
    terms = _terms(wire)
    check(terms, partial(_name, wire), max_choices=inbound.max_choices)
    reply = _reply(wire, terms, streams=streams)
    if not streams and reply.sequences:
        raise InvalidRequest(
            "num_return_sequences: generate returns one answer; use "
            "/v2/models/{model}/generate_stream for several",
            param="num_return_sequences",
        )
    if wire.input_ids is not None:
        return _token_request(inbound.model, wire, wire.input_ids, terms, reply, streams=streams)
    return _text_request(inbound.model, wire, terms, reply, streams=streams)


def _text_request(
    model: str, wire: GenerateWire, terms: SamplingTerms, reply: GenerateReply, *, streams: bool
) -> GenerateTextRequest:
    text = _text(wire)
    for name in _TOKENS_ONLY:
        given: object = getattr(wire, name)
        if not any(given is nothing for nothing in (None, False)):
            raise InvalidRequest(f"{name}: only supported in requests with input_ids", param=name)
    return GenerateTextRequest(
        model=model,
        prompts=(text,),
        sampling=sampling_of(terms),
        optional=("pad_id",),
        echo=True if reply.with_input else UNSET,
        stream=streams,
        include_usage=reply.num_input_tokens or reply.num_output_tokens,
        reply=reply,
    )


def _token_request(
    model: str,
    wire: GenerateWire,
    tokens: tuple[int, ...],
    terms: SamplingTerms,
    reply: GenerateReply,
    *,
    streams: bool,
) -> GenerateTokensRequest:
    if wire.text_input is not None:
        raise InvalidRequest("input_ids and text_input: send only one of them", param="input_ids")
    tokens = checked_prompt(tokens, _number(wire.input_lengths))
    if reply.with_input and reply.pieces:
        raise InvalidRequest(
            "exclude_input_in_output: with input_ids a stream never repeats the input; "
            "omit this field",
            param="exclude_input_in_output",
        )
    task = _number(wire.lora_task_id)
    draft = wire.draft_input_ids
    return GenerateTokensRequest(
        model=model,
        tokens=tokens,
        sampling=sampling_of(terms),
        optional=("pad_id",),
        stream=streams,
        lora=UNSET if isinstance(task, UnsetType) else LoraRequest(task_id=task),
        draft=UNSET if draft is None else Draft(tokens=draft),
        return_context_logits=reply.context_logits or UNSET,
        return_generation_logits=reply.generation_logits or UNSET,
        reply=reply,
    )


def _reply(wire: GenerateWire, terms: SamplingTerms, *, streams: bool) -> GenerateReply:
    stream = wire.stream is not None or wire.streaming is not None
    stream = stream and bool(_sole(wire, "stream"))
    if stream and not streams:
        raise InvalidRequest(
            "stream: generate returns one answer; to stream, use "
            "/v2/models/{model}/generate_stream",
            param=_name(wire, "stream"),
        )
    return GenerateReply(
        id=wire.id or "",
        pieces=stream and terms.beams == 1,
        sequences=terms.beams == 1 and terms.rows > 1,
        pad=pad_token(terms),
        with_input=not _flag(wire.exclude_input_in_output, silent=True),
        log_probs=terms.log_probs,
        context_logits=_flag(wire.return_context_logits),
        generation_logits=_flag(wire.return_generation_logits),
        num_input_tokens=_flag(wire.return_num_input_tokens),
        num_output_tokens=_flag(wire.return_num_output_tokens),
        finish_reason=_flag(wire.return_finish_reason),
    )


def _terms(wire: GenerateWire) -> SamplingTerms:
    values = zip(GenerateWire.__struct_fields__, msgspec.structs.astuple(wire), strict=True)
    fields = {_TERM[name] for name, value in values if value is not None and name in _TERM}
    if "max_tokens" not in fields:
        raise InvalidRequest("max_tokens is required", param="max_tokens")
    found: dict[str, object] = {
        field: _sole(wire, field) for field in sorted(fields, key=_PLACE.__getitem__)
    }
    sent = tuple(found)
    return msgspec.structs.replace(
        SILENT,
        **found,
        sent=sent,
        bad_words=_words(wire.bad_words),
        stop=_words(wire.stop_words),
        log_probs=_flag(wire.return_log_probs),
    )


def _sole(wire: GenerateWire, term: str) -> object:
    """Return the number in whichever of a term's fields was sent. Raises InvalidRequest for two."""
    names = NAMES.get(term, (term,))
    sent = [name for name in names if getattr(wire, name) is not None]
    if len(sent) > 1:
        raise InvalidRequest(
            f"{' and '.join(sent)} mean the same; send only one of them", param=sent[0]
        )
    value = _number(getattr(wire, sent[0]))
    return int(value) if isinstance(value, bool) else value


def _text(wire: GenerateWire) -> str:
    match wire.text_input:
        case str() as text:
            return text
        case (text,):
            return text
        case None:
            raise InvalidRequest("text_input or input_ids is required", param="text_input")
        case texts:
            raise InvalidRequest(
                f"text_input: has {len(texts)} strings; send one per request", param="text_input"
            )


def _words(given: Text) -> tuple[str, ...] | UnsetType:
    return word_list((given,) if isinstance(given, str) else given or ())


def _number(given: _T | tuple[_T] | None) -> _T | UnsetType:
    if given is None:
        return UNSET
    return given[0] if isinstance(given, tuple) else given


def _flag(given: bool | tuple[bool] | None, *, silent: bool = False) -> bool:
    value = _number(given)
    return silent if isinstance(value, UnsetType) else value


def _name(wire: GenerateWire, term: str) -> str:
    """Return the name that the client used for a term."""
    names = NAMES.get(term, (term,))
    return next((name for name in names if getattr(wire, name) is not None), names[0])
