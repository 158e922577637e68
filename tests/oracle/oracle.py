"""Judges every request that a stand-in for a vendor receives, by the vendor's schema and rules."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Final, Protocol

from msgspec import Struct

from tests.oracle.rules import faults_of
from tests.oracle.schemas import schema_faults
from tests.oracle.sent import Api, Unreadable, api_of, read
from tests.oracle.vendors import Vendors

LARGE: Final = 4_000_000
"""Bytes of a body from which on it is counted and not read."""


class Request(Protocol):
    """A request as a stand-in has read it. Names of headers are lower-case."""

    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def body(self) -> bytes: ...


class Refusal(Struct, frozen=True, kw_only=True):
    """What a vendor would not accept. rule: its name, or `schema`, or `json`; at: in the body."""

    api: Api
    vendor: str
    path: str
    rule: str
    at: str
    says: str
    body: bytes

    def __str__(self) -> str:
        excerpt = self.body[:600].decode(errors="replace")
        place = self.at or "the body"
        return f"{self.vendor or self.api}, {self.rule}: {place}: {self.says}\n  in {excerpt}"


class _Received(Struct, frozen=True):
    api: Api
    vendor: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def digest(self) -> bytes:
        beta = self.headers.get("anthropic-beta", "")
        named = f"{self.api} {self.vendor} {self.path} {beta}\n"
        return blake2b(named.encode() + self.body, digest_size=16).digest()


class Oracle:
    """judged: requests by API and vendor. schemas: they are asked, too, not the rules alone."""

    def __init__(self) -> None:
        self.vendors = Vendors()
        self.schemas = True
        self.judged: Counter[tuple[Api, str]] = Counter()
        self._waiting: list[_Received] = []
        self._refused: list[Refusal] = []
        self._known: dict[bytes, tuple[Refusal, ...]] = {}

    def receive(self, request: Request) -> None:
        """Take in a request. It is judged later: a client's types take seconds to import."""
        if request.method != "POST":
            return
        api = api_of(request.path, request.body)
        if api is not None:
            authority, path = _target(request)
            vendor = self.vendors.of(api, authority, path)
            self._waiting.append(_Received(api, vendor, path, request.headers, request.body))

    def settle(self) -> None:
        """Judge what has come so far, and keep nothing of it but what is wrong."""
        waiting, self._waiting = self._waiting, []
        self._refused += self._judged(waiting)

    def judge(self) -> Iterator[Refusal]:
        """Yield what is wrong with the requests that have come since the last call."""
        self.settle()
        refused, self._refused = self._refused, []
        yield from refused

    def _judged(self, waiting: Sequence[_Received]) -> Iterator[Refusal]:
        for one in waiting:
            self.judged[one.api, one.vendor] += 1
            if len(one.body) >= LARGE:
                continue
            key = one.digest
            if key not in self._known:
                self._known[key] = tuple(_refusals(one, schemas=self.schemas))
            yield from self._known[key]


def _target(request: Request) -> tuple[str, str]:
    """Return authority and path; a proxy gets them as an address."""
    path = request.path
    if path.startswith(("http://", "https://")):
        authority, _, rest = path.partition("://")[2].partition("/")
        return authority, f"/{rest}"
    return request.headers.get("host", ""), path


def _refusals(one: _Received, *, schemas: bool) -> Iterator[Refusal]:
    for rule, at, says in _faults(one, schemas=schemas):
        yield Refusal(
            api=one.api,
            vendor=one.vendor,
            path=one.path,
            rule=rule,
            at=at,
            says=says,
            body=one.body,
        )


def _faults(one: _Received, *, schemas: bool) -> Iterator[tuple[str, str, str]]:
    try:
        sent = read(one.api, one.vendor, one.path, one.headers, one.body)
    except Unreadable as exc:
        yield "json", "", str(exc)
        return
    found = list(schema_faults(sent)) if schemas else []
    for at, says in found:
        yield "schema", at, says
    if not found:  # a rule may rely on what the schema says
        yield from faults_of(sent)


ORACLE: Final = Oracle()
"""Of this process: stand-ins give it what they receive."""
