"""A part as a feature would be: it counts visits by name; operators see and forget them."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

from markupsafe import Markup
from msgspec import Meta, Struct

from strowger_gateway.gateway.parts.console import AdminCall, AdminRoute, Nothing, PageView
from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide
from strowger_gateway.schemas.errors import Unavailable

EVIL = "<script>alert(1)</script>"


class VisitQuery(Struct, frozen=True):
    """Which visits are listed."""

    name: Annotated[str, Meta(max_length=20, description="only of this visitor")] = ""
    limit: Annotated[int, Meta(ge=1, le=100)] = 10


class ForgetBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Which visits are forgotten."""

    name: str


class Visits(Struct, frozen=True, kw_only=True):
    """Visits by name."""

    counts: dict[str, int]
    model: str


class VisitSide(ProcessSide[Any, Any]):
    """The visits of one process."""

    def __init__(self) -> None:
        self.counts = Counter({"ada": 3, "ben": 1})


class Elsewhere(VisitSide):
    """A side that this configuration has no use for."""


async def read(call: AdminCall[VisitQuery]) -> Visits:
    counts = call.side(VisitSide).counts.most_common(call.given.limit)
    names = {name: count for name, count in counts if call.given.name in ("", name)}
    return Visits(counts=names, model=call.config.models[0].name)


async def read_elsewhere(call: AdminCall[Nothing]) -> Visits:
    return Visits(counts=call.side(Elsewhere).counts, model="")


async def forget(call: AdminCall[ForgetBody]) -> Visits:
    side = call.side(VisitSide)
    if call.given.name == "nobody":
        raise Unavailable("nobody is never forgotten", retry_after=7)
    side.counts.pop(call.given.name, None)
    call.facts["name"] = call.given.name
    return Visits(counts=dict(side.counts), model=call.who)


async def shown(call: AdminCall[VisitQuery]) -> Markup:
    found = await read(call)
    if call.given.name == "broken":
        raise RuntimeError("a bug of the part")
    if call.given.name == "away":
        raise Unavailable("visits cannot be read", retry_after=7)
    rows = [Markup("<li>{} {}</li>").format(*one) for one in found.counts.items()]
    text = Markup("""<section aria-label="Visits"><h2>Visits</h2><ul>{}</ul>{}
<form method="post" action="/admin/view/visits/forget"><label>Name <input name="name"></label>
<button>Forget</button></form></section>""")
    return text.format(Markup().join(rows), EVIL)


async def secret(call: AdminCall[Nothing]) -> Markup:
    return Markup("<p>for admins</p><script>document.title = 'run'</script>")


READ = AdminRoute(
    method="GET",
    path="/visits",
    role="viewer",
    summary="Visits by name",
    takes=VisitQuery,
    returns=Visits,
    answer=read,
)
READ_ELSEWHERE = AdminRoute(
    method="GET",
    path="/visits/elsewhere",
    role="viewer",
    summary="Visits of others",
    takes=Nothing,
    returns=Visits,
    answer=read_elsewhere,
)
FORGET = AdminRoute(
    method="POST",
    path="/visits/forget",
    role="operator",
    summary="Forget the visits of a name",
    takes=ForgetBody,
    returns=Visits,
    answer=forget,
)


class VisitPart(Part):
    """What operators see of visits."""

    name = "visits"

    def process(self, at: ProcessContext) -> VisitSide:
        return VisitSide()

    def routes(self) -> Sequence[AdminRoute[Any]]:
        return (READ, READ_ELSEWHERE, FORGET)

    def views(self) -> Sequence[PageView[Any]]:
        return (
            PageView(
                name="visits",
                title="Visits",
                role="viewer",
                takes=VisitQuery,
                render=shown,
                forms={"forget": FORGET},
            ),
            PageView(name="plans", title="Plans", role="admin", takes=Nothing, render=secret),
        )
