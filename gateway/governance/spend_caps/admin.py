"""`GET /admin/spend-caps` and `/admin/view/spend-caps`: how far each spend cap is used up."""

from datetime import UTC, datetime
from typing import Final

from markupsafe import Markup
from msgspec import Struct

from strowger_gateway.gateway.governance.spend_caps.process_side import SpendCapsSide
from strowger_gateway.gateway.governance.spend_caps.standing import CapStanding
from strowger_gateway.gateway.parts.console import AdminCall, AdminRoute, Nothing, PageView
from strowger_gateway.gateway.platform.language import sentence, words_of

say = words_of(__file__)


class CapsView(Struct, frozen=True, kw_only=True):
    """caps: in the order of the configuration; spend is that of all gateways."""

    caps: tuple[CapStanding, ...]


async def caps(call: AdminCall[Nothing]) -> CapsView:
    """Return what this process knows, which is at most a few seconds old."""
    return CapsView(caps=call.side(SpendCapsSide).standings)


ROUTE: Final = AdminRoute(
    method="GET",
    path="/spend-caps",
    role="viewer",
    summary="How far the spend caps of providers are used up, in all gateways",
    takes=Nothing,
    returns=CapsView,
    answer=caps,
)

_TABLE: Final = say.template("""<section class="card table plain" aria-label="[[Spend caps]]">
<table><thead><tr><th scope="col">[[Provider]]</th><th scope="col">[[Models]]</th>
<th scope="col" class="n">[[Spent]]</th><th scope="col" class="n">[[Cap]]</th>
<th scope="col">[[State]]</th><th scope="col">[[Begins again]]</th></tr></thead>
<tbody>{rows}</tbody></table></section>
""")
_ROW: Final = say.template("""<tr>
<th scope="row"><a href="/admin/view/spend?by=provider">{provider}</a></th>
<td data-label="[[Models]]">{models}</td>
<td data-label="[[Spent]]" class="n">${spent}</td>
<td data-label="[[Cap]]" class="n">${cap}</td>
<td data-label="[[State]]"><span class="state {tone}">{state}</span></td>
<td data-label="[[Begins again]]">{resets}</td></tr>
""")
_NONE: Final = say.template("""<section><p class="empty">[[No provider has a spend cap.]]
<code>providers[].spend_caps</code></p></section>""")
_PERIODS: Final = {
    "day": sentence("per day"),
    "week": sentence("per week"),
    "month": sentence("per month"),
    "total": sentence("in total"),
}


async def render(call: AdminCall[Nothing]) -> Markup:
    """Return a table of the caps."""
    found = call.side(SpendCapsSide).standings
    if not found:
        return _NONE.format()
    return _TABLE.format(rows=Markup().join(map(_row, found)))


def _row(one: CapStanding) -> Markup:
    tone, state = "good", say("in use")
    if one.used_up:
        tone, state = "bad", say("used up, other backends serve")
    elif one.spent >= 0.8 * one.usd:
        tone = "warn"
    return _ROW.format(
        provider=one.provider,
        models=", ".join(one.models),
        spent=f"{one.spent:,.2f}",
        cap=f"{one.usd:,.2f} {say(_PERIODS[one.per])}",
        tone=tone,
        state=state,
        resets=say("never") if one.resets is None else _instant(one.resets),
    )


def _instant(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"


VIEW: Final = PageView(
    name="spend-caps",
    title=sentence("Spend caps"),
    say=say,
    group="spend",
    role="viewer",
    takes=Nothing,
    render=render,
)
