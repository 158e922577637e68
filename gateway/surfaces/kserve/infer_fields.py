"""Read sampling terms, prompts, adapters and drafts from the tensors of an infer request.

Source: the seed's table of tensors, https://nvidia.github.io/TensorRT-LLM/advanced/inference-request.html
"""

from typing import Final

from msgspec import UNSET, UnsetType

from gateway.surfaces.kserve.inputs import Inputs
from gateway.surfaces.kserve.sampling import SamplingTerms
from gateway.surfaces.kserve.tensors import numbers
from schemas.errors import InvalidRequest
from schemas.requests import Draft, LoraRequest, PromptTable

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
}
"""The gateway's name of a term, and its tensor's names: the seed's first, then today's."""


def sampling_terms(inputs: Inputs, *, text: bool) -> SamplingTerms:
    """text: the prompt is text, so its tokenizer defines the end token."""
    end_id = inputs.integer("end_id")
    return SamplingTerms(
        max_tokens=numbers(inputs.required(*NAMES["max_tokens"]))[0],
        beam_width=inputs.integer("beam_width"),
        sequences=inputs.integer("num_return_sequences"),
        temperature=inputs.number("temperature"),
        top_k=inputs.integer(*NAMES["top_k"]),
        top_p=inputs.number(*NAMES["top_p"]),
        top_p_min=inputs.number(*NAMES["top_p_min"]),
        top_p_decay=inputs.number(*NAMES["top_p_decay"]),
        top_p_reset_id=inputs.integer(*NAMES["top_p_reset_id"]),
        min_p=inputs.number("runtime_min_p"),
        length_penalty=inputs.number(*NAMES["length_penalty"]),
        early_stopping=inputs.integer("early_stopping"),
        repetition_penalty=inputs.number("repetition_penalty"),
        presence_penalty=inputs.number("presence_penalty"),
        frequency_penalty=inputs.number("frequency_penalty"),
        min_tokens=inputs.integer(*NAMES["min_tokens"]),
        no_repeat_ngram_size=inputs.integer("no_repeat_ngram_size"),
        seed=inputs.integer(*NAMES["seed"]),
        end_id=NO_END if isinstance(end_id, UnsetType) and not text else end_id,
        pad_id=inputs.integer("pad_id"),
        embedding_bias=inputs.tensor("embedding_bias"),
        bad_word_ids=inputs.words("bad_words_list"),
        stop_words=inputs.words("stop_words_list"),
        bad_words=word_list(inputs.texts("bad_words")),
        stop=word_list(inputs.texts("stop_words")),
        log_probs=inputs.flag("return_log_probs"),
    )


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
    if not inputs.has("draft_input_ids"):
        if inputs.has("draft_logits"):
            raise InvalidRequest("draft_logits: requires draft_input_ids", param="draft_logits")
        return UNSET
    return Draft(tokens=inputs.tokens("draft_input_ids"), logits=inputs.tensor("draft_logits"))
