"""The value of a session's cookie: a random number and its expiry time, signed.

The signature refuses forged values without a query to the store. Its key depends on what let the
person in, so a new `auth.admin_key` ends all sessions, and a change of who may do what in
`auth.admin_oidc` ends those of people who signed in with the provider.
"""

import hmac
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from enum import IntEnum
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.config.schema.admin_oidc import AdminOidc
from strowger_gateway.gateway.config.schema.auth import Auth

_NONCE, _TIME, _MAC = 16, 8, 32
_LENGTH: Final = 1 + _NONCE + _TIME + _MAC
_PURPOSE: Final = b"strowger admin session 2"


class TokenKind(IntEnum):
    """LISTED sessions have a row in the store; UNLISTED ones were opened while it was away."""

    LISTED_KEY = 1
    LISTED_PROVIDER = 2
    UNLISTED_KEY = 3


class SessionToken(Struct, frozen=True, kw_only=True):
    """id: 32 hexadecimal digits; it does not reveal the cookie. until: Unix seconds."""

    kind: TokenKind
    id: str
    until: int


class SessionTokens:
    """Issue and read cookie values under one configuration."""

    def __init__(self, auth: Auth) -> None:
        key = auth.admin_key.reveal()
        digest = sha256(key.encode()).digest() if key else b""
        self._keys: dict[TokenKind, bytes] = {}
        if key:
            for kind in (TokenKind.LISTED_KEY, TokenKind.UNLISTED_KEY):
                self._keys[kind] = hmac.digest(digest, _PURPOSE, "sha256")
        if auth.admin_oidc is not None:
            rights = sha256(digest + _rights(auth.admin_oidc)).digest()
            self._keys[TokenKind.LISTED_PROVIDER] = hmac.digest(rights, _PURPOSE, "sha256")

    def issue(self, kind: TokenKind, until: int) -> tuple[str, str]:
        """Return a new cookie value and its id. Raises LookupError without a way in of this kind.

        until: Unix seconds.
        """
        nonce = os.urandom(_NONCE)
        claim = bytes([kind]) + nonce + until.to_bytes(_TIME, "big")
        value = urlsafe_b64encode(claim + self._mac(kind, claim)).rstrip(b"=").decode()
        return value, _id(nonce)

    def read(self, value: str) -> SessionToken | None:
        """Return what a value that `issue` made stands for, expired or not; else `None`."""
        try:
            data = urlsafe_b64decode(value.encode("ascii") + b"=" * (-len(value) % 4))
            kind = TokenKind(data[0]) if len(data) == _LENGTH else None
        except (Error, ValueError):
            return None
        if kind is None or kind not in self._keys:
            return None
        claim, mac = data[:-_MAC], data[-_MAC:]
        if not hmac.compare_digest(mac, self._mac(kind, claim)):
            return None
        nonce, until = claim[1 : 1 + _NONCE], int.from_bytes(claim[1 + _NONCE :], "big")
        return SessionToken(kind=kind, id=_id(nonce), until=until)

    def _mac(self, kind: TokenKind, claim: bytes) -> bytes:
        return hmac.digest(self._keys[kind], claim, "sha256")


def _id(nonce: bytes) -> str:
    return sha256(nonce).hexdigest()[:32]


def _rights(settings: AdminOidc) -> bytes:
    """Return all that decides who is let in, and with which rights."""
    return msgspec.json.encode(
        (
            *(settings.issuer, settings.client_id, settings.client_secret.reveal()),
            *(settings.role_claim, sorted(settings.roles.items()), settings.default_role),
            *(settings.user_claim, settings.team_claim, sorted(settings.teams.items())),
            sorted(settings.require.items()),
        )
    )
