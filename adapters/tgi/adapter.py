"""Hugging Face's Text Generation Inference: text over `/generate`, chat over its OpenAI route.

One server has one model. The base URL is the server's own; a trailing `/v1` is ignored.
https://huggingface.github.io/text-generation-inference/
"""

from collections.abc import Mapping
from typing import ClassVar, assert_never

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from strowger_gateway.adapters.base import Decoder, Endpoint, Outbound, Range, Supports
from strowger_gateway.adapters.client_fields.denied import withheld
from strowger_gateway.adapters.http_json import HttpJsonAdapter, at_v1, base_path
from strowger_gateway.adapters.tgi.chat import CHAT, EXTRA, TgiChat, with_valid_top_p
from strowger_gateway.adapters.tgi.decode import TgiDecoder, prompt_tokens
from strowger_gateway.adapters.tgi.repairs import TGI_REPAIRS
from strowger_gateway.adapters.token_count import check_texts, listed
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    GenerateRequest,
    Request,
    TokenRequest,
)
from strowger_gateway.schemas.sampling import Sampling
from strowger_gateway.schemas.tasks.task import TaskRequest

Parameters = dict[str, object]

PARAMETERS: Mapping[str, str] = {
    "max_tokens": "max_new_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "typical_p": "typical_p",
    "do_sample": "do_sample",
    "seed": "seed",
    "repetition_penalty": "repetition_penalty",
    "frequency_penalty": "frequency_penalty",
    "watermark": "watermark",
}
"""Our names -> TGI's. Not `stop`: the match is returned, so the gateway stops the answer itself."""

CUTS = ("temperature", "top_p", "top_k", "typical_p")
"""Any of these makes the server sample, whatever `do_sample` says."""

COMPLETION_EXTRA = frozenset({"adapter_id", "grammar", "truncate"})

SUPPORTS = Supports(
    client_fields=withheld("tgi"),
    chat=CHAT,
    repairs=TGI_REPAIRS,
    completion=frozenset(PARAMETERS),
    extra_fields={"chat": EXTRA, "completion": COMPLETION_EXTRA},
    ranges={
        "temperature": Range(minimum=0),
        "top_p": Range(minimum=0, maximum=1),
        "top_k": Range(minimum=1),
        "typical_p": Range(above=0, maximum=1),
        "max_tokens": Range(minimum=1),
        "seed": Range(minimum=0, maximum=2**64 - 1),
        "repetition_penalty": Range(above=0),
        "frequency_penalty": Range(minimum=-2, maximum=2),
    },
    translated={
        "chat": {"response_format": "response_format.value"},
        "completion": {
            **{field: f"parameters.{wire}" for field, wire in PARAMETERS.items()},
            "temperature": "parameters.temperature + parameters.do_sample",
        },
    },
)

_encode = msgspec.json.Encoder().encode


class TgiAdapter(HttpJsonAdapter):
    """Chat and completions; embeddings need the maker's Text Embeddings Inference server."""

    name: ClassVar[str] = "tgi"

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint, SUPPORTS, base_path(endpoint, "/v1"))
        self._chat = TgiChat(at_v1(endpoint))

    def encode(self, request: Request, model: str) -> Outbound:
        match request:
            case ChatRequest():
                return self._chat.encode(request, model)
            case CompletionRequest():
                return self._generate(request)
            case EmbeddingsRequest() | TokenRequest() | TaskRequest():
                raise self._not_offered(request)
        assert_never(request)

    def encode_count(self, request: ChatRequest, model: str) -> Outbound:
        """See TokenCounter. The server tokenizes what its chat template makes of the request."""
        check_texts(request)
        sent = self._chat.encode(replace(request, stream=False), model)
        return self._outbound("/chat_tokenize", sent.body)

    def counted(self, body: bytes) -> int:
        """See TokenCounter."""
        return listed(self._endpoint, body, "tokenize_response")

    def decoder(self, request: GenerateRequest) -> Decoder:
        return self.decoder_of(request, {})

    def decoder_of(self, request: GenerateRequest, headers: Mapping[str, str]) -> Decoder:
        """See HeadReader."""
        if isinstance(request, ChatRequest):
            return self._chat.decoder(request)
        return TgiDecoder(self._endpoint, stream=request.stream, prompt=prompt_tokens(headers))

    def embeddings(self, request: EmbeddingsRequest, body: bytes) -> Embeddings:
        raise self._not_offered(request)

    def _generate(self, request: CompletionRequest) -> Outbound:
        """Encode a completion. Always request details: they contain counts and finish reason."""
        if len(request.prompts) != 1 or not isinstance(request.prompts[0], str):
            raise InvalidRequest(
                "prompt: this backend accepts a single text prompt", param="prompt"
            )
        if not request.prompts[0]:
            raise InvalidRequest(
                "prompt: this backend does not accept an empty prompt", param="prompt"
            )
        parameters: Parameters = {"details": True, **_parameters(request.sampling)}
        parameters.update(request.extra)
        path = "/generate_stream" if request.stream else "/generate"
        body = _encode({"inputs": request.prompts[0], "parameters": parameters})
        return self._outbound(path, body, stream=request.stream)


def _parameters(sampling: Sampling) -> Parameters:
    """Set `do_sample` with a temperature, because the server does not infer it from 1."""
    sampling = with_valid_top_p(sampling)
    if sampling.typical_p == 1:
        sampling = replace(sampling, typical_p=UNSET)
    given: Parameters = {
        wire: getattr(sampling, name)
        for name, wire in PARAMETERS.items()
        if getattr(sampling, name) is not UNSET and getattr(sampling, name) is not None
    }
    if sampling.do_sample is False or sampling.temperature == 0:
        return {**{k: v for k, v in given.items() if k not in CUTS}, "do_sample": False}
    if sampling.temperature is not UNSET:
        given["do_sample"] = True
    return given
