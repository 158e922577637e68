"""What a part shows to operators: routes under /admin, views of the page, commands."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, Literal, TypeVar

from markupsafe import Markup
from msgspec import Struct, field

from strowger_gateway.gateway.audit.event import Action, Actor
from strowger_gateway.gateway.config.schema.admin_oidc import Role
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.parts.leader_side import Finds
from strowger_gateway.gateway.platform.language import Words

TakesT = TypeVar("TakesT", bound=Struct)


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """What a route takes that takes nothing."""


class AdminCall(Struct, Generic[TakesT], frozen=True, kw_only=True):
    """An operator's request to a route or a view of a part.

    given:  what the route takes, checked. who: the operator, for messages. by: for the audit log.
    role:   of the operator.
    side:   returns the part's side in this process, by its class; the answer is 404 if there is
            none. Of several processes, any may get the request: `ProcessContext.ask` gets what
            all of them know.
    config: in effect.
    facts:  a route that changes something adds what the audit log says about it.
    """

    given: TakesT
    who: str
    by: Actor
    side: Finds
    config: Config
    facts: dict[str, str] = field(default_factory=dict)
    role: Role = "viewer"


class AdminRoute(Struct, Generic[TakesT], frozen=True, kw_only=True):
    """A route under /admin, open to who has the role: the operator's key, or a browser's session.

    method:  a POST changes something. It is recorded in the audit log as `admin.change`.
    path:    below /admin, beginning with a slash. summary: one sentence for the API description.
    takes:   a Struct: the parameters of a GET in the URL, the JSON body of a POST, which forbids
             unknown fields. Fields have defaults if they may be missing; `msgspec.Meta` describes
             and bounds them.
    answer:  returns what becomes the JSON of the answer, of the type `returns`. Raises a
             GatewayError for what is refused, as other routes do.
    action:  what the audit log calls a POST. Of the facts that it adds, `target` and `reason` are
             those of the event; without them, the target is the path.
    """

    method: Literal["GET", "POST"]
    path: str
    role: Role
    summary: str
    takes: type[TakesT]
    returns: type
    answer: Callable[[AdminCall[TakesT]], Awaitable[object]]
    action: Action = "admin.change"


Group = Literal["overview", "requests", "spend", "access", "models", "experiments", "configuration"]
"""Where a view is in the navigation, in this order."""


class PageView(Struct, Generic[TakesT], frozen=True, kw_only=True):
    """A view of the page at /admin/view/NAME, in the navigation of all views under its title.

    title:  in English, a `sentence` of the part's folder. The page shows it as the `<h1>`, above
            the sections. say: translates it; without it, readers of all languages get the English.
    group:  of the navigation.
    takes:  a Struct: the parameters in the URL, such as those of a form that filters.
    render: returns its sections; `Markup.format` escapes what clients and vendors have written.
            A GatewayError is shown in the page. Scripts and styles in it do not run.
    forms:  POST routes by name: a form of the view with this method posts to
            /admin/view/NAME/FORM. Then the browser returns to the view.
    """

    name: str
    title: str
    role: Role
    takes: type[TakesT]
    render: Callable[[AdminCall[TakesT]], Awaitable[Markup]]
    say: Words | None = None
    group: Group = "configuration"
    forms: Mapping[str, AdminRoute[Any]] = {}

    @property
    def name_shown(self) -> str:
        """Its title in the language of the reader."""
        return self.title if self.say is None else self.say(self.title)


class Command(Struct, frozen=True, kw_only=True):
    """A command of `strowger`: MODULE:FUNCTION of a click command, imported when it is called."""

    name: str
    target: str
    help: str
