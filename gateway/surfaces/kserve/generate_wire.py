"""The flat JSON of Triton's generate extension, with the names of TensorRT-LLM's models.

https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_generate.md;
names as in tensorrtllm_backend's `ensemble`, plus those of its `tensorrt_llm`. A tensor of one
element may be sent as a number or as a list of one.
"""

from typing import Final

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.surfaces.decoding import BodyReader
from strowger_gateway.schemas.errors import InvalidRequest

Int = int | tuple[int] | None
Float = float | tuple[float] | None
Bool = bool | tuple[bool] | None
_TOKENS = tuple[int, ...]
Text = str | tuple[str, ...] | None


class GenerateTerms(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields allowed at the top level or in `parameters`; `None` is absent."""

    text_input: Text = None
    input_ids: tuple[int, ...] | None = None
    input_lengths: Int = None
    max_tokens: Int = None
    request_output_len: Int = None
    stream: Bool = None
    streaming: Bool = None
    stop: Bool = None
    beam_width: Int = None
    num_return_sequences: Int = None
    temperature: Float = None
    top_k: Int = None
    runtime_top_k: Int = None
    top_p: Float = None
    runtime_top_p: Float = None
    top_p_min: Float = None
    runtime_top_p_min: Float = None
    top_p_decay: Float = None
    runtime_top_p_decay: Float = None
    top_p_reset_ids: Int = None
    runtime_top_p_reset_ids: Int = None
    min_p: Float = None
    runtime_min_p: Float = None
    length_penalty: Float = None
    len_penalty: Float = None
    early_stopping: bool | int | tuple[bool | int] | None = None
    repetition_penalty: Float = None
    presence_penalty: Float = None
    frequency_penalty: Float = None
    min_length: Int = None
    min_tokens: Int = None
    no_repeat_ngram_size: Int = None
    random_seed: Int = None
    seed: Int = None
    end_id: Int = None
    pad_id: Int = None
    stop_words: Text = None
    bad_words: Text = None
    lora_task_id: Int = None
    draft_input_ids: tuple[int, ...] | None = None
    exclude_input_in_output: Bool = None
    return_log_probs: Bool = None
    return_context_logits: Bool = None
    return_generation_logits: Bool = None
    return_num_input_tokens: Bool = None
    return_num_output_tokens: Bool = None
    return_finish_reason: Bool = None


class GenerateWire(GenerateTerms, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole body. id: echoed."""

    id: str | None = None
    parameters: GenerateTerms | None = None


_INTS = [
    "input_lengths",
    "max_tokens",
    "request_output_len",
    "beam_width",
    "num_return_sequences",
    "top_k",
    "runtime_top_k",
    "top_p_reset_ids",
    "runtime_top_p_reset_ids",
    "min_length",
    "min_tokens",
    "no_repeat_ngram_size",
    "random_seed",
    "seed",
    "end_id",
    "pad_id",
    "lora_task_id",
]
_FLOATS = [
    "temperature",
    "top_p",
    "runtime_top_p",
    "top_p_min",
    "runtime_top_p_min",
    "top_p_decay",
    "runtime_top_p_decay",
    "min_p",
    "runtime_min_p",
    "length_penalty",
    "len_penalty",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
]
_BOOLS = [
    "stream",
    "streaming",
    "stop",
    "exclude_input_in_output",
    "return_log_probs",
    "return_context_logits",
    "return_generation_logits",
    "return_num_input_tokens",
    "return_num_output_tokens",
    "return_finish_reason",
]
_MUST: Final = {
    **dict.fromkeys(_INTS, "an integer"),
    **dict.fromkeys(_FLOATS, "a number"),
    **dict.fromkeys(_BOOLS, "true or false"),
    "early_stopping": "true, false or an integer",
    "text_input": "a string",
    "input_ids": "a list of integers",
    "draft_input_ids": "a list of integers",
    "stop_words": "a string or a list of strings",
    "bad_words": "a string or a list of strings",
}
ALLOWED: Final = {
    **_MUST,
    **{f"{name}[]": must for name, must in _MUST.items()},
    **{f"parameters.{name}": must for name, must in _MUST.items()},
    **{f"parameters.{name}[]": must for name, must in _MUST.items()},
    "id": "a string",
}

_READER: Final = BodyReader(GenerateWire, ALLOWED, numbers={"input_ids": (_TOKENS, _TOKENS)})


def read_generate(body: bytes) -> GenerateWire:
    """Return the body with the fields of `parameters` moved to the top. Raises InvalidRequest."""
    wire, unknown = _READER.read(body)
    if unknown:
        name = min(unknown)
        raise InvalidRequest(f"{name}: unknown field of generate and generate_stream", param=name)
    inner = wire.parameters
    if inner is None:
        return wire
    changes: dict[str, object] = {}
    for name in GenerateTerms.__struct_fields__:
        value: object = getattr(inner, name)
        if value is None:
            continue
        if getattr(wire, name) is not None:
            raise InvalidRequest(
                f"parameters.{name}: is also at the top level; send only one of them",
                param=f"parameters.{name}",
            )
        changes[name] = value
    return msgspec.structs.replace(wire, parameters=None, **changes)
