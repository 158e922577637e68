"""One sign-in in progress, kept only in the browser that began it.

Everything that the flow needs is derived from one random secret in a cookie, so any worker or
gateway can finish what another one began, and the gateway keeps nothing for visitors that never
come back. The provider and the address bar see the state, the nonce and the challenge, from which
the secret cannot be computed.

state: https://www.rfc-editor.org/rfc/rfc6749#section-10.12
nonce: https://openid.net/specs/openid-connect-core-1_0.html#NonceNotes
verifier, challenge: https://www.rfc-editor.org/rfc/rfc7636
"""

import hmac
import os
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from hashlib import sha256
from typing import Final

from msgspec import Struct

LASTS_S: Final = 600
LEEWAY_S: Final = 60
"""How far the clock of the gateway that began a sign-in may be ahead of the one that ends it."""

HOME: Final = "/admin"
_SECRET, _TIME = 32, 8
_LONGEST: Final = 512
_PATH: Final = re.compile(
    r"/admin(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*/?(?:\?[A-Za-z0-9._~=&%+-]*)?"
)


class SignInAttempt(Struct, frozen=True, kw_only=True):
    """until: Unix seconds. return_to: a path below /admin to show afterwards."""

    secret: bytes
    until: int
    return_to: str

    @property
    def state(self) -> str:
        return self._derived(b"state")

    @property
    def nonce(self) -> str:
        return self._derived(b"nonce")

    @property
    def verifier(self) -> str:
        return self._derived(b"verifier")

    @property
    def challenge(self) -> str:
        return _text(sha256(self.verifier.encode()).digest())

    @property
    def origin(self) -> str:
        """Return what a session is opened with: one sign-in opens one."""
        return sha256(self.state.encode()).hexdigest()

    @property
    def cookie(self) -> str:
        claim = self.secret + self.until.to_bytes(_TIME, "big") + self.return_to.encode()
        return _text(claim)

    def is_state(self, sent: str) -> bool:
        return hmac.compare_digest(self.state.encode(), sent.encode("utf-8", "replace"))

    def _derived(self, purpose: bytes) -> str:
        claim = b"\0".join((purpose, str(self.until).encode(), self.return_to.encode()))
        return _text(hmac.digest(self.secret, claim, "sha256"))


def new_attempt(return_to: str, at: float) -> SignInAttempt:
    """at: Unix seconds. A `return_to` that is not a path below /admin is replaced by /admin."""
    return SignInAttempt(
        secret=os.urandom(_SECRET), until=int(at) + LASTS_S, return_to=local_path(return_to)
    )


def attempt_of(cookie: str, at: float) -> SignInAttempt | None:
    """Return what a cookie holds; `None` if it is damaged or too old."""
    try:
        data = urlsafe_b64decode(cookie.encode("ascii") + b"=" * (-len(cookie) % 4))
        path = data[_SECRET + _TIME :].decode()
    except (Error, ValueError):
        return None
    until = int.from_bytes(data[_SECRET : _SECRET + _TIME], "big")
    if len(data) < _SECRET + _TIME or not at < until <= at + LASTS_S + LEEWAY_S:
        return None
    return SignInAttempt(secret=data[:_SECRET], until=until, return_to=local_path(path))


def local_path(sent: str) -> str:
    """Return the path if it is on this gateway below /admin, else /admin."""
    return sent if len(sent) <= _LONGEST and _PATH.fullmatch(sent) else HOME


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
