"""The navigation: the views of the page in groups, for those who may see them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from markupsafe import Markup
from msgspec import Struct

from strowger_gateway.gateway.governance.sessions.principal import Principal
from strowger_gateway.gateway.parts.console import Group, PageView
from strowger_gateway.gateway.platform.language import sentence, words_of

say = words_of(__file__)

OVERVIEW: Final = sentence("Overview")
GROUPS: Final[Mapping[Group, str]] = {
    "overview": sentence("Now"),
    "requests": sentence("Requests"),
    "spend": sentence("Usage"),
    "access": sentence("Access"),
    "models": sentence("Models"),
    "experiments": sentence("Experiments"),
    "configuration": sentence("Configuration"),
}
"""Their headings, in their order."""

_OWN: Final[Mapping[str, tuple[Group, str]]] = {
    OVERVIEW: ("overview", "/admin"),
    sentence("Requests"): ("requests", "/admin/view/requests"),
    sentence("Spend"): ("spend", "/admin/view/spend"),
    sentence("Budgets"): ("spend", "/admin/view/budgets"),
    sentence("Limits"): ("spend", "/admin/view/limits"),
    sentence("Keys"): ("access", "/admin/view/keys"),
    sentence("Sessions"): ("access", "/admin/view/sessions"),
    sentence("Audit"): ("access", "/admin/view/audit"),
    sentence("Explain a request"): ("models", "/admin/view/explain"),
}
"""The views that are not of parts, by their titles."""

# One copy of the links: a column at the left where there is room, else a popover, which opens,
# closes and keeps the focus without a script.
# https://html.spec.whatwg.org/multipage/popover.html
_NAVIGATION = say.template("""
<button type="button" class="menu" popovertarget="parts">[[Menu]]</button>
<nav class="parts" id="parts" popover aria-label="[[Parts of the page]]">{groups}</nav>
""")
_GROUP = Markup('<h2 id="nav-{name}">{title}</h2><ul aria-labelledby="nav-{name}">{links}</ul>')
_LINK = Markup('<li><a href="{path}"{current}>{name}</a></li>')
_HERE: Final = Markup(' aria-current="page"')


class _Link(Struct, frozen=True):
    """title: in English."""

    group: Group
    title: str
    shown: str
    path: str


def shown_title(title: str, views: Sequence[PageView[Any]]) -> str:
    """Return the title of a view in the language of the reader."""
    return next((view.name_shown for view in views if view.title == title), say(title))


def navigation(current: str, who: Principal, views: Sequence[PageView[Any]]) -> Markup:
    """Render the links. current: the title of the view that is shown. views: of parts."""
    links = list(_links(who, views))
    groups = [
        _GROUP.format(
            name=group,
            title=say(title),
            links=Markup().join(
                _LINK.format(
                    path=one.path, name=one.shown, current=_HERE if one.title == current else ""
                )
                for one in links
                if one.group == group
            ),
        )
        for group, title in GROUPS.items()
        if any(one.group == group for one in links)
    ]
    return _NAVIGATION.format(groups=Markup().join(groups))


def _links(who: Principal, views: Sequence[PageView[Any]]) -> Iterator[_Link]:
    for title, (group, path) in _OWN.items():
        yield _Link(group, title, say(title), path)
    for view in views:
        if who.may(view.role):
            yield _Link(view.group, view.title, view.name_shown, f"/admin/view/{view.name}")
