"""Cross-checks of `providers[].pool`, and the names of the headers that it sends."""

import re

from strowger_gateway.gateway.config.problems import Found, Path, Problems
from strowger_gateway.gateway.config.schema.config import Provider
from strowger_gateway.gateway.config.schema.pool import InferencePool, PoolObjective

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_TAKEN = frozenset(
    {
        *("accept", "accept-encoding", "authorization", "connection", "content-length"),
        *("content-type", "cookie", "host", "te", "traceparent", "tracestate", "trailer"),
        *("transfer-encoding", "upgrade", "x-api-key"),
    }
)
"""Headers with a meaning of their own, which a session's id must not replace."""

_PRIORITIES = ("1", "2", "3", "4", "5")


def fairness_header(pool: InferencePool) -> str:
    return f"{pool.prefix}-fairness-id"


def objective_header(pool: InferencePool) -> str:
    return f"{pool.prefix}-objective"


def check_pool(provider: Provider, pool: InferencePool, path: Path, problems: Problems) -> None:
    """Check that the headers have an effect, and names that no other header of the request has."""
    if problems.under(path):
        return
    if pool.session is None and pool.fairness is None and pool.objective is None:
        problems.add(path, "sends nothing; give session, fairness or objective, or remove it")
    names: list[tuple[str, str]] = []
    if pool.session is not None:
        place = (*path, "session_header")
        name = pool.session_header
        if not _NAME.fullmatch(name):
            problems.add(
                place,
                "expected a header's name: up to 64 lower-case letters, digits, - and _, found ",
                Found(name),
            )
        elif name in _TAKEN:
            problems.add(place, Found(name), " has another meaning; name the picker's own header")
        names.append(("session", name))
    elif pool.session_header != InferencePool().session_header:
        problems.add((*path, "session_header"), "has no effect without session; remove it")
    if pool.fairness is not None:
        names.append(("fairness", fairness_header(pool)))
    if pool.objective is not None:
        _objective(pool.objective, (*path, "objective"), problems)
        names.append(("objective", objective_header(pool)))
    fixed = {name.lower() for name in provider.headers}
    seen: set[str] = set()
    for field, name in names:
        if name in fixed:
            problems.add((*path, field), f"sends {name}, which is also in headers; give one")
        elif name in seen:
            problems.add((*path, "session_header"), Found(name), " is also sent by the pool itself")
        seen.add(name)


def _objective(objective: PoolObjective, path: Path, problems: Problems) -> None:
    if not objective.names and objective.otherwise is None:
        problems.add(path, "is empty; give names, otherwise or both")
    if objective.by != "priority":
        return
    for value in objective.names:
        if value not in _PRIORITIES:
            problems.add(
                (*path, "names"), "by priority: expected keys from 1 to 5, found ", Found(value)
            )
