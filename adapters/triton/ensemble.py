"""TensorRT-LLM's text models on a Triton server: `ensemble` and `tensorrt_llm_bls`.

Uses the generate extension, which differs from our schema: keys that name no input of the model
are silently ignored request parameters, `max_tokens` is required, a stop string is part of the
answer, and nothing shows why or whether an answer has ended. So counts are always requested, and
renamed inputs (`random_seed` and `min_length`, now `seed` and `min_tokens`) are sent under both
names: each server reads the one that it has.

`model` in the configuration is the Triton model's name, or `NAME/versions/VERSION`.
https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_generate.md
https://github.com/NVIDIA/TensorRT-LLM/tree/main/triton_backend/all_models/inflight_batcher_llm
"""

from collections.abc import Mapping
from typing import ClassVar

import msgspec
from msgspec import UnsetType

from strowger_gateway.adapters.base import Ceilings, Framing, Outbound, Range, Supports
from strowger_gateway.adapters.triton.adapter import TritonAdapter, prompt_of
from strowger_gateway.adapters.triton.ensemble_decode import TextDecoder
from strowger_gateway.adapters.triton.sampling import (
    INT64,
    answers,
    beams,
    numbers,
    returned,
    token_limit,
)
from strowger_gateway.schemas.requests import CompletionRequest, GenerateRequest, Request

NUMBERS: Mapping[str, str] = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "min_tokens": "min_tokens",
    "end_id": "end_id",
    "pad_id": "pad_id",
    "seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "repetition_penalty": "repetition_penalty",
    "beam_width": "beam_width",
    "length_penalty": "length_penalty",
}
"""Our names -> names of the inputs."""

OLDER: Mapping[str, str] = {"seed": "random_seed", "min_tokens": "min_length"}
"""Names of inputs of older models. A number that is not an input must fit in an int64."""

WORDS: Mapping[str, str] = {"stop": "stop_words", "bad_words": "bad_words"}

RETURNED = "num_return_sequences"

REQUESTED: Mapping[str, bool] = {
    "exclude_input_in_output": True,
    "return_num_input_tokens": True,
    "return_num_output_tokens": True,
}

COMPLETION = frozenset({*NUMBERS, *WORDS, "max_tokens", "n", "ignore_eos", "do_sample"})

TRANSLATED: Mapping[str, str] = {
    **{field: f"{NUMBERS[field]} + {older}" for field, older in OLDER.items()},
    "temperature": "temperature + top_p (1 where no candidates are cut)",
    "do_sample": "top_p (1; false is top_k 1)",
    "ignore_eos": "end_id (-1)",
    "stop": WORDS["stop"],
    "n": RETURNED,
    "beam_width": f"beam_width + {RETURNED}",
}

SUPPORTS = Supports(
    completion=COMPLETION,
    translated={"completion": TRANSLATED},
    ranges={"max_tokens": Range(minimum=1)},
    requires=frozenset({"max_tokens"}),
    max_tokens=Ceilings(),
)


_encode = msgspec.json.Encoder().encode


class TritonTextAdapter(TritonAdapter):
    """Completions of one text prompt; no chat: a text model has no chat template."""

    name: ClassVar[str] = "triton"
    framing: ClassVar[Framing] = "sse-unmarked"
    offers: ClassVar[Supports] = SUPPORTS

    def encode(self, request: Request, model: str) -> Outbound:
        if not isinstance(request, CompletionRequest):
            raise self._not_offered(request)
        body = self._body(request)
        streamed = request.stream and beams(request.sampling) == 1
        if streamed:
            body["stream"] = True
        several = answers(request.sampling) > 1 and beams(request.sampling) == 1
        name = "generate_stream" if streamed or several else "generate"
        return self._infer(model, name, _encode(body), stream=streamed)

    def decoder(self, request: GenerateRequest) -> TextDecoder:
        if not isinstance(request, CompletionRequest):
            raise self._not_offered(request)
        return TextDecoder(self._endpoint, request)

    def _body(self, request: CompletionRequest) -> dict[str, object]:
        sampling = request.sampling
        body: dict[str, object] = {
            "text_input": prompt_of(request),
            "max_tokens": token_limit(request),
            **REQUESTED,
        }
        for field, value in numbers(sampling, NUMBERS).items():
            body[NUMBERS[field]] = value
            if field in OLDER and value < INT64:
                body[OLDER[field]] = value
        for field, name in WORDS.items():
            words: tuple[str, ...] | UnsetType = getattr(sampling, field)
            if words:
                body[name] = words
        count = returned(sampling)
        if count is not None:
            body[RETURNED] = count
        return body
