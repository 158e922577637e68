"""The view of an engine that another process owns, as last reported by that process."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from gateway.clock import now
from gateway.engine_process.process import EngineView, State
from gateway.processes.messages import EngineState


class RemoteEngineView:
    """An EngineView that shows the last reported state."""

    def __init__(self, told: EngineState) -> None:
        self.name = told.name
        self.socket_path = Path(told.socket_path)
        self._last = told
        self._at = now()
        self._watchers: list[Callable[[str], None]] = []

    @property
    def state(self) -> State:
        return self._last.state

    @property
    def status(self) -> str:
        return self._last.status

    @property
    def restarts(self) -> int:
        return self._last.restarts

    @property
    def pid(self) -> int | None:
        return self._last.pid

    @property
    def uptime_s(self) -> float:
        return 0.0 if self._last.pid is None else self._last.uptime_s + now() - self._at

    @property
    def ready(self) -> bool:
        return self._last.state == "ready"

    def ready_in(self) -> float | None:
        """See EngineView.ready_in."""
        told = self._last.ready_in
        return None if told is None else max(1.0, told - (now() - self._at))

    def watch(self, hear: Callable[[str], None]) -> None:
        """See EngineView.watch."""
        self._watchers.append(hear)

    def unwatch(self, hear: Callable[[str], None]) -> None:
        self._watchers.remove(hear)

    def update(self, told: EngineState) -> None:
        """Store a newly reported state and notify the watchers."""
        self._last, self._at = told, now()
        for hear in tuple(self._watchers):
            hear(told.status)


class RemoteEngineViews:
    """All reported engines; one object for each, shared by all configuration generations."""

    def __init__(self) -> None:
        self._by_path: dict[str, RemoteEngineView] = {}

    def of(self, told: Iterable[EngineState]) -> Mapping[str, EngineView]:
        """Return the views by provider; a known engine keeps its object."""
        found: dict[str, EngineView] = {}
        for one in told:
            known = self._by_path.get(one.socket_path)
            if known is None:
                known = self._by_path[one.socket_path] = RemoteEngineView(one)
            found[one.name] = known
        return found

    def update(self, told: EngineState) -> None:
        known = self._by_path.get(told.socket_path)
        if known is not None:
            known.update(told)
