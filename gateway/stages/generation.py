"""What stages see of a configuration generation, of a caller, and of the memory of a request."""

from collections.abc import Mapping
from typing import Protocol

from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.platform.room import Room
from strowger_gateway.gateway.routing.planning.enrolment import ExperimentRouter
from strowger_gateway.gateway.routing.planning.planner import Planner
from strowger_gateway.gateway.routing.planning.prices import Prices
from strowger_gateway.gateway.routing.planning.route import RouteTable
from strowger_gateway.schemas.holdings import Holder


class Generation(Protocol):
    """One configuration with all that is built from it: `assembly/runtime.py`.

    in_flight: the requests that began with it and have not ended. Work that outlives its request
    counts as well.
    """

    in_flight: int

    @property
    def config(self) -> Config: ...
    @property
    def table(self) -> RouteTable: ...
    @property
    def planner(self) -> Planner: ...
    @property
    def prices(self) -> Prices: ...
    @property
    def experiment_routers(self) -> Mapping[str, ExperimentRouter]:
        """By the name of the route that they run on."""
        ...


class KnownCaller(Protocol):
    """The owner of a key or a token; see `governance/access/auth.py`."""

    @property
    def name(self) -> str: ...
    @property
    def team(self) -> str: ...
    @property
    def user(self) -> str: ...
    @property
    def plan(self) -> str: ...
    @property
    def holder(self) -> Holder: ...
    def may_use(self, *names: str) -> bool:
        """Whether the key may use any of these names of models."""
        ...


class HeldRoom(Room, Protocol):
    """The memory of one request. size: bytes that are claimed."""

    size: int

    def release(self, size: int) -> None:
        """Give back a part of it."""
        ...
