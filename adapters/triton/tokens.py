"""TensorRT-LLM's raw-tensor models on a Triton server, by `infer`: token ids in, token ids out.

This adapter is for models that are not decoupled: they do not stream, and HTTP `infer` accepts
them; a decoupled model streams, HTTP `infer` rejects it, and `triton-tokens-decoupled` is its
adapter. Every tensor of a request is sent, 16-bit floats as bytes; a client that requests a stream
gets it in one piece. Such a model has no tokenizer: without `end_id` no token ends an answer.
Several answers without beams would be several responses, which `infer` does not support; with beams
they are one response, of `n` beams.
https://github.com/kserve/open-inference-protocol/blob/main/specification/protocol/inference_rest.md
"""

from collections.abc import Mapping
from typing import ClassVar

from strowger_gateway.adapters.base import Ceilings, Framing, Outbound, Range, Supports
from strowger_gateway.adapters.triton.adapter import TritonAdapter
from strowger_gateway.adapters.triton.input_tensors import NAMES, SCALARS, inputs
from strowger_gateway.adapters.triton.open_inference_protocol import HEADER_LENGTH, encode_inputs
from strowger_gateway.adapters.triton.tokens_decode import InferDecoder
from strowger_gateway.schemas.requests import GenerateRequest, Request, TokenRequest

TOKENS = frozenset(
    {
        *SCALARS,
        "max_tokens",
        "ignore_eos",
        "do_sample",
        "stop_words",
        "stop_token_ids",
        "bad_word_ids",
        "embedding_bias",
        "logprobs",
        "lora",
        "draft",
        "prompt_table",
        "return_context_logits",
        "return_generation_logits",
    }
)

INPUTS: Mapping[str, tuple[str, ...]] = {
    **{field: (name,) for field, name in NAMES.items()},
    "max_tokens": ("request_output_len",),
    "temperature": (NAMES["temperature"], NAMES["top_p"]),
    "do_sample": (NAMES["top_p"],),
    "ignore_eos": (NAMES["end_id"],),
    "beam_width": (NAMES["beam_width"], "num_return_sequences"),
    "stop_words": ("stop_words_list",),
    "stop_token_ids": ("stop_words_list",),
    "bad_word_ids": ("bad_words_list",),
    "embedding_bias": ("embedding_bias",),
    "logprobs": ("return_log_probs",),
    "lora": ("lora_task_id",),
    "draft": ("draft_input_ids",),
    "prompt_table": ("prompt_embedding_table", "prompt_vocab_size"),
    "return_context_logits": ("return_context_logits",),
    "return_generation_logits": ("return_generation_logits",),
}
"""Our names -> tensors. (`do_sample: false` is a `runtime_top_k` of 1.)"""

ADD_OUTPUTS = frozenset({"logprobs", "return_context_logits", "return_generation_logits"})
"""Fields that request additional outputs."""

SUPPORTS = Supports(
    tokens=TOKENS,
    translated={
        "tokens": {
            field: " + ".join(
                [
                    *(f"inputs[{name}]" for name in names),
                    *(["outputs"] * (field in ADD_OUTPUTS)),
                ]
            )
            for field, names in INPUTS.items()
        }
    },
    ranges={"max_tokens": Range(minimum=1)},
    requires=frozenset({"max_tokens"}),
    max_tokens=Ceilings(),
    text_of_tokens=False,
)


class TritonTokensAdapter(TritonAdapter):
    """Models that are not decoupled."""

    name: ClassVar[str] = "triton-tokens"
    framing: ClassVar[Framing] = "sse-unmarked"
    offers: ClassVar[Supports] = SUPPORTS

    def encode(self, request: Request, model: str) -> Outbound:
        if not isinstance(request, TokenRequest):
            raise self._not_offered(request)
        body, head = encode_inputs(inputs(request), _outputs(request))
        binary = (("content-type", "application/octet-stream"), (HEADER_LENGTH, str(head)))
        return self._infer(model, "infer", body, headers=() if head is None else binary)

    def decoder(self, request: GenerateRequest) -> InferDecoder:
        if not isinstance(request, TokenRequest):
            raise self._not_offered(request)
        return InferDecoder(self._endpoint, request)


def _outputs(request: TokenRequest) -> dict[str, bool]:
    """Return the outputs to request, each with whether it comes as bytes: JSON has no float16."""
    requested = {"output_ids": False, "sequence_length": False}
    if request.sampling.logprobs is True:
        requested |= {"cum_log_probs": False, "output_log_probs": False}
    if request.return_context_logits is True:
        requested["context_logits"] = True
    if request.return_generation_logits is True:
        requested["generation_logits"] = True
    return requested
