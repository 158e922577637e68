"""The key of an answer: a digest of everything that decides it."""

from decimal import Decimal
from functools import cache
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from schemas.requests import ChatRequest, CompletionRequest, EmbeddingsRequest, Request

_FORMAT: Final = 1
"""Of the key and of entries; another one finds nothing that was kept before."""

_READ_EXACTLY: Final = frozenset(
    {"temperature", "top_p", "top_k", "max_tokens", "max_output_tokens", "stream", "model"}
)
"""Fields whose JSON says no more than what was read from it: the request has them, resolved."""

_encoder: Final = msgspec.json.Encoder(order="deterministic", decimal_format="number")
_decoder: Final = msgspec.json.Decoder(float_hook=Decimal)


class KeyPlace(Struct, frozen=True, kw_only=True, gc=False):
    """Whose answer it is, and what else than the request decides it.

    tenant: key, team and user whose answers are shared; "" for those that do not separate.
    route: the model's own name. fingerprint: of all that its answers depend on in the
    configuration. rule: the `when` rule that chose the backends, `None` for none.
    """

    tenant: tuple[str, str, str]
    surface: str
    route: str
    fingerprint: str
    rule: int | None


def cache_key(place: KeyPlace, request: Request) -> str | None:
    """Return the key; `None` for a request whose answers are not kept.

    Requests with equal keys are equal in every field, once their JSON is decoded: whitespace, the
    order of fields and escapes do not count, `1` and `1.0` do. Only `timeout_s` and `priority` are
    left out, because they say when an answer comes, and not which.

    request: with the operator's values.
    """
    if not _is_kept(request):
        return None
    try:
        resolved = _encoder.encode(_decoder.decode(msgspec.json.encode(_own(request))))
    except (msgspec.DecodeError, ValueError, ArithmeticError, RecursionError):
        return None  # lone surrogates, numbers beyond any type
    digest = blake2b(_encoder.encode((_FORMAT, _version(), place)), digest_size=32)
    digest.update(b"\n")  # JSON without line breaks: no two pairs give the same bytes
    digest.update(resolved)
    return digest.hexdigest()


def _is_kept(request: Request) -> bool:
    """False where an answer depends on more than the request, or is to be stored."""
    if type(request) is ChatRequest:
        storage = None if request.original is None else request.original.storage
        return storage is None or not storage.store
    if isinstance(request, EmbeddingsRequest):
        return True
    if isinstance(request, CompletionRequest):
        return request.error_behavior != "truncate"  # a timeout would end the answer
    bulky = (request.lora, request.prompt_table, request.draft)
    wants = (request.return_context_logits, request.return_generation_logits)
    return all(one is UNSET for one in bulky) and True not in wants


def _own(request: Request) -> tuple[object, ...]:
    """The request without what does not decide its answer, and its client's own JSON."""
    if isinstance(request, EmbeddingsRequest):
        return (replace(request, timeout_s=UNSET),)
    if type(request) is not ChatRequest or request.original is None:
        return (replace(request, timeout_s=UNSET, priority=UNSET),)
    original = request.original
    bare = replace(request, timeout_s=UNSET, priority=UNSET, original=None)
    fields = {name: raw for name, raw in original.fields.items() if name not in _READ_EXACTLY}
    unsent = Raw(b"null") if original.unsent is UNSET else original.unsent
    return bare, original.dialect, fields, unsent


@cache
def _version() -> str:
    """The gateway's: another one may read requests or answers in another way."""
    try:
        return version("strowger-gateway")
    except PackageNotFoundError:
        return ""
