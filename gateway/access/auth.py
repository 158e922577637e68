"""Identify the caller by its API key, and check what that key may use."""

import hmac
from collections.abc import Iterable
from hashlib import sha256

from msgspec import Struct

from gateway.config.schema import Auth
from schemas.errors import Forbidden, Throttled, Unauthenticated


class WrongKey(Unauthenticated):
    """The request carries a key that is not valid."""


class Caller(Struct, frozen=True, kw_only=True):
    """One key's rights. models: names, or prefixes ending in `*`; max_priority: 1 is highest."""

    name: str = ""
    models: tuple[str, ...] = ("*",)
    max_priority: int = 1

    def may_use(self, *names: str) -> bool:
        """Return whether the key may use any of the names (the requested one, the model's own)."""
        for pattern in self.models:
            if pattern == "*" or pattern in names:
                return True
            if pattern.endswith("*") and _any_begins(names, pattern[:-1]):
                return True
        return False


EVERYONE = Caller()

_CREDENTIALS = frozenset({b"authorization", b"api-key", b"x-api-key"})


class Keyring:
    """Look up callers by key.

    Keys are stored and looked up as SHA-256 digests, and digests are compared in constant time,
    so that response times reveal nothing about a key. Valid keys that were seen are found by their
    hash: a dictionary compares bytes only if all 64 bits of a SipHash with a secret seed are equal,
    so its time reveals nothing, either. It has at most one entry per key.
    """

    def __init__(self, auth: Auth) -> None:
        self._open = auth.mode == "none"
        self._callers: dict[bytes, tuple[bytes, Caller]] = {}
        for key in auth.keys:
            digest = sha256(key.key.reveal().encode()).digest()
            caller = Caller(name=key.name, models=key.models, max_priority=key.max_priority)
            self._callers[digest[:8]] = (digest, caller)
        self._seen: dict[bytes, Caller] = {}

    def caller(self, headers: Iterable[tuple[bytes, bytes]]) -> Caller:
        """Raise Unauthenticated when keys are required and the request has none, or a wrong one."""
        if self._open:
            return EVERYONE
        key = _credential(headers)
        if not key:
            raise Unauthenticated(
                "no API key in the request; use the header `Authorization: Bearer <key>`"
            )
        seen = self._seen.get(key)
        if seen is not None:
            return seen
        digest = sha256(key).digest()
        known, caller = self._callers.get(digest[:8], (b"", EVERYONE))
        if not hmac.compare_digest(known, digest):
            raise WrongKey("the API key is not valid")
        self._seen[key] = caller
        return caller


class AdminKey:
    """The operator's key, stored as a digest and compared in constant time. Empty: not set."""

    def __init__(self, auth: Auth) -> None:
        key = auth.admin_key.reveal()
        self._digest = sha256(key.encode()).digest() if key else None

    @property
    def set(self) -> bool:
        """Return whether an admin key is configured."""
        return self._digest is not None

    def is_key(self, sent: bytes) -> bool:
        """Return whether these bytes are the key."""
        return self._digest is not None and hmac.compare_digest(self._digest, sha256(sent).digest())

    def derived(self, purpose: bytes) -> bytes:
        """Return 32 bytes for signing that only a holder of the key can compute.

        Raises LookupError when no key is set.
        """
        if self._digest is None:
            raise LookupError("no admin key is configured")
        return hmac.digest(self._digest, purpose, "sha256")

    def opens(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Return whether the request carries the key, as `Authorization: Bearer <key>`."""
        for name, value in headers:
            if name == b"authorization" and value[:7].lower() == b"bearer ":
                return self.is_key(value[7:].strip())
        return False


class MetricsAccess:
    """Decide who may read /metrics, which shows the models and the traffic of all clients."""

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
    """Return the error for a client that sends too many wrong keys. retry_after: seconds."""
    return Throttled(
        "too many wrong API keys from this address; further answers are delayed",
        code="too_many_wrong_keys",
        retry_after=retry_after,
    )


def check_model(caller: Caller, model: str, route: str) -> None:
    """Raise Forbidden unless the key may use the model by either of its names."""
    if not caller.may_use(model, route):
        raise Forbidden(f"the API key {caller.name!r} may not use the model {model!r}")


def check_priority(caller: Caller, priority: object) -> None:
    """Raise Forbidden for a priority more urgent (a smaller number) than the key's best."""
    if isinstance(priority, int) and priority < caller.max_priority:
        raise Forbidden(
            f"priority: the API key {caller.name!r} may use priorities {caller.max_priority} to 5",
            param="priority",
            code="priority_not_allowed",
        )


def _any_begins(names: tuple[str, ...], prefix: str) -> bool:
    return any(name.startswith(prefix) for name in names)


def _credential(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    for name, value in headers:
        if name in _CREDENTIALS:
            if name != b"authorization":
                return value
            if value[:7].lower() == b"bearer ":
                return value[7:].strip()
    return b""
