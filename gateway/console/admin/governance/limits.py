"""The limits: how much of each is used now, and how many requests it has refused."""

from collections.abc import Sequence
from math import ceil

from markupsafe import Markup

from strowger_gateway.gateway.console.admin.governance.budgets import meter
from strowger_gateway.gateway.console.admin.governance.measured import LimitState
from strowger_gateway.gateway.console.admin.page.formatting import NONE, count
from strowger_gateway.gateway.governance.limits.standing import LimitStanding
from strowger_gateway.gateway.platform.language import sentence, words_of

say = words_of(__file__)

MOST_SHOWN = 200
_WORDS = {
    "requests": sentence("requests"),
    "tokens": sentence("tokens"),
    "second": sentence("second"),
    "minute": sentence("minute"),
    "hour": sentence("hour"),
    "day": sentence("day"),
}
"""Of limits, as the configuration has them."""

_SECTION = say.template("""
<section id="limits" aria-label="[[Limits]]">
{form}
<div class="card table plain">{table}</div>
{more}
</section>
""")
_TABLE = say.template("""<table>
<thead><tr><th scope="col">[[Limit]]</th><th scope="col">[[Used now]]</th><th
 scope="col">[[Of]]</th>
<th scope="col" class="n">[[Used]]</th><th scope="col" class="n">[[Allowed]]</th>
<th scope="col" class="n">[[Refused]]</th></tr></thead>
<tbody>{rows}</tbody>
</table>""")
_ROW = say.template("""<tr>
<th scope="row">{name}{subject}</th>
<td data-label="[[Used now]]">{bar}</td>
<td data-label="[[Of]]">{quantity}</td>
<td data-label="[[Used]]" class="n">{used}</td>
<td data-label="[[Allowed]]" class="n">{allowed}</td>
<td data-label="[[Refused]]" class="n">{refused}</td>
</tr>""")
_OF_ONE = say.template("""<table>
<thead><tr><th scope="col">[[Limit]]</th><th scope="col">[[Used now]]</th><th
 scope="col">[[Of]]</th>
<th scope="col" class="n">[[Used]]</th><th scope="col" class="n">[[Reserved]]</th>
<th scope="col" class="n">[[Left]]</th><th scope="col" class="n">[[Allowed]]</th>
<th scope="col">[[All free again]]</th></tr></thead>
<tbody>{rows}</tbody>
</table>""")
_ROW_OF_ONE = say.template("""<tr>
<th scope="row">{name}{subject}</th>
<td data-label="[[Used now]]">{bar}</td>
<td data-label="[[Of]]">{quantity}</td>
<td data-label="[[Used]]" class="n">{used}</td>
<td data-label="[[Reserved]]" class="n">{reserved}</td>
<td data-label="[[Left]]" class="n">{left}</td>
<td data-label="[[Allowed]]" class="n">{allowed}</td>
<td data-label="[[All free again]]">{resets}</td>
</tr>""")
_NONE_OF_ONE = say.template("""<p class="empty">[[No limit applies.]]</p>""")
_MORE_OF_ONE = say.template("""<p class="quiet">[[Reserved is what processes have leased and not
used. Without an end user,
those that have used most of a limit are shown.]]</p>""")
_SUBJECT = Markup(' <span class="tag">{}</span>')
_IDLE = say.template("""<tr><th scope="row">{}</th><td data-label="[[Used now]]"
 class="quiet">[[not in use]]
</td><td></td><td></td><td></td><td></td></tr>""")
_NONE = say.template("""<p class="empty">[[There are no limits. <code>limits</code> in the
configuration caps how
many requests and tokens keys, teams and users may use.]]</p>""")
_MORE = say.template("""<p class="quiet">[[Use counts what processes have leased. Refused counts
requests since the
start, of all subjects of a limit.{}]]</p>""")


def limits_section(states: Sequence[LimitState], unused: Sequence[str], form: str = "") -> Markup:
    """unused: limits that no request has needed yet."""
    rows = [*map(_row, states[:MOST_SHOWN]), *map(_IDLE.format, unused[:MOST_SHOWN])]
    hidden = max(len(states) - MOST_SHOWN, 0) + max(len(unused) - MOST_SHOWN, 0)
    more = say(" {count:,} more subjects are not shown.", count=hidden) if hidden > 0 else ""
    table = _TABLE.format(rows=Markup().join(rows)) if rows else _NONE.format()
    return _SECTION.format(
        form=form,
        table=table,
        more=_MORE.format(more) if states else "",
    )


def limits_of_one(found: Sequence[LimitStanding], form: Markup) -> Markup:
    """The limits of one caller."""
    table = _OF_ONE.format(rows=Markup().join(map(_row_of_one, found)))
    return _SECTION.format(
        form=form,
        table=table if found else _NONE_OF_ONE.format(),
        more=_MORE_OF_ONE.format() if found else "",
    )


def _row_of_one(one: LimitStanding) -> Markup:
    resets_s = one.resets_s
    return _ROW_OF_ONE.format(
        name=one.limit,
        subject=_SUBJECT.format(one.subject) if one.subject else "",
        bar=meter(one.used + one.reserved, one.allowed),
        quantity=_quantity(one.quantity, one.per),
        used=count(one.used),
        reserved=count(one.reserved) if one.reserved else NONE,
        left=count(one.left) if one.left > 0 else "0",
        allowed=count(one.allowed),
        resets=NONE
        if resets_s is None
        else say("in {seconds:,} s", seconds=ceil(resets_s))
        if resets_s
        else say("now"),
    )


def _quantity(quantity: str, per: str) -> str:
    """per: "" for requests at once."""
    if not per:
        return say("requests at once")
    return say(
        "{quantity} per {per}",
        quantity=say(_WORDS.get(quantity, quantity)),
        per=say(_WORDS.get(per, per)),
    )


def _row(one: LimitState) -> Markup:
    return _ROW.format(
        name=one.name,
        subject=_SUBJECT.format(one.subject) if one.subject else "",
        bar=meter(one.used, one.allowed),
        quantity=_quantity(one.quantity, one.per),
        used=count(round(one.used)),
        allowed=count(round(one.allowed)),
        refused=count(round(one.refused)) if one.refused else NONE,
    )
