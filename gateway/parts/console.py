"""What a part shows to operators: routes under /admin, sections of the page, commands."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

from msgspec import Struct

from strowger_gateway.gateway.parts.process_side import ProcessSide

Role = Literal["viewer", "operator", "admin"]


class AdminCall(Struct, frozen=True, kw_only=True):
    """A request to a route of a part.

    side: the part's, in the process that answers. query: the parameters of the URL.
    body: decoded from JSON; `None` without one. who: the operator, for messages.
    """

    side: ProcessSide[Any, Any] | None
    query: Mapping[str, str]
    body: object
    who: str


class AdminRoute(Struct, frozen=True, kw_only=True):
    """A route under /admin, open to who has the role.

    path: below /admin, beginning with a slash. answer: returns what becomes the JSON of the answer;
    raises GatewayErrors as other routes do. A POST is recorded in the audit log under `action`.
    """

    method: Literal["GET", "POST"]
    path: str
    role: Role
    summary: str
    answer: Callable[[AdminCall], Awaitable[object]]
    action: str = ""


class PageView(Struct, frozen=True, kw_only=True):
    """A section of the page at /admin.

    name: of its address, /admin/NAME. render: returns its HTML; text of clients and vendors in it
    is escaped. The page frames it with its title and with the navigation.
    """

    name: str
    title: str
    role: Role
    render: Callable[[AdminCall], Awaitable[str]]


class Command(Struct, frozen=True, kw_only=True):
    """A command of `strowger`: MODULE:FUNCTION of a click command, imported when it is called."""

    name: str
    target: str
    help: str
