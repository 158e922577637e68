"""Which requests may be answered by which answers of the cache.

`CacheRules` decides by one configuration and by the request's headers whether it uses the cache.
`cache_key` is a digest of everything that decides its answer.
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from functools import cache, lru_cache
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from strowger_gateway.gateway.config.schema.cache import CacheConfig, ModelCache
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.measured_json import quotes_of, repeated_name
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    Request,
    TokenRequest,
    WholeRequest,
)
from strowger_gateway.schemas.tasks.task import Unsampled

OWN_HEADER: Final = b"x-gateway-cache"
_MAX_AGE: Final = re.compile(rb"max-age *= *\"?(\d{1,9})\"?")
_FORMAT: Final = 2
"""Of the key and of entries; another one finds nothing that was kept before."""

_READ_EXACTLY: Final = frozenset(
    {"temperature", "top_p", "top_k", "max_tokens", "max_output_tokens", "stream", "model"}
)
"""Fields whose JSON says no more than what was read from it: the request has them, resolved."""

_QUOTES: Final = 8
"""In a message of a role and a text."""

_REPEATED: Final = len('{"role":"","role":"","content":""}')
"""Bytes of the shortest message that repeats a name, without its role and its text."""

_encoder: Final = msgspec.json.Encoder(order="deterministic", decimal_format="number")
_decoder: Final = msgspec.json.Decoder(float_hook=Decimal)


class Use(Struct, frozen=True, kw_only=True, gc=False):
    """How a request uses the cache. Times in seconds.

    bypass: it asks for an answer from the cache, and does not get one: say so.
    ttl_s: of its answer. oldest_s: the greatest age of an answer that it takes.
    """

    bypass: bool = False
    ttl_s: float = 0.0
    oldest_s: float = float("inf")


BYPASS: Final = Use(bypass=True)


class CacheRules(Struct, frozen=True, kw_only=True, eq=False):
    """Those of one configuration generation.

    models: the rules, by the model's name; fingerprints: of all models.
    """

    config: CacheConfig
    models: Mapping[str, ModelCache]
    fingerprints: Mapping[str, str]

    def use(self, route: str, request: Request, headers: Mapping[bytes, bytes]) -> Use | None:
        """Return how a request uses the cache; `None` if neither side asks for it.

        request: with the operator's values. Raises InvalidRequest for an unknown value of our own
        header.
        """
        rule = self.models.get(route)
        asked = headers.get(OWN_HEADER) if self.config.by_header else None
        if asked is not None:
            asked = asked.strip().lower()
            if asked not in (b"on", b"off"):
                raise InvalidRequest(
                    "the header x-gateway-cache must be on or off", param="x-gateway-cache"
                )
        if asked is None and rule is None:
            return None
        if asked == b"off":
            return BYPASS
        greedy_only = asked is None and rule is not None and rule.when == "temperature_0"
        if greedy_only and not _is_greedy(request):
            return BYPASS
        ttl_s = self.config.ttl_s if rule is None else rule.ttl_s
        control = headers.get(b"cache-control")
        if control is None:
            return Use(ttl_s=ttl_s)
        control = control.lower()
        if b"no-store" in control:
            return BYPASS
        if b"no-cache" in control:
            return Use(ttl_s=ttl_s, oldest_s=0.0)
        age = _MAX_AGE.search(control)
        return Use(ttl_s=ttl_s) if age is None else Use(ttl_s=ttl_s, oldest_s=float(age[1]))


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
    order of fields and escapes do not count, `1` and `1.0` do. A request with an object that
    repeats a name has none, because backends differ in which value they read. Only `timeout_s` and
    `priority` are left out, because they say when an answer comes, and not which.

    request: with the operator's values.
    """
    if not _is_kept(request):
        return None
    try:
        said = _chat(request) if type(request) is ChatRequest else _other(request)
    except (msgspec.DecodeError, ValueError, ArithmeticError, RecursionError):
        return None  # repeated names, lone surrogates, numbers beyond any type
    digest = _begun(place).copy()
    digest.update(said)
    return digest.hexdigest()


def model_of(key: str) -> str:
    """Return the model of an entry by its key in a store: the model's own name, and the digest."""
    return key.rpartition(":")[0]


def _is_greedy(request: Request) -> bool:
    if isinstance(request, Unsampled):
        return True
    return request.sampling.temperature is not UNSET and request.sampling.temperature == 0


