"""Encodes a token request as input tensors of tensorrtllm_backend's `tensorrt_llm` model.

Current names and datatypes, with a first dimension for the batch, which is always 1.
https://github.com/NVIDIA/TensorRT-LLM/tree/main/triton_backend/all_models/inflight_batcher_llm
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import UnsetType

from strowger_gateway.adapters.triton.open_inference_protocol import DATATYPES, Input, Number
from strowger_gateway.adapters.triton.sampling import numbers, returned, stop_words, token_limit
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.requests import TokenRequest
from strowger_gateway.schemas.tensors import Tensor, pack_words

SCALARS: Mapping[str, tuple[str, str]] = {
    "temperature": ("temperature", "FP32"),
    "top_p": ("runtime_top_p", "FP32"),
    "top_k": ("runtime_top_k", "INT32"),
    "top_p_min": ("runtime_top_p_min", "FP32"),
    "top_p_decay": ("runtime_top_p_decay", "FP32"),
    "top_p_reset_id": ("runtime_top_p_reset_ids", "INT32"),
    "min_tokens": ("min_tokens", "INT32"),
    "end_id": ("end_id", "INT32"),
    "pad_id": ("pad_id", "INT32"),
    "seed": ("seed", "UINT64"),
    "presence_penalty": ("presence_penalty", "FP32"),
    "frequency_penalty": ("frequency_penalty", "FP32"),
    "repetition_penalty": ("repetition_penalty", "FP32"),
    "beam_width": ("beam_width", "INT32"),
    "length_penalty": ("len_penalty", "FP32"),
    "early_stopping": ("early_stopping", "BOOL"),
}
"""Our names -> the inputs' names and datatypes; each has the shape [1, 1]."""

NAMES: Mapping[str, str] = {field: wire for field, (wire, _) in SCALARS.items()}


def inputs(request: TokenRequest) -> Iterator[Input]:
    """Return every tensor of a request. Raises InvalidRequest for unsupported shapes."""
    sampling = request.sampling
    yield _listed("input_ids", "INT32", request.tokens)
    yield _scalar("input_lengths", "INT32", len(request.tokens))
    yield _scalar("request_output_len", "INT32", token_limit(request))
    yield _scalar("exclude_input_in_output", "BOOL", True)
    for field, value in numbers(sampling, NAMES).items():
        name, datatype = SCALARS[field]
        yield _scalar(name, datatype, value)
    count = returned(sampling)
    if count is not None:
        yield _scalar("num_return_sequences", "INT32", count)
    yield from _words("stop_words_list", stop_words(sampling))
    yield from _words("bad_words_list", sampling.bad_word_ids or ())
    if not isinstance(sampling.embedding_bias, UnsetType):
        yield _tensor("embedding_bias", sampling.embedding_bias, 1, "embedding_bias")
    for name, requested in (
        ("return_log_probs", sampling.logprobs),
        ("return_context_logits", request.return_context_logits),
        ("return_generation_logits", request.return_generation_logits),
    ):
        if requested is True:
            yield _scalar(name, "BOOL", True)
    yield from _adapted(request)


def _adapted(request: TokenRequest) -> Iterator[Input]:
    """Return the tensors that change the model: a LoRA, a prompt table, draft tokens."""
    lora, table, draft = request.lora, request.prompt_table, request.draft
    if not isinstance(lora, UnsetType):
        yield _scalar("lora_task_id", "UINT64", lora.task_id)
        if not isinstance(lora.weights, UnsetType):
            yield _tensor("lora_weights", lora.weights, 2, "lora.weights")
        if not isinstance(lora.config, UnsetType):
            yield _tensor("lora_config", lora.config, 2, "lora.config")
    if not isinstance(table, UnsetType):
        yield _tensor("prompt_embedding_table", table.table, 2, "prompt_table")
        yield _scalar("prompt_vocab_size", "INT32", table.vocab_size)
    if not isinstance(draft, UnsetType):
        yield _listed("draft_input_ids", "INT32", draft.tokens)
        if not isinstance(draft.logits, UnsetType):
            yield _tensor("draft_logits", draft.logits, 2, "draft.logits")


def _scalar(name: str, datatype: str, value: Number) -> Input:
    return Input(name=name, datatype=datatype, shape=(1, 1), data=(value,))


def _listed(name: str, datatype: str, values: Sequence[int]) -> Input:
    return Input(name=name, datatype=datatype, shape=(1, len(values)), data=values)


def _words(name: str, words: Sequence[Sequence[int]]) -> Iterator[Input]:
    """Yield a tensor of shape [1, 2, K], none for an empty list."""
    ids, ends = pack_words([word for word in words if word])
    if ids:
        yield Input(name=name, datatype="INT32", shape=(1, 2, len(ids)), data=(*ids, *ends))


def _tensor(name: str, tensor: Tensor, rank: int, field: str) -> Input:
    """Add a first dimension of 1, unless the client sent it."""
    shape = tensor.shape
    if len(shape) == rank:
        shape = (1, *shape)
    if len(shape) != rank + 1 or shape[0] != 1:
        raise InvalidRequest(
            f"{field}: its shape is {list(tensor.shape)}, this backend accepts {rank} dimensions",
            param=field,
        )
    return Input(name=name, datatype=DATATYPES[tensor.dtype], shape=shape, data=tensor.data)
