"""Read sampling terms, prompts, adapters and drafts from the tensors of an infer request.

Source: the seed's table of tensors, https://nvidia.github.io/TensorRT-LLM/advanced/inference-request.html
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from strowger_gateway.gateway.surfaces.kserve.inputs import Inputs
from strowger_gateway.gateway.surfaces.kserve.sampling import SILENT, SamplingTerms
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.requests import Draft, LoraRequest, PromptTable

NO_END: Final = -1
"""The seed: "End token Id. If not specified, defaults to -1"."""

NAMES: Final = {
    "max_tokens": ("request_output_len", "max_tokens"),
    "sequences": ("num_return_sequences",),
    "top_k": ("runtime_top_k", "top_k"),
    "top_p": ("runtime_top_p", "top_p"),
    "top_p_min": ("runtime_top_p_min", "top_p_min"),
    "top_p_decay": ("runtime_top_p_decay", "top_p_decay"),
    "top_p_reset_id": ("runtime_top_p_reset_ids", "top_p_reset_ids"),
    "min_p": ("runtime_min_p",),
    "length_penalty": ("len_penalty", "length_penalty"),
    "min_tokens": ("min_length", "min_tokens"),
    "seed": ("random_seed", "seed"),
    "bad_word_ids": ("bad_words_list",),
    "stop_words": ("stop_words_list",),
    "log_probs": ("return_log_probs",),
}
"""The gateway's name of a term, and its tensor's names, if they differ: the seed's come first."""

_READ: Final[Mapping[str, Callable[..., object]]] = {
    "beam_width": Inputs.integer,
    "sequences": Inputs.integer,
    "temperature": Inputs.number,
    "top_k": Inputs.integer,
    "top_p": Inputs.number,
    "top_p_min": Inputs.number,
    "top_p_decay": Inputs.number,
    "top_p_reset_id": Inputs.integer,
    "min_p": Inputs.number,
    "length_penalty": Inputs.number,
    "early_stopping": Inputs.integer,
    "repetition_penalty": Inputs.number,
    "presence_penalty": Inputs.number,
    "frequency_penalty": Inputs.number,
    "min_tokens": Inputs.integer,
    "no_repeat_ngram_size": Inputs.integer,
    "seed": Inputs.integer,
    "end_id": Inputs.integer,
    "pad_id": Inputs.integer,
    "embedding_bias": Inputs.tensor,
    "bad_word_ids": Inputs.words,
    "stop_words": Inputs.words,
    "log_probs": Inputs.flag,
}
"""How to read each term but the required max_tokens, in the order of their errors."""

_PLACE: Final = {field: place for place, field in enumerate(_READ)}
_TERM: Final = {name: field for field in _READ for name in NAMES.get(field, (field,))}

_REFUSED: Final = frozenset(
    {"streaming", "stream", "stop", "return_perf_metrics", "beam_search_diversity_rate"}
)
_LORA: Final = frozenset({"lora_task_id", "lora_weights", "lora_config"})
_PROMPT_TABLE: Final = frozenset({"prompt_embedding_table", "prompt_vocab_size"})
_DRAFT: Final = frozenset({"draft_input_ids", "draft_logits"})


def sampling_terms(inputs: Inputs, *, text: bool) -> SamplingTerms:
    """text: the prompt is text, so its tokenizer defines the end token."""
    found: dict[str, object] = {"max_tokens": inputs.required(*NAMES["max_tokens"])[0]}
    fields = {_TERM[name] for name in inputs.names if name in _TERM}
    for field in sorted(fields, key=_PLACE.__getitem__):
        found[field] = _READ[field](inputs, *NAMES.get(field, (field,)))
    sent = tuple(found)
    if not text:
        found.setdefault("end_id", NO_END)
    return msgspec.structs.replace(
        SILENT,
        **found,
        sent=sent,
        bad_words=word_list(inputs.texts("bad_words")),
        stop=word_list(inputs.texts("stop_words")),
    )


def name_of(inputs: Inputs, term: str) -> str:
    """Return the name of the tensor that the client used for a term."""
    return inputs.sent(*NAMES.get(term, (term,)))


def word_list(given: tuple[str, ...] | UnsetType) -> tuple[str, ...] | UnsetType:
    """Return the words, without empty strings; `UNSET` for an empty list."""
    if isinstance(given, UnsetType):
        return UNSET
    return tuple(word for word in given if word) or UNSET


