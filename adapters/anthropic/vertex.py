"""Claude on Google's Vertex AI (also called Agent Platform): the Messages API in Google's frame.

The model is in the path, the version in the body, and the key is an OAuth token. The base URL is
`https://HOST/v1/projects/P/locations/L/publishers/anthropic`; HOST is `L-aiplatform.googleapis.com`
for a region, `aiplatform.L.rep.googleapis.com` for the locations `us` and `eu`, and
`aiplatform.googleapis.com` for `global`. Tokens are counted by a model of their own,
`count-tokens`. `anthropic-beta` stays a header.
https://platform.claude.com/docs/en/build-with-claude/claude-on-vertex-ai (July 2026)
https://cloud.google.com/vertex-ai/generative-ai/docs/partner-models/claude/count-tokens
https://pypi.org/project/anthropic/2.12.0/ (anthropic.lib.vertex; it sends another version, which
accepts no temperature, top_p or top_k)
"""

from collections.abc import Mapping
from typing import ClassVar, Final
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Raw, Struct

from strowger_gateway.adapters.anthropic import errors as anthropic_errors
from strowger_gateway.adapters.anthropic.adapter import CHAT, SUPPORTS, TRANSLATED, MessagesAdapter
from strowger_gateway.adapters.anthropic.decode import AnthropicDecoder
from strowger_gateway.adapters.anthropic.encode import count_body, messages_body
from strowger_gateway.adapters.anthropic.json_object import json_tool
from strowger_gateway.adapters.anthropic.original_fields import is_native
from strowger_gateway.adapters.anthropic.repairs import VERTEX_REPAIRS
from strowger_gateway.adapters.base import Endpoint, Outbound, Supports
from strowger_gateway.adapters.client_fields.denied import withheld
from strowger_gateway.adapters.gemini import errors as google_errors
from strowger_gateway.adapters.headers import accept, merged_headers
from strowger_gateway.adapters.json_objects import UNREADABLE
from strowger_gateway.schemas.errors import GatewayError, InvalidRequest
from strowger_gateway.schemas.messages import Message, OpaquePart, OpaqueTool, Tool
from strowger_gateway.schemas.requests import ChatRequest, GenerateRequest, Request

VERSION: Final = {"anthropic_version": "vertex-2023-10-16"}
PUBLISHER: Final = "/publishers/anthropic"

OWN: Final = frozenset({"context_management", "output_config", "thinking"})
"""Of Anthropic's own fields, those whose features its overview lists for Vertex AI. It excludes
automatic caching (`cache_control` of the whole request), `fallbacks`, `mcp_servers`, `container`,
`inference_geo` and `speed`, and does not mention the others.
https://platform.claude.com/docs/en/build-with-claude/overview (June 2026)
"""

ABSENT_TOOLS: Final = ("advisor_", "code_execution_", "mcp_toolset", "web_fetch_")
"""How the types of Anthropic's tools begin that Vertex AI does not run."""

VERTEX: Final[Supports] = msgspec.structs.replace(
    SUPPORTS,
    client_fields=withheld("vertex-anthropic"),
    repairs=VERTEX_REPAIRS,
    chat=CHAT - {"messages.remote_image"},
    extra_fields={"chat": OWN},
    translated={
        "chat": {
            **{name: at for name, at in TRANSLATED.items() if name != "messages.remote_image"},
            "messages.opaque": "messages[].content[].source (files' bytes; Anthropic's own blocks "
            "unchanged)",
        }
    },
)


_SOURCES: Final = {"file": "source.file_id", "url": "source.url"}
"""The types of sources that Vertex AI does not read, and what names them."""


class _Source(Struct, frozen=True, kw_only=True):
    type: str = ""


class _File(Struct, frozen=True, kw_only=True):
    file_data: str | None = None
    file_url: str | None = None
    file_id: str | None = None


class _Part(Struct, frozen=True, kw_only=True):
    """A part of a message: OpenAI's `file`, or a block with a `source`."""

    file: _File | None = None
    source: _Source | None = None


