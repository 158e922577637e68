"""The most urgent priority of a key: a request that asks for a more urgent one gets this one."""

from typing import Final, Protocol, TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from strowger_gateway.gateway.governance.access.auth import Caller
from strowger_gateway.schemas.requests import Request
from strowger_gateway.schemas.tasks.task import Unsampled

LOWERED: Final = "priority:max_priority"
"""How the change is named in `x-gateway-repairs`, as `PATH:RULE`."""

R = TypeVar("R", bound=Request)


class PriorityRecord(Protocol):
    """What is noted of a request. level: its priority among those that wait."""

    level: int
    repaired_body: tuple[str, ...]


def prioritised(request: R, caller: Caller, record: PriorityRecord) -> R:
    """Return the request with the priority that its key allows, and record it."""
    allowed = with_allowed_priority(request, caller)
    if allowed is not request:
        record.repaired_body += (LOWERED,)
    if not isinstance(allowed, Unsampled) and allowed.priority is not UNSET:
        record.level = allowed.priority
    return allowed


def with_allowed_priority(request: R, caller: Caller) -> R:
    """Return the request itself, or one with the priority that the key's `max_priority` allows."""
    if isinstance(request, Unsampled) or request.priority is UNSET:
        return request
    if request.priority >= caller.max_priority:
        return request
    return replace(request, priority=caller.max_priority)
