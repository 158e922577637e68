"""Problems of models, backends and engines, as the process that answers sees them."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.console.problems.problem import GatewayProblem
from strowger_gateway.gateway.console.problems.words import problem
from strowger_gateway.gateway.observability.telemetry.engine_reports import EngineReport
from strowger_gateway.gateway.platform.formatting import share
from strowger_gateway.gateway.routing.backend_events.event import BackendEvent
from strowger_gateway.gateway.routing.backend_events.watch import MIRROR
from strowger_gateway.gateway.routing.backend_status import BackendStatus, status_of
from strowger_gateway.gateway.routing.resilience.backend_hold import BackendHold
from strowger_gateway.gateway.storage.sql.traffic.series import BackendSeries, total

ENOUGH: Final = 20
"""Attempts of the last 5 minutes, from which on their failures are a problem."""

MANY: Final = 0.25
"""Share of failed attempts that is one."""

NAME_CHARS: Final = 100
"""Characters of a name that a client chose."""

_NAMES: Final = 3
_DOWN: Final = ("failing", "circuit_opened", "refused")
_KINDS: Final = {"open": "circuit_open", "refused": "backend_refused", "failing": "backend_failing"}


class _Seen(NamedTuple):
    """A backend of a model, and how it is."""

    model: str
    place: str
    health: BackendStatus
    names_down: tuple[str, ...]


def model_problems(
    runtime: Runtime, events: Sequence[BackendEvent], now: float, at: float
) -> Iterator[GatewayProblem]:
    """events: the newest first; they have the causes. now: of the clock. at: Unix seconds."""
    held: dict[str, BackendHold] = {}
    by_model: dict[str, list[_Seen]] = {}
    for seen in _seen(runtime, now):
        by_model.setdefault(seen.model, []).append(seen)
        if (hold := seen.health.held) is not None:
            held.setdefault(hold.name, hold)
    for model in runtime.config.models:
        backends = by_model.get(model.name, [])
        if backends and not any(one.health.up for one in backends):
            yield _model(model.name, model.fallback, [one.health for one in backends], at)
        for one in backends:
            if one.health.held is None:
                yield from _backend(one, events, at)
    for hold in held.values():
        yield problem(
            "backend_held",
            backend=hold.name,
            since=hold.since,
            state=hold.state,
            who=hold.by or "–",
            cause=hold.reason,
        )


def _seen(runtime: Runtime, now: float) -> Iterator[_Seen]:
    for name, backend in runtime.backends.items():
        model, _, place = name.partition(": ")
        if not place.endswith(MIRROR):
            down = (one for one, breaker in backend.breakers if breaker.phase(now) != "up")
            names = tuple(one[:NAME_CHARS] for one in down)
            yield _Seen(model, place, status_of(backend, now), names)


def _backend(one: _Seen, events: Sequence[BackendEvent], at: float) -> Iterator[GatewayProblem]:
    if one.health.phase != "up":
        down = one.health.down_for_s
        yield problem(
            _KINDS[one.health.phase],
            model=one.model,
            backend=one.place,
            since=None if down is None else at - down,
            cause=_cause(one.model, one.place, events),
        )
    elif one.names_down:
        names, more = one.names_down[:_NAMES], len(one.names_down) - _NAMES
        yield problem(
            "names_down",
            model=one.model,
            backend=one.place,
            names=", ".join(names) + (f" + {more}" if more > 0 else ""),
        )


def failure_problems(series: Sequence[BackendSeries]) -> Iterator[GatewayProblem]:
    """Backends that answer some requests and fail at many. series: of the last 5 minutes."""
    for name in sorted({one.backend for one in series if one.backend}):
        cell = total(cell for one in series if one.backend == name for cell in one.cells)
        if cell.attempts >= ENOUGH and cell.failed >= MANY * cell.attempts:
            yield problem(
                "many_failures",
                backend=name,
                share=share(cell.failed, cell.attempts),
                attempts=f"{cell.attempts:,}",
            )


def engine_problems(reports: Sequence[EngineReport]) -> Iterator[GatewayProblem]:
    for one in reports:
        if one.state not in ("ready", "loading"):
            yield problem("engine_down", subject=one.name, name=one.name, state=one.state)


def _model(
    name: str, fallback: Sequence[str], backends: Sequence[BackendStatus], at: float
) -> GatewayProblem:
    lasted = [one.down_for_s for one in backends if one.down_for_s is not None]
    since = at - min(lasted) if len(lasted) == len(backends) else None
    if fallback:
        return problem("model_on_fallback", model=name, since=since, fallback=", ".join(fallback))
    return problem("model_down", model=name, since=since)


def _cause(model: str, place: str, events: Sequence[BackendEvent]) -> str:
    for one in events:
        if one.kind in _DOWN and (one.model, one.backend) == (model, place):
            return f"{one.code}: {one.message}" if one.message else one.code
    return ""
