"""Requests that only load a model, or unload it: those without messages, prompt or input.

The gateway loads nothing on demand, and no client may unload what others use: such a request is
answered at once, as Ollama answers it when the model is there.
"""

import re
import time
from typing import Final

import msgspec
from msgspec import Raw

from strowger_gateway.gateway.surfaces.ollama.lines import Clock, stamp
from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    Request,
)

_NOW: Final = re.compile(r"0+(\.0*)?(ns|us|µs|ms|s|m|h)?")
_keep_alive: Final = msgspec.json.Decoder(float | str)

MESSAGE: Final = b'"message":{"role":"assistant","content":""}'
RESPONSE: Final = b'"response":""'
EMBEDDINGS: Final = b'"embeddings":[]'
EMBEDDING: Final = b'"embedding":[]'


def loads(request: Request) -> bool:
    """Whether a request of this API wants nothing but the model."""
    match request:
        case ChatRequest():
            return not request.messages
        case EmbeddingsRequest():
            return not request.inputs
        case CompletionRequest():
            return not (request.prompts[0] or request.suffix)
        case _:
            return False


def loaded(request: Request, empty: bytes, clock: Clock = time.time_ns) -> bytes:
    """Return the answer. empty: the member with nothing in it, as the route's answers have it."""
    head = b'{"model":%b,' % encode(request.model)
    if isinstance(request, EmbeddingsRequest):
        return head + empty + b"}"
    reason = b"unload" if _unloads(request) else b"load"
    created = stamp(clock())
    return b'%b"created_at":"%b",%b,"done":true,"done_reason":"%b"}' % (
        head,
        created,
        empty,
        reason,
    )


def _unloads(request: Request) -> bool:
    sent = request.extra.get("keep_alive", Raw(b"null"))
    if bytes(sent) == b"null":
        return False
    kept = _keep_alive.decode(sent)
    return _NOW.fullmatch(kept) is not None if isinstance(kept, str) else kept == 0
