"""The operator's browser session: a cookie with an expiry time, signed with the admin key.

The cookie contains no secret and the gateway keeps no list of sessions: every worker and every
replica with the same key accepts it, and changing the key ends all sessions. Sessions that were
ended by signing out are on a revocation list until they expire.
"""

import hmac
import os
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from collections.abc import Callable, Iterable
from typing import Protocol

from gateway.access.auth import AdminKey

COOKIE = "strowger_admin"
LASTS_S = 12 * 3600
_PURPOSE = b"strowger admin session 1"
_NONCE, _TIME, _MAC = 16, 8, 32


class EndedSessionList(Protocol):
    """Sessions that were ended before they expired."""

    def has(self, session: bytes) -> bool: ...

    def add(self, session: bytes, until: int) -> None:
        """Raises OSError."""
        ...


class Sessions:
    """Open, check and end sessions under one key. clock: Unix seconds."""

    def __init__(
        self, key: AdminKey, ended: EndedSessionList, clock: Callable[[], float] = time.time
    ) -> None:
        self._key = key
        self._ended = ended
        self._clock = clock

    def begin(self) -> str:
        """Return the cookie value of a new session."""
        until = int(self._clock()) + LASTS_S
        claim = os.urandom(_NONCE) + until.to_bytes(_TIME, "big")
        return urlsafe_b64encode(claim + self._mac(claim)).decode()

    def holds(self, value: str) -> bool:
        """True if `begin` issued this value and the session is neither expired nor revoked."""
        return self._claim(value) is not None

    def end(self, value: str) -> None:
        """Revoke the session. Raises OSError if other processes cannot learn of it."""
        claim = self._claim(value)
        if claim is not None:
            self._ended.add(claim[:_NONCE], int.from_bytes(claim[_NONCE:], "big"))

    def _claim(self, value: str) -> bytes | None:
        """Return the nonce and expiry time of a valid value; `None` if it is invalid."""
        try:
            data = urlsafe_b64decode(value.encode("ascii"))
        except (Error, ValueError):
            return None
        claim, mac = data[:-_MAC], data[-_MAC:]
        if len(claim) != _NONCE + _TIME or not self._key.set:
            return None
        until = int.from_bytes(claim[_NONCE:], "big")
        if not hmac.compare_digest(mac, self._mac(claim)) or self._clock() >= until:
            return None
        return None if self._ended.has(claim[:_NONCE]) else claim

    def _mac(self, claim: bytes) -> bytes:
        return hmac.digest(self._key.derived(_PURPOSE), claim, "sha256")


def signed_in(
    key: AdminKey, ended: EndedSessionList, headers: Iterable[tuple[bytes, bytes]]
) -> bool:
    """True if a request carries the cookie of a valid session."""
    sessions = Sessions(key, ended)
    return any(map(sessions.holds, _cookies(headers)))


def sign_out(
    key: AdminKey, ended: EndedSessionList, headers: Iterable[tuple[bytes, bytes]]
) -> None:
    """End every session whose cookie a request carries. Raises OSError, as `Sessions.end`."""
    sessions = Sessions(key, ended)
    for value in _cookies(headers):
        sessions.end(value)


def set_cookie(value: str, *, secure: bool, lasts_s: int = LASTS_S) -> str:
    """Return the `set-cookie` value that starts a session; an empty value with `lasts_s` 0 ends it.

    Scripts cannot read the cookie, and requests from other sites do not carry it.
    """
    flags = "; Secure" if secure else ""
    return f"{COOKIE}={value}; Path=/admin; Max-Age={lasts_s}; HttpOnly; SameSite=Strict{flags}"


def _cookies(headers: Iterable[tuple[bytes, bytes]]) -> Iterable[str]:
    for name, text in headers:
        if name == b"cookie":
            yield from _values(text.decode("latin-1"))


def _values(text: str) -> Iterable[str]:
    for pair in text.split(";"):
        name, _, value = pair.strip().partition("=")
        if name == COOKIE:
            yield value