def pad_token(terms: SamplingTerms) -> int:
    """Return what pads beams of unequal length: the pad token, else the end token."""
    if not isinstance(terms.pad_id, UnsetType):
        return terms.pad_id
    return NO_END if isinstance(terms.end_id, UnsetType) else terms.end_id


def reject_streaming(inputs: Inputs) -> None:
    if not inputs.has_any(_REFUSED):
        return
    for name in ("streaming", "stream"):
        if inputs.flag(name):
            raise InvalidRequest(
                f"{name}: infer over HTTP returns one answer; to stream, use "
                "/v2/models/{model}/generate_stream with stream: true",
                param=name,
            )
    if inputs.flag("stop"):
        raise InvalidRequest(
            "stop: a request over HTTP cannot stop another one; close the connection of the "
            "request to stop",
            param="stop",
        )
    if inputs.flag("return_perf_metrics"):
        raise InvalidRequest(
            "return_perf_metrics: not supported; the gateway's metrics are at /metrics",
            param="return_perf_metrics",
        )
    if inputs.number("beam_search_diversity_rate") not in (UNSET, 0.0):
        raise InvalidRequest(
            "beam_search_diversity_rate: must be 0; no backend supports beam diversity",
            param="beam_search_diversity_rate",
        )


def prompt_ids(inputs: Inputs) -> tuple[int, ...]:
    return checked_prompt(inputs.tokens("input_ids"), inputs.integer("input_lengths"))


def checked_prompt(tokens: tuple[int, ...], length: int | UnsetType) -> tuple[int, ...]:
    """Return the first `input_lengths` tokens.

    Raises InvalidRequest for a length that does not fit, for no tokens at all, and for negative
    tokens.
    """
    if not isinstance(length, UnsetType):
        if not 0 < length <= len(tokens):
            raise InvalidRequest(
                f"input_lengths: {length} must be at least 1 and at most {len(tokens)}, the "
                "length of input_ids",
                param="input_lengths",
            )
        tokens = tokens[:length]
    if not tokens:
        raise InvalidRequest("input_ids: must have at least one token", param="input_ids")
    if min(tokens) < 0:
        raise InvalidRequest(
            f"input_ids: token {min(tokens)} must be at least 0", param="input_ids"
        )
    return tokens


def lora_adapter(inputs: Inputs) -> LoraRequest | UnsetType:
    if not inputs.has_any(_LORA):
        return UNSET
    task = inputs.integer("lora_task_id")
    weights, config = inputs.tensor("lora_weights"), inputs.tensor("lora_config")
    if isinstance(task, UnsetType):
        for name in ("lora_weights", "lora_config"):
            if inputs.has(name):
                raise InvalidRequest(f"{name}: requires lora_task_id", param=name)
        return UNSET
    if (weights is UNSET) != (config is UNSET):
        missing = "lora_weights" if weights is UNSET else "lora_config"
        raise InvalidRequest(
            f"{missing}: send weights and configuration together, with the first request",
            param=missing,
        )
    return LoraRequest(task_id=task, weights=weights, config=config)


def prompt_table(inputs: Inputs) -> PromptTable | UnsetType:
    if not inputs.has_any(_PROMPT_TABLE):
        return UNSET
    table, size = inputs.tensor("prompt_embedding_table"), inputs.integer("prompt_vocab_size")
    if isinstance(table, UnsetType):
        if size is not UNSET:
            raise InvalidRequest(
                "prompt_vocab_size: requires prompt_embedding_table",
                param="prompt_vocab_size",
            )
        return UNSET
    if isinstance(size, UnsetType):
        raise InvalidRequest(
            "prompt_vocab_size is required with prompt_embedding_table", param="prompt_vocab_size"
        )
    return PromptTable(table=table, vocab_size=size)


def draft_tokens(inputs: Inputs) -> Draft | UnsetType:
    if not inputs.has_any(_DRAFT):
        return UNSET
    if not inputs.has("draft_input_ids"):
        raise InvalidRequest("draft_logits: requires draft_input_ids", param="draft_logits")
    return Draft(tokens=inputs.tokens("draft_input_ids"), logits=inputs.tensor("draft_logits"))
