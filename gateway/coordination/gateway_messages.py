"""The messages between gateways as bytes, and which backends two gateways have in common.

A notice is the writer's current clock, 8 bytes, and a body that stays the same while nothing
changes. Times in the body are on the writer's clock; a reader only uses their distance from that
clock, because the monotonic clocks of two machines never agree.
"""

import socket
import struct
from collections.abc import Mapping
from hashlib import blake2b
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, structs

from strowger_gateway.gateway.config.checks.access import is_loopback
from strowger_gateway.gateway.config.schema.config import Config, Provider
from strowger_gateway.gateway.config.schema.failover import BreakerRule
from strowger_gateway.gateway.coordination.evidence_sum import Reported
from strowger_gateway.gateway.routing.resilience.breaker_per_model import MOST
from strowger_gateway.gateway.routing.resilience.breaker_snapshot import BreakerSnapshot
from strowger_gateway.local_engine.protocol.address import parse_address
from strowger_gateway.schemas.secret import Secret

_CLOCK = struct.Struct("!d")
_Value = TypeVar("_Value")


class GatewayState(Struct, frozen=True, kw_only=True):
    """The body of a notice: breakers and attempts in flight, by provider (`Shared`) and backend.

    outcomes: of backends that fail, or are watched because they fail elsewhere. places: all
    providers, so that a missing report shows. keys: the version of the list of issued keys that
    the gateway knows; -1: none.
    processes: that serve requests. digest: of the configuration in force; "": unknown.
    """

    health: dict[str, dict[str, BreakerSnapshot]] = {}
    busy: dict[str, dict[str, int]] = {}
    outcomes: dict[str, dict[str, Reported]] = {}
    places: tuple[str, ...] = ()
    keys: int = -1
    processes: int = 1
    digest: str = ""


class Unreadable(Exception):
    """The notice cannot be decoded; another version may have written it."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(GatewayState)


def body_of(state: GatewayState) -> bytes:
    return _encoder.encode(state)


def notice(now: float, body: bytes) -> bytes:
    return _CLOCK.pack(now) + body


def clock_of(data: bytes) -> float:
    """Raises Unreadable."""
    if len(data) < _CLOCK.size:
        raise Unreadable
    return float(_CLOCK.unpack_from(data)[0])


def state_in(body: bytes) -> GatewayState:
    """Raises Unreadable."""
    try:
        return _decoder.decode(body)
    except msgspec.MsgspecError as exc:
        raise Unreadable from exc


def body_in(data: bytes) -> bytes:
    return data[_CLOCK.size :]


def shifted(health: BreakerSnapshot, seconds: float) -> BreakerSnapshot:
    """Return the snapshot on a clock that is `seconds` ahead."""
    return structs.replace(
        health,
        at=health.at + seconds,
        open_until=None if health.open_until is None else health.open_until + seconds,
        retry_after_until=health.retry_after_until + seconds,
        last_failure=health.last_failure + seconds,
        deprioritised_until=health.deprioritised_until + seconds,
        rate_limited_until=health.rate_limited_until + seconds,
    )


class Shared:
    """The backends of a configuration that other gateways may have too.

    Backends match if their provider has the same name, address and account. Engines, and servers on
    a loopback address, belong to one machine and are never shared.
    """

    def __init__(self, config: Config) -> None:
        self._rules = {model.name: model.breaker for model in config.models}
        self._places = {
            provider.name: _place(provider)
            for provider in config.providers
            if provider.engine is None
        }
        self._found: dict[str, tuple[str, BreakerRule] | None] = {}
        self.places = frozenset(self._places.values())

    def place(self, key: str) -> str | None:
        """Return the shared provider of a key of Runtime.backends, or `None`.

        key: `MODEL: PROVIDER/NAME`.
        """
        found = self._of(key)
        return None if found is None else found[0]

    def rule(self, key: str) -> BreakerRule | None:
        """Return the rule of a breaker that is shared, or `None`."""
        found = self._of(key)
        return None if found is None else found[1]

    def by_place(self, values: Mapping[str, _Value]) -> dict[str, dict[str, _Value]]:
        """Return the values of shared backends by provider. values: by key."""
        found: dict[str, dict[str, _Value]] = {}
        for key, value in values.items():
            if place := self.place(key):
                found.setdefault(place, {})[key] = value
        return found

    def _of(self, key: str) -> tuple[str, BreakerRule] | None:
        if key not in self._found:
            if len(self._found) >= 2 * MOST:
                self._found.clear()
            self._found[key] = self._search(key)
        return self._found[key]

    def _search(self, key: str) -> tuple[str, BreakerRule] | None:
        for model, rule in self._rules.items():
            if key.startswith(f"{model}: "):
                provider = key[len(model) + 2 :].partition("/")[0]
                if provider in self._places:
                    return self._places[provider], rule
        return None


def lease_name(place: str, key: str) -> str:
    """Return the name of the probe lease of one backend: a provider has many models and replicas.

    place, key: as in Shared.place.
    """
    return f"{place}:{blake2b(key.encode(), digest_size=8).hexdigest()}"


def _place(provider: Provider) -> str:
    """Return a digest of address and account, which does not reveal the credentials."""
    engines = provider.engines
    if engines is not None and engines.hosts:
        host = parse_address(engines.hosts[0]).host
    else:
        host = urlsplit(provider.base_url or "").hostname or ""
    parts = (
        *(provider.name, provider.adapter, provider.base_url, provider.first_key),
        *(sorted(provider.headers.items()), provider.oauth, provider.aws),
        *(provider.google, provider.azure),
        socket.gethostname() if is_loopback(host) else "",
    )
    return blake2b(msgspec.msgpack.encode(parts, enc_hook=_plain), digest_size=8).hexdigest()


def _plain(value: object) -> object:
    if isinstance(value, Secret):
        return value.reveal()
    raise NotImplementedError(f"{type(value)} cannot be part of an account")
