"""MindIE, Huawei's server for Ascend NPUs: tokens over `/infer_token`, text over `/generate`, chat.

One server has one model, and only chat requests name it. Token requests always stream from the
server, because older versions return token ids only in streams. The base URL is the server's own; a
trailing `/v1` is ignored.
https://gitcode.com/Ascend/MindIE-Motor/tree/master/docs/zh/user_guide/service_oriented_interface
"""

from collections.abc import Mapping
from typing import ClassVar, assert_never

import msgspec

from strowger_gateway.adapters.base import Decoder, Endpoint, Outbound, Range, Supports
from strowger_gateway.adapters.client_fields.denied import withheld
from strowger_gateway.adapters.http_json import HttpJsonAdapter, at_v1, base_path
from strowger_gateway.adapters.mindie.chat import CHAT, EXTRA, MindIEChat
from strowger_gateway.adapters.mindie.decode import MindIEDecoder
from strowger_gateway.adapters.mindie.encode import LONGEST, text_body, token_body
from strowger_gateway.adapters.mindie.repairs import MINDIE_REPAIRS
from strowger_gateway.adapters.token_count import check_texts, counted, said_in
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.errors import Uncountable
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    GenerateRequest,
    Request,
    TokenRequest,
)
from strowger_gateway.schemas.tasks.task import TaskRequest

SAMPLING = frozenset(
    {
        "temperature",
        "top_k",
        "top_p",
        "do_sample",
        "max_tokens",
        "seed",
        "repetition_penalty",
    }
)
"""The server also accepts `typical_p` and `watermark`, documented as without effect."""

TOKENS = SAMPLING | {"priority"}
COMPLETION = SAMPLING | {"stop"}

RANGES: Mapping[str, Range] = {
    "temperature": Range(minimum=0),
    "top_k": Range(minimum=1, maximum=LONGEST),
    "top_p": Range(minimum=0, maximum=1),
    "max_tokens": Range(minimum=1, maximum=LONGEST),
    "seed": Range(minimum=0, maximum=2**63 - 1),
    "repetition_penalty": Range(above=0),
    "presence_penalty": Range(minimum=-2, maximum=2),
    "frequency_penalty": Range(minimum=-2, maximum=2),
    "top_logprobs": Range(minimum=0, maximum=20),
    "n": Range(minimum=1, maximum=128),
    "best_of": Range(minimum=1, maximum=128),
    "stop": Range(items=1024),
    "priority": Range(minimum=1, maximum=5),
}
"""From the documentation and the server's source. Only chat limits repetition_penalty to 2."""

WIRE: Mapping[str, str] = {"max_tokens": "max_new_tokens"}
PARAMETERS = "parameters.{}"
IMAGE = "messages[].content[].image_url (a bare address)"

SUPPORTS = Supports(
    client_fields=withheld("mindie"),
    chat=CHAT,
    completion=COMPLETION,
    tokens=TOKENS,
    repairs=MINDIE_REPAIRS,
    ranges=RANGES,
    extra_fields={"chat": EXTRA},
    translated={
        "chat": {"messages.image": IMAGE, "messages.remote_image": IMAGE},
        "completion": {field: PARAMETERS.format(WIRE.get(field, field)) for field in COMPLETION},
        "tokens": {field: PARAMETERS.format(WIRE.get(field, field)) for field in TOKENS},
    },
)


_encode = msgspec.json.Encoder().encode


class MindIEAdapter(HttpJsonAdapter):
    """Chat, completions and tokens; no embeddings."""

    name: ClassVar[str] = "mindie"

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint, SUPPORTS, base_path(endpoint, "/v1"))
        self._chat = MindIEChat(at_v1(endpoint))

    def encode(self, request: Request, model: str) -> Outbound:
        match request:
            case TokenRequest():
                return self._outbound("/infer_token", token_body(request), stream=True)
            case CompletionRequest():
                path = "/generate_stream" if request.stream else "/generate"
                return self._outbound(path, text_body(request), stream=request.stream)
            case ChatRequest():
                return self._chat.encode(request, model)
            case EmbeddingsRequest() | TaskRequest():
                raise self._not_offered(request)
        assert_never(request)

    def encode_count(self, request: ChatRequest, model: str) -> Outbound:
        """See TokenCounter. The server tokenizes a text, and not what its template makes of it.

        https://www.hiascend.com/document/detail/zh/mindie/10RC3/mindieservice/servicedev/mindie_service0098.html
        """
        check_texts(request)
        return self._outbound("/v1/tokenizer", _encode({"inputs": said_in(request)}))

    def counted(self, body: bytes) -> int:
        """See TokenCounter. Raises Uncountable with the count, because the template is missing."""
        rough = Uncountable("the server counts a conversation without its chat template")
        rough.about = counted(self._endpoint, body, "token_number")
        raise rough

    def decoder(self, request: GenerateRequest) -> Decoder:
        if isinstance(request, ChatRequest):
            return self._chat.decoder(request)
        return MindIEDecoder(self._endpoint, request)

    def embeddings(self, request: EmbeddingsRequest, body: bytes) -> Embeddings:
        raise self._not_offered(request)