@lru_cache(maxsize=1024)
def _begun(place: KeyPlace) -> blake2b:
    """Return the digest of a place, to be copied: most requests have the same few."""
    # JSON without line breaks, so that what follows cannot begin earlier.
    return blake2b(_encoder.encode((_FORMAT, _version(), place)) + b"\n", digest_size=32)


def _is_kept(request: Request) -> bool:
    """False where an answer depends on more than the request, or is to be stored."""
    if type(request) is ChatRequest:
        original = request.original
        if original is None:
            return True
        if original.compaction is not None:
            return False  # a summary is the caller's own, and its item expires
        return original.storage is None or not original.storage.store
    if isinstance(request, Unsampled):
        return True
    if isinstance(request, CompletionRequest):
        return request.error_behavior != "truncate"  # a timeout would end the answer
    bulky = (request.lora, request.prompt_table, request.draft)
    wants = (request.return_context_logits, request.return_generation_logits)
    return all(one is UNSET for one in bulky) and True not in wants


def _chat(request: ChatRequest) -> bytes:
    """Everything that a chat says: JSON in one line, and its texts.

    A message that is nothing but text has its role and its length in the JSON; any other is there
    as a whole. So a long prompt is neither written as JSON nor digested twice, as it was read and
    as its client wrote it.
    """
    heads: list[tuple[str, int, bool] | Message] = []
    texts: list[bytes] = []
    others = 0
    for message in request.messages:
        if (text := _only_text(message)) is not None:
            texts.append(text)
            heads.append((message.role, len(text), message.raw is UNSET))
        else:
            heads.append(message)
            others += 1
    original = request.original
    bare = replace(request, messages=(), timeout_s=UNSET, priority=UNSET, original=None)
    if original is not None:
        fields = {name: raw for name, raw in original.fields.items() if name not in _READ_EXACTLY}
        unsent = Raw(b"null") if original.unsent is UNSET else original.unsent
        said = _normal((bare, heads, original.dialect, fields, unsent))
    elif (
        others
        or request.extra
        or request.tools is not UNSET
        or request.tool_choice is not UNSET
        or request.response_format is not UNSET
        or request.metadata is not UNSET
    ):
        said = _normal((bare, heads))
    else:
        said = _exact((bare, heads))
    return b"%b\n%b" % (said, b"".join(texts))


def _only_text(message: Message) -> bytes | None:
    """Return the text of a message that is nothing but text; `None` of any other."""
    role, content, raw = message.role, message.content, message.raw
    # The whole message is compared, so that a field that is new is never left out.
    if type(content) is not str or message != Message(role=role, content=content, raw=raw):
        return None
    text = content.encode()
    if raw is UNSET:
        return text
    if _decoder.decode(raw) != {"role": role, "content": content}:
        return None
    # The JSON of a text has at least the text's bytes.
    if len(raw) - len(role) - len(text) >= _REPEATED:
        encoded = bytes(raw)
        # Two names and two strings have eight quotation marks, and a third name is one more.
        if quotes_of(encoded) != _QUOTES:
            _refuse_repeated_names(encoded)
    return text


def _refuse_repeated_names(encoded: bytes) -> None:
    if (name := repeated_name(encoded)) is not None:
        raise ValueError(name)


def _other(request: CompletionRequest | WholeRequest | TokenRequest) -> bytes:
    """Return a completion, embeddings or token request as JSON."""
    if isinstance(request, Unsampled):
        bare: Request = replace(request, timeout_s=UNSET)
    else:
        bare = replace(request, timeout_s=UNSET, priority=UNSET)
    return _normal((bare,)) if request.extra else _exact((bare,))


def _exact(parts: tuple[object, ...]) -> bytes:
    """Encode values without raw client JSON, which have one spelling."""
    try:
        return _encoder.encode(parts)
    except TypeError:  # names of fields that are numbers cannot be sorted
        return _normal(parts)


def _normal(parts: tuple[object, ...]) -> bytes:
    """JSON of values in one spelling, whichever their client has chosen.

    Raises ValueError if an object has a name twice.
    """
    encoded = msgspec.json.encode(parts)
    normal = _encoder.encode(_decoder.decode(encoded))
    if quotes_of(encoded) != quotes_of(normal):
        _refuse_repeated_names(encoded)
    return normal


@cache
def _version() -> str:
    """The gateway's: another one may read requests or answers in another way."""
    try:
        return version("strowger-gateway")
    except PackageNotFoundError:
        return ""
