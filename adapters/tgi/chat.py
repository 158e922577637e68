"""TGI's `/v1/chat/completions`: the OpenAI dialect, without fields that it ignores or misreads.

`n`, `logit_bias` and the model's name are not read, and `presence_penalty` becomes a repetition
penalty of at least twice its strength, so none of them is offered. A JSON schema is a grammar.
https://github.com/huggingface/text-generation-inference/blob/main/router/src/lib.rs
"""

from msgspec import UNSET, Raw
from msgspec.structs import replace

from strowger_gateway.adapters.base import Endpoint, Outbound, Supports
from strowger_gateway.adapters.client_fields.denied import withheld
from strowger_gateway.adapters.openai.adapter import OpenAIAdapter
from strowger_gateway.adapters.openai.encode import encode_body
from strowger_gateway.adapters.openai.vendor_profiles import VendorProfile
from strowger_gateway.adapters.tgi.chat_decode import TgiChatDecoder
from strowger_gateway.schemas.messages import ResponseFormat
from strowger_gateway.schemas.requests import (
    ChatRequest,
    GenerateRequest,
    Request,
    expected_choices,
)
from strowger_gateway.schemas.sampling import Sampling

TGI = VendorProfile(name="tgi", completion=False, embeddings=False, marked=True)

CHAT = frozenset(
    {
        "max_tokens",
        "temperature",
        "top_p",
        "seed",
        "frequency_penalty",
        "logprobs",
        "top_logprobs",
        "tools",
        "tool_choice",
        "response_format",
        "messages.image",
        "messages.remote_image",
    }
)
"""Not `stop`: the server returns the match, so the gateway stops the answer itself."""

EXTRA = frozenset({"guideline", "tool_prompt"})


class TgiChat(OpenAIAdapter):
    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint, TGI)

    def encode(self, request: Request, model: str) -> Outbound:
        if isinstance(request, ChatRequest):
            form = request.response_format
            request = replace(
                request,
                sampling=with_valid_top_p(request.sampling),
                response_format=_grammar(form) if form else form,
                max_tokens_field="max_tokens",
            )
        return super().encode(request, model)

    def decoder(self, request: GenerateRequest) -> TgiChatDecoder:
        return TgiChatDecoder(
            self.endpoint, stream=request.stream, choices=expected_choices(request)
        )

    def supported(self) -> Supports:
        return Supports(client_fields=withheld("tgi"), chat=CHAT, extra_fields={"chat": EXTRA})


def with_valid_top_p(sampling: Sampling) -> Sampling:
    """Adapt top_p. The server accepts only values between 0 and 1: omit 1; 0 means greedy."""
    if sampling.top_p == 0:
        return replace(sampling, temperature=0.0, top_p=UNSET)
    return replace(sampling, top_p=UNSET) if sampling.top_p == 1 else sampling


def _grammar(form: ResponseFormat) -> ResponseFormat:
    if form.type != "json_schema" or form.schema is UNSET:
        return form
    return replace(form, raw=Raw(encode_body({"type": "json", "value": form.schema})))
