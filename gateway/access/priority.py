"""The most urgent priority of a key: a request that asks for a more urgent one gets this one."""

from typing import Final, TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from gateway.access.auth import Caller
from schemas.requests import EmbeddingsRequest, Request

LOWERED: Final = "priority:max_priority"
"""How the change is named in `x-gateway-repairs`, as `PATH:RULE`."""

R = TypeVar("R", bound=Request)


def with_allowed_priority(request: R, caller: Caller) -> R:
    """Return the request itself, or one with the priority that the key's `max_priority` allows."""
    if isinstance(request, EmbeddingsRequest) or request.priority is UNSET:
        return request
    if request.priority >= caller.max_priority:
        return request
    return replace(request, priority=caller.max_priority)
