"""OpenAI's Responses API: conversations only, and nothing is stored at the vendor.

Every request says `store: false`, because all clients share the operator's account. Reasoning
models are asked for their reasoning in encrypted form, which the client returns with the next turn.
https://platform.openai.com/docs/api-reference/responses
"""

from typing import ClassVar
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from strowger_gateway.adapters.base import Endpoint, Outbound, Range, Supports
from strowger_gateway.adapters.client_fields.denied import withheld
from strowger_gateway.adapters.http_json import HttpJsonAdapter, base_path
from strowger_gateway.adapters.json_objects import read_object
from strowger_gateway.adapters.openai_responses.decode import ResponsesDecoder
from strowger_gateway.adapters.openai_responses.encode import reads_events, responses_body
from strowger_gateway.adapters.openai_responses.repairs import RESPONSES_REPAIRS
from strowger_gateway.adapters.openai_responses.row import TRANSLATED, ResponsesRow
from strowger_gateway.adapters.openai_responses.wire import DIALECT
from strowger_gateway.adapters.token_count import counted
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.requests import (
    ChatRequest,
    EmbeddingsRequest,
    GenerateRequest,
    Request,
)

COUNTED = frozenset(
    """
    conversation input instructions model parallel_tool_calls previous_response_id reasoning text
    tool_choice tools truncation
    """.split()  # noqa: SIM905  as in the decoder
)
"""The fields of a request whose tokens are counted."""

_encode = msgspec.json.Encoder().encode


class ResponsesAdapter(HttpJsonAdapter):
    """Any server of the API. row: how it differs."""

    name: ClassVar[str]
    row: ClassVar[ResponsesRow]

    def __init__(self, endpoint: Endpoint) -> None:
        key = endpoint.key.reveal()
        own_key = ((self.row.key, key),) if key else ()
        super().__init__(
            endpoint,
            _supported(self.row),
            f"{base_path(endpoint)}/responses",
            None if self.row.key == "authorization" else own_key,
        )
        query = urlsplit(endpoint.base_url).query
        self._query = f"?{query}" if query else ""
        self._target = f"{self._base}{self._query}"

    def encode(self, request: Request, model: str) -> Outbound:
        if not isinstance(request, ChatRequest):
            raise self._not_offered(request)
        stream = request.stream
        body = responses_body(request, model, self.row)
        return Outbound(
            target=self._target, headers=self._headers[stream], body=body, stream=stream
        )

    def embeddings(self, request: EmbeddingsRequest, body: bytes) -> Embeddings:
        raise self._not_offered(request)

    def decoder(self, request: GenerateRequest) -> ResponsesDecoder:
        return ResponsesDecoder(
            self._endpoint,
            stream=request.stream,
            native=self.row.whole and reads_events(request),
            proofs=self.row.proofs,
        )


class CountingResponsesAdapter(ResponsesAdapter):
    """A server of the API that counts the tokens of a request without answering it."""

    def encode_count(self, request: ChatRequest, model: str) -> Outbound:
        """See TokenCounter.

        https://platform.openai.com/docs/api-reference/responses/input-tokens
        """
        sent = self.encode(replace(request, stream=False), model)
        body = {name: raw for name, raw in read_object(sent.body).items() if name in COUNTED}
        return self._outbound(f"/input_tokens{self._query}", _encode(body))

    def counted(self, body: bytes) -> int:
        """See TokenCounter."""
        return counted(self._endpoint, body, "input_tokens")


class OpenAIResponsesAdapter(CountingResponsesAdapter):
    name: ClassVar[str] = "openai-responses"
    base_url: ClassVar[str] = "https://api.openai.com/v1"
    row: ClassVar[ResponsesRow] = ResponsesRow(
        name="openai-responses",
        sources=True,
        ranges={"max_tokens": Range(minimum=16)},
        repairs=RESPONSES_REPAIRS,
    )


def _supported(row: ResponsesRow) -> Supports:
    translated = {**TRANSLATED, **row.translated}
    if row.proofs:
        translated["reasoning_effort"] += " + include"
    if row.sources:
        translated["tools.opaque"] = "tools[] + include"
    return Supports(
        client_fields=withheld(row.name),
        chat=row.chat,
        extra_fields={"chat": row.extra},
        ranges=row.ranges,
        translated={"chat": {name: at for name, at in translated.items() if name in row.chat}},
        thoughts=row.thoughts,
        proofs=row.proofs,
        dialect=DIALECT if row.whole else "",
        repairs=row.repairs,
    )
