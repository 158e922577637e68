"""Take a token apart: its header and its claims, before anything is known of its signature.

https://www.rfc-editor.org/rfc/rfc7515#section-7.1 and https://www.rfc-editor.org/rfc/rfc7519
"""

import re
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import UNSET, Struct

from strowger_gateway.gateway.governance.identities.refusals import WrongToken

MOST_BYTES: Final = 8192
"""Longest token. A longer one is refused before anything is computed from it."""

_PARTS: Final = re.compile(rb"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_TYPES: Final = frozenset({"", "jwt", "at+jwt"})
_UNREADABLE: Final = "the token is damaged: {} cannot be read; copy it again, or get a new one"


class Header(Struct, frozen=True, kw_only=True):
    """What is read of it. Keys that it brings (`jwk`, `x5c`) or points to (`jku`, `x5u`) are not.

    crit: extensions that the reader must understand; this one knows none.
    """

    alg: str
    kid: str | None = None
    typ: str | None = None
    crit: msgspec.Raw | msgspec.UnsetType = UNSET


class CompactToken(Struct, frozen=True, kw_only=True):
    """claims: not to be trusted before the signature was verified."""

    header: Header
    claims: Mapping[str, object]


_header = msgspec.json.Decoder(Header)
_claims: msgspec.json.Decoder[dict[str, object]] = msgspec.json.Decoder(dict[str, object])


def looks_like_token(credential: bytes) -> bool:
    """Return whether it has a token's form: three parts, the first of them a JSON object."""
    return credential[:3] == b"eyJ" and credential.count(b".") == 2


def read_token(token: bytes) -> CompactToken:
    """Raises WrongToken."""
    if len(token) > MOST_BYTES:
        raise WrongToken(f"the token has more than {MOST_BYTES} bytes; request fewer claims in it")
    if not _PARTS.fullmatch(token):
        raise WrongToken(_UNREADABLE.format("it"))
    head, body, _ = token.split(b".")
    try:
        header = _header.decode(decoded(head))
    except (msgspec.DecodeError, ValueError, RecursionError) as exc:
        raise WrongToken(_UNREADABLE.format("its header")) from exc
    if header.crit is not UNSET:
        raise WrongToken("header crit: the token uses extensions that the gateway does not know")
    if (header.typ or "").lower().removeprefix("application/") not in _TYPES:
        raise WrongToken("header typ: expected JWT or at+jwt; send an access token or an ID token")
    try:
        claims = _claims.decode(decoded(body))
    except (msgspec.DecodeError, ValueError, RecursionError) as exc:
        raise WrongToken(_UNREADABLE.format("its claims")) from exc
    return CompactToken(header=header, claims=claims)


def decoded(part: bytes) -> bytes:
    """Return the bytes of base64url without padding. Raises ValueError."""
    return urlsafe_b64decode(part + b"=" * (-len(part) % 4))
