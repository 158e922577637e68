"""An operator's session in a browser: a cookie that says until when, signed with the admin key.

The cookie holds no secret and the gateway keeps no list of sessions, so every worker and every
replica with the same key knows it, and changing the key ends all of them.
"""

import hmac
import os
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from collections.abc import Callable, Iterable

from gateway.auth import AdminKey

COOKIE = "strowger_admin"
LASTS_S = 12 * 3600
_PURPOSE = b"strowger admin session 1"
_NONCE, _TIME, _MAC = 16, 8, 32


class Sessions:
    """Opens and checks sessions under one key. clock: Unix seconds."""

    def __init__(self, key: AdminKey, clock: Callable[[], float] = time.time) -> None:
        self._key = key
        self._clock = clock

    def begin(self) -> str:
        """A new session's cookie value."""
        until = int(self._clock()) + LASTS_S
        claim = os.urandom(_NONCE) + until.to_bytes(_TIME, "big")
        return urlsafe_b64encode(claim + self._mac(claim)).decode()

    def holds(self, value: str) -> bool:
        """Whether this cookie's value was given out by `begin` and its time is not over."""
        try:
            data = urlsafe_b64decode(value.encode("ascii"))
        except (Error, ValueError):
            return False
        claim, mac = data[:-_MAC], data[-_MAC:]
        if len(claim) != _NONCE + _TIME or not self._key.set:
            return False
        until = int.from_bytes(claim[_NONCE:], "big")
        return hmac.compare_digest(mac, self._mac(claim)) and self._clock() < until

    def _mac(self, claim: bytes) -> bytes:
        return hmac.digest(self._key.derived(_PURPOSE), claim, "sha256")


def signed_in(key: AdminKey, headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a request carries the cookie of a session that holds."""
    sessions = Sessions(key)
    return any(
        sessions.holds(value)
        for name, text in headers
        if name == b"cookie"
        for value in _values(text.decode("latin-1"))
    )


def set_cookie(value: str, *, secure: bool, lasts_s: int = LASTS_S) -> str:
    """The header that begins a session; an empty value with `lasts_s` 0 ends it.

    Scripts cannot read it, and no request from another site carries it.
    """
    flags = "; Secure" if secure else ""
    return f"{COOKIE}={value}; Path=/admin; Max-Age={lasts_s}; HttpOnly; SameSite=Strict{flags}"


def _values(text: str) -> Iterable[str]:
    for pair in text.split(";"):
        name, _, value = pair.strip().partition("=")
        if name == COOKIE:
            yield value
