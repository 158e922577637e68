"""Who is calling, and what that key may use."""

import hmac
from collections.abc import Iterable
from hashlib import sha256

from msgspec import Struct

from gateway.config.schema import Auth
from schemas.errors import Forbidden, Throttled, Unauthenticated


class WrongKey(Unauthenticated):
    """A key was sent, and it is not one."""


class Caller(Struct, frozen=True, kw_only=True):
    """One key's rights. models: names, or prefixes ending in `*`; max_priority: 1 is the top."""

    name: str = ""
    models: tuple[str, ...] = ("*",)
    max_priority: int = 1

    def may_use(self, *names: str) -> bool:
        """Whether any of the names (the one asked for, the model's own) is open to this key."""
        for pattern in self.models:
            if pattern in names:
                return True
            if pattern.endswith("*") and any(name.startswith(pattern[:-1]) for name in names):
                return True
        return False


EVERYONE = Caller()


class Keyring:
    """Callers by key.

    Keys are held and looked up as SHA-256 digests, and the digests compared in constant time,
    so that the time an answer takes tells nothing about a key.
    """

    def __init__(self, auth: Auth) -> None:
        self._open = auth.mode == "none"
        self._callers: dict[bytes, tuple[bytes, Caller]] = {}
        for key in auth.keys:
            digest = sha256(key.key.reveal().encode()).digest()
            caller = Caller(name=key.name, models=key.models, max_priority=key.max_priority)
            self._callers[digest[:8]] = (digest, caller)

    def caller(self, headers: Iterable[tuple[bytes, bytes]]) -> Caller:
        """Raises Unauthenticated when keys are required and none, or a wrong one, was sent."""
        if self._open:
            return EVERYONE
        key = _credential(headers)
        if not key:
            raise Unauthenticated(
                "no API key was sent; use the header `Authorization: Bearer <key>`"
            )
        digest = sha256(key).digest()
        known, caller = self._callers.get(digest[:8], (b"", EVERYONE))
        if not hmac.compare_digest(known, digest):
            raise WrongKey("the API key is not known here")
        return caller


class AdminKey:
    """The operator's own key, held as a digest and compared in constant time. Empty: none."""

    def __init__(self, auth: Auth) -> None:
        key = auth.admin_key.reveal()
        self._digest = sha256(key.encode()).digest() if key else None

    @property
    def set(self) -> bool:
        """Whether there is one."""
        return self._digest is not None

    def is_key(self, sent: bytes) -> bool:
        """Whether these bytes are the key."""
        return self._digest is not None and hmac.compare_digest(self._digest, sha256(sent).digest())

    def derived(self, purpose: bytes) -> bytes:
        """32 bytes for signing, which whoever has the key could make, and nobody else.

        Raises LookupError when there is no key.
        """
        if self._digest is None:
            raise LookupError("there is no admin key")
        return hmac.digest(self._digest, purpose, "sha256")

    def opens(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Whether it was sent, as `Authorization: Bearer <key>`."""
        for name, value in headers:
            if name == b"authorization" and value[:7].lower() == b"bearer ":
                return self.is_key(value[7:].strip())
        return False


class MetricsAccess:
    """Who may read /metrics, which shows the models and the traffic of all clients."""

    def __init__(self, auth: Auth) -> None:
        self._everyone = auth.metrics == "open" or (auth.metrics == "admin" and auth.mode == "none")
        self._clients = auth.metrics == "client"
        self._admin, self._keyring = AdminKey(auth), Keyring(auth)
        scraper = auth.metrics_key.reveal()
        self._scraper = sha256(scraper.encode()).digest() if scraper else None

    def check(self, sent: Iterable[tuple[bytes, bytes]]) -> None:
        """sent: the request's headers. Raises Unauthenticated."""
        headers = tuple(sent)
        if self._everyone or self._admin.opens(headers):
            return
        if self._scraper is not None:
            digest = sha256(_credential(headers)).digest()
            if hmac.compare_digest(digest, self._scraper):
                return
        if self._clients:
            self._keyring.caller(headers)
            return
        raise (WrongKey if _credential(headers) else Unauthenticated)(
            "/metrics needs auth.metrics_key or the operator's key; use the header "
            "`Authorization: Bearer <key>`"
        )


def too_many_wrong_keys(retry_after: float) -> Throttled:
    """What is answered to one wrong key too many. retry_after: seconds."""
    return Throttled(
        "too many wrong keys came from this address; the answers to further ones are delayed",
        code="too_many_wrong_keys",
        retry_after=retry_after,
    )


def check_model(caller: Caller, asked: str, route: str) -> None:
    """Raises Forbidden unless the key may use the model by either of its names."""
    if not caller.may_use(asked, route):
        raise Forbidden(f"the API key {caller.name!r} may not use the model {asked!r}")


def check_priority(caller: Caller, priority: object) -> None:
    """Raises Forbidden for a priority more urgent (a smaller number) than the key's best."""
    if isinstance(priority, int) and priority < caller.max_priority:
        raise Forbidden(
            f"priority: the API key {caller.name!r} may ask for {caller.max_priority} to 5",
            param="priority",
            code="priority_not_allowed",
        )


def _credential(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    for name, value in headers:
        if name == b"authorization" and value[:7].lower() == b"bearer ":
            return value[7:].strip()
        if name in (b"api-key", b"x-api-key"):
            return value
    return b""
