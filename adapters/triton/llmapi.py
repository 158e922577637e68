"""TensorRT-LLM's LLM API behind Triton: the `llmapi` model of tensorrtllm_backend, text to text.

Its inputs are the names of SamplingParams with the prefix `sampling_param_`; it sends a finish
reason (and so the end), removes the stop string from the text, does not count tokens, and accepts
only one prompt.
https://github.com/NVIDIA/TensorRT-LLM/tree/main/triton_backend/all_models/llmapi/tensorrt_llm
"""

from collections.abc import Mapping
from typing import ClassVar

import msgspec
from msgspec import UnsetType

from strowger_gateway.adapters.base import Outbound, Range, Supports
from strowger_gateway.adapters.triton.adapter import TritonAdapter, prompt_of
from strowger_gateway.adapters.triton.llmapi_decode import LlmApiDecoder
from strowger_gateway.adapters.triton.sampling import numbers
from strowger_gateway.schemas.requests import CompletionRequest, GenerateRequest, Request

NUMBERS: Mapping[str, str] = {
    field: f"sampling_param_{field}"
    for field in (
        "temperature",
        "top_p",
        "top_k",
        "max_tokens",
        "seed",
        "presence_penalty",
        "frequency_penalty",
        "best_of",
    )
}

REQUESTED: Mapping[str, bool] = {
    "sampling_param_exclude_input_from_output": True,
    "return_finish_reason": True,
    "return_stop_reason": True,
}

SUPPORTS = Supports(
    completion=frozenset({*NUMBERS, "stop", "do_sample"}),
    translated={
        "completion": {
            **NUMBERS,
            "temperature": f"{NUMBERS['temperature']} + {NUMBERS['top_p']} "
            "(1 where no candidates are cut)",
            "do_sample": f"{NUMBERS['top_p']} (1; false is top_k 1)",
            "stop": "sampling_param_stop",
        }
    },
    ranges={"max_tokens": Range(minimum=1)},
)

_encode = msgspec.json.Encoder().encode


class TritonLlmApiAdapter(TritonAdapter):
    """Completions of one text prompt. Without `max_tokens` the server's own limit applies."""

    name: ClassVar[str] = "triton-llmapi"
    offers: ClassVar[Supports] = SUPPORTS

    def encode(self, request: Request, model: str) -> Outbound:
        if not isinstance(request, CompletionRequest):
            raise self._not_offered(request)
        sampling = request.sampling
        body: dict[str, object] = {"text_input": prompt_of(request), **REQUESTED}
        for field, value in numbers(sampling, NUMBERS).items():
            body[NUMBERS[field]] = value
        if not isinstance(sampling.stop, UnsetType) and sampling.stop:
            body["sampling_param_stop"] = sampling.stop
        if request.stream:
            body["streaming"] = True
        name = "generate_stream" if request.stream else "generate"
        return self._infer(model, name, _encode(body), stream=request.stream)

    def decoder(self, request: GenerateRequest) -> LlmApiDecoder:
        if not isinstance(request, CompletionRequest):
            raise self._not_offered(request)
        return LlmApiDecoder(self._endpoint, stream=request.stream)