_part = msgspec.json.Decoder(_Part).decode


class VertexAnthropicAdapter(MessagesAdapter):
    name: ClassVar[str] = "vertex-anthropic"

    def __init__(self, endpoint: Endpoint) -> None:
        path = urlsplit(endpoint.base_url).path.rstrip("/").removesuffix("/models")
        self._models = f"{path.removesuffix(PUBLISHER)}{PUBLISHER}/models"
        key = endpoint.key.reveal()
        credentials = (("authorization", f"Bearer {key}"),) if key else ()
        headers = {
            stream: merged_headers(credentials, accept(stream), endpoint.headers)
            for stream in (False, True)
        }
        super().__init__(endpoint, headers, VERTEX)

    def encode(self, request: Request, model: str) -> Outbound:
        if not isinstance(request, ChatRequest):
            raise self._not_offered(request)
        _check(request)
        verb = "streamRawPredict" if request.stream else "rawPredict"
        return Outbound(
            target=f"{self._models}/{quote(model, safe='@')}:{verb}",
            headers=self._headers_for(request),
            body=messages_body(request, model, VERTEX.chat or CHAT, VERSION),
            stream=request.stream,
        )

    def encode_count(self, request: ChatRequest, model: str) -> Outbound:
        """See TokenCounter. Only here the body names the model."""
        _check(request)
        return Outbound(
            target=f"{self._models}/count-tokens:rawPredict",
            headers=self._headers_for(request),
            body=count_body(request, model, VERTEX.chat or CHAT, {"model": model, **VERSION}),
        )

    def decoder(self, request: GenerateRequest) -> "VertexAnthropicDecoder":
        return VertexAnthropicDecoder(
            self._endpoint,
            stream=request.stream,
            json_tool=json_tool(request),
            native=is_native(request),
        )

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> GatewayError:
        """Google answers for quotas, permissions and unknown models, Anthropic for the request."""
        if google_errors.is_google(body):
            return google_errors.error_from(self._endpoint, status, headers, body)
        return anthropic_errors.error_from(self._endpoint, status, headers, body)


class VertexAnthropicDecoder(AnthropicDecoder):
    """Decodes an answer in which Google may report a failure as well."""

    def error_inside(self, data: bytes) -> GatewayError:
        if google_errors.is_google(data):
            return google_errors.error_inside(self._endpoint, data)
        return super().error_inside(data)


def _check(request: ChatRequest) -> None:
    """Raises InvalidRequest for what Vertex AI lacks: addresses, uploaded files, and some tools."""
    for place, message in enumerate(request.messages):
        _check_sources(message, f"messages[{place}].content")
    for place, tool in enumerate(request.tools or ()):
        _check_tool(tool, f"tools[{place}]")


def _check_sources(message: Message, field: str) -> None:
    if not isinstance(message.content, tuple):
        return
    for place, part in enumerate(message.content):
        if isinstance(part, OpaquePart):
            problem = _absent_source(part.raw)
            if problem:
                where = f"{field}[{place}].{problem}"
                raise InvalidRequest(
                    f"{where}: Vertex AI reads only bytes; send the file's", param=where
                )


def _absent_source(raw: Raw) -> str:
    """Return the path, in the part, of an address or an uploaded file, or ""."""
    try:
        part = _part(raw)
    except UNREADABLE:
        return ""  # the encoder names the problem
    if part.source is not None:
        return _SOURCES.get(part.source.type, "")
    if part.file is None:
        return ""
    if part.file.file_data:
        return "" if part.file.file_data[:5].lower() == "data:" else "file.file_data"
    return "file.file_url" if part.file.file_url else "file.file_id" if part.file.file_id else ""


def _check_tool(tool: Tool, field: str) -> None:
    if isinstance(tool, OpaqueTool) and tool.type.startswith(ABSENT_TOOLS):
        where = f"{field}.type"
        raise InvalidRequest(f"{where}: Vertex AI does not have {tool.type}", param=where)
