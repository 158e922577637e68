"""The view of an engine that another process owns, as last reported by that process."""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from strowger_gateway.gateway.backends.engines.process.process import EngineView, State
from strowger_gateway.gateway.fleet.processes.messages import EngineState
from strowger_gateway.gateway.platform.clock import now


class RemoteEngineView:
    """An EngineView that shows the last reported state."""

    def __init__(self, state: EngineState) -> None:
        self.name = state.name
        self.socket_path = Path(os.fsdecode(state.socket_path))
        self._last = state
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
        seconds = self._last.ready_in
        return None if seconds is None else max(1.0, seconds - (now() - self._at))

    def watch(self, on_status: Callable[[str], None]) -> None:
        """See EngineView.watch."""
        self._watchers.append(on_status)

    def unwatch(self, on_status: Callable[[str], None]) -> None:
        self._watchers.remove(on_status)

    def update(self, state: EngineState) -> None:
        """Store a newly reported state and notify the watchers."""
        self._last, self._at = state, now()
        for on_status in tuple(self._watchers):
            on_status(state.status)


class RemoteEngineViews:
    """All reported engines; one object for each, shared by all configuration generations."""

    def __init__(self) -> None:
        self._by_path: dict[bytes, RemoteEngineView] = {}

    def of(self, states: Iterable[EngineState]) -> Mapping[str, EngineView]:
        """Return the views by provider; a known engine keeps its object."""
        found: dict[str, EngineView] = {}
        for one in states:
            known = self._by_path.get(one.socket_path)
            if known is None:
                known = self._by_path[one.socket_path] = RemoteEngineView(one)
            found[one.name] = known
        return found

    def update(self, state: EngineState) -> None:
        known = self._by_path.get(state.socket_path)
        if known is not None:
            known.update(state)
