"""Inputs and outputs of tensorrtllm_backend's models, and a tiny model that generates them.

Names, datatypes and shapes are those of
https://github.com/NVIDIA/TensorRT-LLM/tree/main/triton_backend/all_models/inflight_batcher_llm
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

Value = bool | int | float | str


class Slot(Struct, frozen=True, kw_only=True):
    """An input or output; -1 in `dims` is any size, the first dimension is the batch."""

    datatype: str
    dims: tuple[int, ...]
    required: bool = False


class Values(Struct, frozen=True, kw_only=True):
    """A tensor; `items` is flat, row-major."""

    datatype: str
    shape: tuple[int, ...]
    items: list[Value]


class Model(Struct, frozen=True, kw_only=True):
    """One entry of the model repository.

    decoupled:  its transaction policy: it streams, and HTTP infer rejects it.
    accumulate: each streamed event has all text so far (BLS's accumulate_tokens).
    """

    name: str
    kind: Literal["text", "tokens", "llmapi"]
    inputs: Mapping[str, Slot]
    outputs: Mapping[str, Slot]
    decoupled: bool
    accumulate: bool = False


def _one(datatype: str, *, required: bool = False) -> Slot:
    return Slot(datatype=datatype, dims=(-1, 1), required=required)


SHARED: Mapping[str, Slot] = {
    "num_return_sequences": _one("INT32"),
    "exclude_input_in_output": _one("BOOL"),
    "end_id": _one("INT32"),
    "pad_id": _one("INT32"),
    "temperature": _one("FP32"),
    "repetition_penalty": _one("FP32"),
    "min_tokens": _one("INT32"),
    "presence_penalty": _one("FP32"),
    "frequency_penalty": _one("FP32"),
    "seed": _one("UINT64"),
    "return_log_probs": _one("BOOL"),
    "return_context_logits": _one("BOOL"),
    "return_generation_logits": _one("BOOL"),
    "return_num_input_tokens": _one("BOOL"),
    "return_num_output_tokens": _one("BOOL"),
    "beam_width": _one("INT32"),
    "prompt_embedding_table": Slot(datatype="FP16", dims=(-1, -1, -1)),
    "prompt_vocab_size": _one("INT32"),
    "lora_task_id": _one("UINT64"),
    "lora_weights": Slot(datatype="FP16", dims=(-1, -1, -1)),
    "lora_config": Slot(datatype="INT32", dims=(-1, -1, 3)),
}

TEXT_INPUTS: Mapping[str, Slot] = {
    **SHARED,
    "text_input": _one("BYTES", required=True),
    "max_tokens": _one("INT32", required=True),
    "bad_words": Slot(datatype="BYTES", dims=(-1, -1)),
    "stop_words": Slot(datatype="BYTES", dims=(-1, -1)),
    "top_k": _one("INT32"),
    "top_p": _one("FP32"),
    "length_penalty": _one("FP32"),
    "stream": _one("BOOL"),
    "embedding_bias_words": Slot(datatype="BYTES", dims=(-1, -1)),
    "embedding_bias_weights": Slot(datatype="FP32", dims=(-1, -1)),
}

TOKEN_INPUTS: Mapping[str, Slot] = {
    **SHARED,
    "input_ids": Slot(datatype="INT32", dims=(-1, -1), required=True),
    "input_lengths": _one("INT32", required=True),
    "request_output_len": _one("INT32", required=True),
    "draft_input_ids": Slot(datatype="INT32", dims=(-1, -1)),
    "draft_logits": Slot(datatype="FP32", dims=(-1, -1, -1)),
    "stop_words_list": Slot(datatype="INT32", dims=(-1, 2, -1)),
    "bad_words_list": Slot(datatype="INT32", dims=(-1, 2, -1)),
    "embedding_bias": Slot(datatype="FP32", dims=(-1, -1)),
    "runtime_top_k": _one("INT32"),
    "runtime_top_p": _one("FP32"),
    "runtime_top_p_min": _one("FP32"),
    "runtime_top_p_decay": _one("FP32"),
    "runtime_top_p_reset_ids": _one("INT32"),
    "len_penalty": _one("FP32"),
    "early_stopping": _one("BOOL"),
    "beam_search_diversity_rate": _one("FP32"),
    "stop": _one("BOOL"),
    "streaming": _one("BOOL"),
}

_COMMON_OUTPUTS: Mapping[str, Slot] = {
    "cum_log_probs": Slot(datatype="FP32", dims=(-1, -1)),
    "output_log_probs": Slot(datatype="FP32", dims=(-1, -1, -1)),
    "context_logits": Slot(datatype="FP32", dims=(-1, -1, -1)),
    "generation_logits": Slot(datatype="FP32", dims=(-1, -1, -1, -1)),
    "sequence_index": _one("INT32"),
    "num_input_tokens": _one("INT32"),
    "num_output_tokens": _one("INT32"),
}
TEXT_OUTPUTS = {**_COMMON_OUTPUTS, "text_output": Slot(datatype="BYTES", dims=(-1, -1))}
TOKEN_OUTPUTS = {
    **_COMMON_OUTPUTS,
    "output_ids": Slot(datatype="INT32", dims=(-1, -1, -1)),
    "sequence_length": Slot(datatype="INT32", dims=(-1, -1)),
}

BLS_INPUTS = {name: slot for name, slot in TEXT_INPUTS.items() if name != "num_return_sequences"}
"""tensorrt_llm_bls declares num_return_sequences and never reads it."""


def _bare(datatype: str, size: int = 1, *, required: bool = False) -> Slot:
    return Slot(datatype=datatype, dims=(size,), required=required)


LLMAPI_INPUTS: Mapping[str, Slot] = {
    "text_input": _bare("BYTES", -1, required=True),
    "streaming": _bare("BOOL"),
    "sampling_param_best_of": _bare("INT32"),
    "sampling_param_temperature": _bare("FP32"),
    "sampling_param_top_k": _bare("INT32"),
    "sampling_param_top_p": _bare("FP32"),
    "sampling_param_frequency_penalty": _bare("FP32"),
    "sampling_param_presence_penalty": _bare("FP32"),
    "sampling_param_max_tokens": _bare("INT32"),
    "sampling_param_stop": _bare("BYTES", -1),
    "sampling_param_seed": _bare("UINT64"),
    "sampling_param_exclude_input_from_output": _bare("BOOL"),
    "return_finish_reason": _bare("BOOL"),
    "return_stop_reason": _bare("BOOL"),
}
LLMAPI_OUTPUTS = {
    name: _bare("BYTES", -1) for name in ("text_output", "finish_reason", "stop_reason")
}

MODELS: Mapping[str, Model] = {
    model.name: model
    for model in (
        Model(
            name="ensemble",
            kind="text",
            inputs=TEXT_INPUTS,
            outputs=TEXT_OUTPUTS,
            decoupled=True,
        ),
        Model(
            name="tensorrt_llm_bls",
            kind="text",
            inputs=BLS_INPUTS,
            outputs=TEXT_OUTPUTS,
            decoupled=True,
            accumulate=True,
        ),
        Model(
            name="tensorrt_llm",
            kind="tokens",
            inputs=TOKEN_INPUTS,
            outputs=TOKEN_OUTPUTS,
            decoupled=False,
        ),
        Model(
            name="tensorrt_llm_streaming",
            kind="tokens",
            inputs=TOKEN_INPUTS,
            outputs=TOKEN_OUTPUTS,
            decoupled=True,
        ),
        Model(
            name="llmapi",
            kind="llmapi",
            inputs=LLMAPI_INPUTS,
            outputs=LLMAPI_OUTPUTS,
            decoupled=True,
        ),
    )
}

VOCABULARY: tuple[bytes, ...] = (
    b"<pad>",
    b"<s>",
    b"</s>",
    *(
        f" {word}".encode()
        for word in (
            "the",
            "of",
            "and",
            "a",
            "to",
            "in",
            "is",
            "was",
            "it",
            "for",
            "on",
            "are",
            "as",
        )
    ),
    *(
        f" {word}".encode()
        for word in ("red", "green", "blue", "black", "white", "grey", "pink", "brown")
    ),
    *(
        f" {word}".encode()
        for word in ("one", "two", "three", "four", "five", "six", "seven", "eight")
    ),
    b".",
    b",",
    b"!",
    "é".encode()[:1],
    "é".encode()[1:],
)
"""The last two are halves of one character, as in byte-level vocabularies."""

SIZE = len(VOCABULARY)
END_ID = 2


class Wanted(Struct, frozen=True, kw_only=True):
    """Return a sequence's continuation and its end. end_id -1: only at `bound`."""

    bound: int
    seed: int = 0
    end_id: int = -1
    minimum: int = 0
    stop: Sequence[Sequence[int]] = ()
    bad: Sequence[Sequence[int]] = ()
    stop_text: Sequence[str] = ()
    bad_text: Sequence[str] = ()


def text_of(ids: Sequence[int]) -> str:
    """Decode like a tokenizer: an incomplete character becomes U+FFFD."""
    return b"".join(VOCABULARY[one] for one in ids if one > END_ID).decode(errors="replace")


def ids_of(text: str) -> list[int]:
    """Encode a prompt: 1, then one id per word. Deterministic, not the inverse of text_of."""
    return [1, *(3 + sum(word.encode()) % (SIZE - 3) for word in text.split())]


def continuation(prompt: Sequence[int], wanted: Wanted) -> list[int]:
    """Generate: the next id depends on the last id, the position and the seed."""
    ids: list[int] = []
    for place in range(wanted.bound):
        last = ids[-1] if ids else prompt[-1]
        token = _next(last * 7 + (len(prompt) + place) * 3 + wanted.seed, ids, wanted)
        if token == wanted.end_id:
            break
        ids.append(token)
        if place + 1 >= wanted.minimum and _stops(ids, wanted):
            break
    return ids


def _next(draw: int, ids: list[int], wanted: Wanted) -> int:
    token = draw % (SIZE - END_ID) + END_ID
    for _ in range(SIZE):
        early = token == wanted.end_id and len(ids) < wanted.minimum
        if not early and not _ends_with(wanted.bad, wanted.bad_text, [*ids, token]):
            return token
        token = (token + 1) % SIZE
    return token


def _stops(ids: list[int], wanted: Wanted) -> bool:
    return _ends_with(wanted.stop, wanted.stop_text, ids)


def _ends_with(words: Sequence[Sequence[int]], texts: Sequence[str], ids: list[int]) -> bool:
    if any(word and ids[-len(word) :] == list(word) for word in words):
        return True
    text = text_of(ids) if texts else ""
    return any(one and text.endswith(one) for one in texts)


def logprob_of(token: int) -> float:
    """Return a number that is exact in float32."""
    return -(token + 1) / 64


def logits_of(token: int) -> list[Value]:
    """Return [V]: one item for each token of the vocabulary, exact in float16."""
    return [8.0 if one == token else 0.0 for one in range(SIZE)]
