"""What an operator has chosen to see of the traffic: the parameters of the page's address."""

from typing import Final, Literal
from urllib.parse import urlencode

from msgspec import Struct

from strowger_gateway.gateway.console.admin.request_log.links import requests_link
from strowger_gateway.gateway.storage.sql.traffic.queries import TrafficFilter
from strowger_gateway.gateway.storage.sql.traffic.windows import Window

Quantile = Literal["p50", "p95", "p99"]

SHARES: Final[dict[Quantile, float]] = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


class TrafficChoice(Struct, frozen=True, kw_only=True):
    """window: shown. quantile: of durations in charts. Empty filters leave nothing out."""

    window: Window = "5m"
    quantile: Quantile = "p95"
    model: str = ""
    backend: str = ""
    key: str = ""
    team: str = ""

    @property
    def only(self) -> TrafficFilter:
        return TrafficFilter(
            self.model or None, self.backend or None, self.key or None, self.team or None
        )

    @property
    def filters(self) -> dict[str, str]:
        """The filters that are set, by the names that the requests page has for them too."""
        named = {"model": self.model, "backend": self.backend, "key": self.key, "team": self.team}
        return {name: value for name, value in named.items() if value}

    def address(self, window: Window) -> str:
        """Return the page's address with another window."""
        quantile = {} if self.quantile == "p95" else {"quantile": self.quantile}
        return f"/admin?{urlencode({'window': window, **quantile, **self.filters})}"

    def requests(self, status: str) -> str:
        """Return the address of the requests of this window with a status; "" for all."""
        return requests_link(**{"since": self.window, "status": status, **self.filters})
