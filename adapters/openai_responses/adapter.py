"""OpenAI's Responses API: conversations only, and nothing is stored at the vendor.

Every request says `store: false`, because all clients share the operator's account. Reasoning
models are asked for their reasoning in encrypted form, which the client returns with the next turn.
A client that asks for a summary gets the server's, by a trigger in its input or on a route.
https://platform.openai.com/docs/api-reference/responses
https://developers.openai.com/api/docs/guides/compaction
"""

from typing import ClassVar, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Raw
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
    Compaction,
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

COMPACTED: Final = frozenset(
    """
    input instructions model prompt_cache_key prompt_cache_options prompt_cache_retention
    service_tier
    """.split()  # noqa: SIM905  as in the adapter
)
"""The fields of a request that `/responses/compact` takes."""

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
        if self.row.compacts and _makes_window(request):
            return self._outbound(f"/compact{self._query}", _compact_body(request, model, self.row))
        stream = request.stream
        body = responses_body(request, model, self.row)
        return Outbound(
            target=self._target, headers=self._headers[stream], body=body, stream=stream
        )

    def embeddings(self, request: EmbeddingsRequest, body: bytes) -> Embeddings:
        raise self._not_offered(request)

    def decoder(self, request: GenerateRequest) -> ResponsesDecoder:
        reads_all = reads_events(request) or _compaction_of(request) is not None
        return ResponsesDecoder(
            self._endpoint,
            stream=request.stream,
            native=self.row.whole and reads_all,
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
        compacts=True,
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
        compacts=row.compacts,
    )


def _compaction_of(request: GenerateRequest) -> Compaction | None:
    """Return what the client wants instead of an answer; `None` if it wants an answer."""
    if not isinstance(request, ChatRequest) or request.original is None:
        return None
    found = request.original.compaction
    return found if found is not None and found.now else None


def _makes_window(request: ChatRequest) -> bool:
    """Return whether the client has asked on the route that returns the items to go on with."""
    found = _compaction_of(request)
    return found is not None and isinstance(found.kept, Raw)


def _compact_body(request: ChatRequest, model: str, row: ResponsesRow) -> bytes:
    """Return the body of `POST /responses/compact`. Raises InvalidRequest as `responses_body`."""
    fields = read_object(responses_body(request, model, row))
    return _encode({name: raw for name, raw in fields.items() if name in COMPACTED})
