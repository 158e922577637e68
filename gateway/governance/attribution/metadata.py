"""The `metadata` of a body, wherever the dialect has it, and what of it is for gateways only.

A list of tags is: vendors' `metadata` holds texts, and OpenAI answers it with 400.
https://platform.openai.com/docs/api-reference/chat/create#chat_create-metadata
"""

from typing import Final

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import replace

from strowger_gateway.gateway.governance.attribution.tags import MOST_BYTES
from strowger_gateway.gateway.stages.request_context import RequestContext
from strowger_gateway.schemas.requests import (
    ChatRequest,
    EmbeddingsRequest,
    Request,
    TokenRequest,
)

FIELD: Final = "metadata"
OF_LITELLM: Final = "litellm_metadata"
"""Where LiteLLM's clients put tags if the dialect's own `metadata` has no place for them."""

_object: Final = msgspec.json.Decoder(dict[str, Raw])


def take_metadata(request: RequestContext) -> None:
    """Note the `metadata` of a request in its record; backends get it without a list of tags."""
    sent = request.request
    assert sent is not None
    kept, request.record.metadata = taken_metadata(sent)
    request.use(kept)


def taken_metadata(request: Request) -> tuple[Request, bytes]:
    """Return the request as backends get it, and its `metadata` as JSON; b"" without one.

    The copy does not keep the body alive. One beyond MOST_BYTES is not read, and goes on unchanged.
    """
    if isinstance(request, TokenRequest):
        return request, b""
    found: Raw | None = request.extra.get(OF_LITELLM)
    if found is not None:
        extra = {name: raw for name, raw in request.extra.items() if name != OF_LITELLM}
        request = replace(request, extra=extra)
    if isinstance(request, ChatRequest):
        request, own = _of_chat(request)
    else:
        own = request.extra.get(FIELD)
        if own is not None and isinstance(request, EmbeddingsRequest):
            request = replace(request, extra={**request.extra, FIELD: _without_list(own)})
    given = found if own is None or (found is not None and b'"tags"' not in bytes(own)) else own
    data = b"" if given is None else bytes(given)
    return request, data if len(data) <= MOST_BYTES else b""


def _of_chat(request: ChatRequest) -> tuple[ChatRequest, Raw | None]:
    own = None if request.metadata is UNSET else request.metadata
    if own is not None:
        request = replace(request, metadata=_without_list(own))
    first = request.original
    if first is not None and FIELD in first.fields:
        own = first.fields[FIELD]
        sent = _without_list(own)
        if sent is not own:
            first = replace(first, fields={**first.fields, FIELD: sent})
            request = replace(request, original=first)
    return request, own


def _without_list(raw: Raw) -> Raw:
    """The metadata without a list of tags; the same object if it has none."""
    data = bytes(raw)
    if b'"tags"' not in data or len(data) > MOST_BYTES:
        return raw
    try:
        members = _object.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return raw
    if not bytes(members.get("tags", Raw(b""))).startswith(b"["):
        return raw
    del members["tags"]
    return Raw(msgspec.json.encode(members))
