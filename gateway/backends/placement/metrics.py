"""The metrics of `strowger placement`; those of engines and requests are the gateways'."""

from collections import Counter
from collections.abc import Collection, Sequence

from prometheus_client import CollectorRegistry, Gauge, start_http_server

from strowger_gateway.gateway.backends.placement.cluster import Placed
from strowger_gateway.gateway.backends.placement.scaler import EngineLoad

_STATES = ("waiting", "starting", "ready", "failed", "unknown", "leaving")


class PlacementMetrics:
    """wanted: replicas that the load requires."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.wanted = Gauge(
            "strowger_placement_wanted_replicas",
            "Replicas that the load requires.",
            registry=self.registry,
        )
        self._replicas = Gauge(
            "strowger_placement_replicas",
            "Replicas by state.",
            ("state",),
            registry=self.registry,
        )
        self._requests = Gauge(
            "strowger_placement_requests",
            "Requests in the engines, by state.",
            ("state",),
            registry=self.registry,
        )

    def serve(self, port: int) -> None:
        """Serve /metrics in a thread. Raises OSError."""
        start_http_server(port, registry=self.registry)

    def show(
        self, placed: Sequence[Placed], leaving: Collection[str], loads: Sequence[EngineLoad]
    ) -> None:
        counts = Counter("leaving" if one.name in leaving else _state(one) for one in placed)
        for state in _STATES:
            self._replicas.labels(state).set(counts[state])
        self._requests.labels("running").set(sum(one.running for one in loads))
        self._requests.labels("waiting").set(sum(one.waiting for one in loads))


def _state(one: Placed) -> str:
    if not one.node:
        return "waiting"
    if one.report is None:
        return "unknown"
    state = one.report.state
    return "leaving" if state in ("ending", "ended") else state
