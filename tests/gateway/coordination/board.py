"""Gateways that exchange notices on a board in memory, each with a clock of its own."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.coordination.breaker_messages import (
    BreakerUpdate,
    FromWorker,
    ToWorker,
)
from strowger_gateway.gateway.coordination.gateway_sync import GatewaySync
from strowger_gateway.gateway.coordination.gateway_transport import Ask
from strowger_gateway.gateway.coordination.probe_locks import LocalLeases
from strowger_gateway.gateway.coordination.state_hub import StateHub
from strowger_gateway.gateway.routing.resilience.breaker_snapshot import BreakerSnapshot

KEY = "chat: one/m"
CONFIG = """
providers: [{name: one, adapter: openai, base_url: "https://one.test/v1", api_key: sk-1}]
models: [{name: chat, backends: [{provider: one, model: m}]}]
"""
NEVER = float("-inf")


def config(text: str = CONFIG) -> Config:
    return read_config(text, source="config.yaml", env={})


def health(
    at: float,
    open_until: float | None = None,
    rest_until: float = NEVER,
    spare_until: float = NEVER,
    seen_by: int = 0,
) -> BreakerSnapshot:
    return BreakerSnapshot(
        at=at,
        open_until=open_until,
        cooldown_s=9,
        retry_after_until=rest_until,
        last_failure=NEVER,
        deprioritised_until=spare_until,
        seen_by=seen_by,
    )


class Board:
    """The transport of a test's gateways. Leases last until they are released."""

    def __init__(self) -> None:
        self.notices: dict[bytes, bytes] = {}
        self.leases: dict[str, str] = {}
        self.asked = 0


class BoardTransport:
    """See GatewayTransport."""

    def __init__(self, board: Board, name: str) -> None:
        self._board = board
        self.name = name
        self.where = "the board"

    async def exchange(self, own: bytes, gone: Sequence[bytes]) -> Mapping[bytes, bytes]:
        self._board.notices[self.name.encode()] = own
        for name in gone:
            self._board.notices.pop(name, None)
        return dict(self._board.notices)

    async def leases(self, asks: Sequence[tuple[Ask, str]]) -> list[bool]:
        self._board.asked += 1
        return [self._done(*ask) for ask in asks]

    async def leave(self) -> None:
        del self._board.notices[self.name.encode()]

    def _done(self, ask: Ask, place: str) -> bool:
        mine = self._board.leases.get(place) == self.name
        match ask:
            case "take":
                return self._board.leases.setdefault(place, self.name) == self.name
            case "keep":
                return mine
            case "give":
                if mine:
                    del self._board.leases[place]
                return mine


class Clock(Struct, kw_only=True):
    now: float

    def __call__(self) -> float:
        return self.now


class Keys(Struct, kw_only=True):
    """The version of a gateway's issued keys, and those that it noticed."""

    version: int
    seen: list[int]

    def noticed(self, version: int) -> None:
        self.seen.append(version)


class SimulatedGateway:
    """A gateway with its own clock and one worker, which the test plays."""

    def __init__(self, board: Board, name: str, now: float, text: str = CONFIG) -> None:
        self.clock = Clock(now=now)
        self.told: list[ToWorker] = []
        self.hub = StateHub()
        holders: dict[str, LocalLeases] = {}
        self.probe = LocalLeases(holders).lease(KEY)
        served = config(text)
        self.keys = Keys(version=1, seen=[])
        self.exchange = GatewaySync(
            self.hub,
            BoardTransport(board, name),
            LocalLeases(holders),
            lambda: served,
            self.clock,
            keys=self.keys,
        )
        self.hub.join(0, self.told.append)

    def say(self, message: FromWorker) -> None:
        self.hub.on_message(0, message)

    @property
    def news(self) -> list[BreakerSnapshot]:
        return [one.health[KEY] for one in self.told if isinstance(one, BreakerUpdate)]


def pair(board: Board, text: str = CONFIG) -> tuple[SimulatedGateway, SimulatedGateway]:
    """Two gateways whose clocks are a thousand seconds apart."""
    return SimulatedGateway(board, "a", 5000.0), SimulatedGateway(board, "b", 6000.0, text)


async def look(*gateways: SimulatedGateway, seconds: float = 0.25) -> None:
    """Each looks once, and then time passes."""
    for gateway in gateways:
        await gateway.exchange.sync()
    for gateway in gateways:
        gateway.clock.now += seconds
