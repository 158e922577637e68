"""The budgets: spent, reserved and left, the forecast, and when they begin again."""

from datetime import UTC, datetime

from markupsafe import Markup

from strowger_gateway.gateway.console.admin.governance.markup import ago, dollars
from strowger_gateway.gateway.console.admin.page.formatting import NONE, count, share
from strowger_gateway.gateway.governance.budgets.report import BudgetOverview, BudgetStanding
from strowger_gateway.gateway.platform.language import sentence, words_of
from strowger_gateway.gateway.storage.sql.spend_rows import NANOS

say = words_of(__file__)

_SECTION = say.template("""
<section id="budgets" aria-label="[[Budgets]]">
{form}
<div class="card table plain">{table}</div>
{more}
</section>
""")
_TABLE = say.template("""<table>
<thead><tr><th scope="col">[[Budget]]</th><th scope="col">[[Used]]</th>
<th scope="col" class="n">[[Spent]]</th><th scope="col" class="n">[[Reserved]]</th>
<th scope="col" class="n">[[Left]]</th><th scope="col" class="n">[[Budget]]</th>
<th scope="col" class="n">[[Forecast]]</th><th scope="col">[[Begins again]]</th></tr></thead>
<tbody>{rows}</tbody>
</table>""")
_ROW = say.template("""<tr>
<th scope="row">{name}{subject}</th>
<td data-label="[[Used]]">{bar}</td>
<td data-label="[[Spent]]" class="n">{spent}</td>
<td data-label="[[Reserved]]" class="n">{reserved}</td>
<td data-label="[[Left]]" class="n">{left}</td>
<td data-label="[[Budget]]" class="n">{limit}</td>
<td data-label="[[Forecast]]" class="n">{forecast}</td>
<td data-label="[[Begins again]]">{resets}</td>
</tr>""")
_SUBJECT = Markup(' <span class="tag">{}</span>')
_BAR = Markup(
    '<span class="use"><meter min="0" max="{max}" value="{value}" high="{high}" optimum="0">'
    '</meter> <span class="{tone}">{share}</span></span>'
)
_OVER = Markup('<span class="state {}">{}</span>')
_MORE = say.template(
    """<p class="quiet">[[{:,} more subjects, which used less, are not shown.]]</p>"""
)
_NONE_OF_ONE = say.template("""<p class="empty">[[No budget applies.]]</p>""")
_NONE = say.template("""<p class="empty">[[There are no budgets. <code>budgets</code> in the
configuration caps what
keys, teams and users spend.]]</p>""")


_PERIODS = {
    "hour": sentence("hour"),
    "day": sentence("day"),
    "week": sentence("week"),
    "month": sentence("month"),
}


def budgets_section(overview: BudgetOverview, form: str = "", *, of_one: bool = False) -> Markup:
    """of_one: of one caller only."""
    rows = Markup().join(_row(one, overview.at) for one in overview.budgets)
    omitted = sum(overview.omitted.values())
    return _SECTION.format(
        form=form,
        table=_TABLE.format(rows=rows)
        if overview.budgets
        else _NONE_OF_ONE.format()
        if of_one
        else _NONE.format(),
        more=_MORE.format(omitted) if omitted else "",
    )


def meter(used: float, allowed: float) -> Markup:
    """A bar and a share in per cent."""
    tone = "bad" if used >= allowed else "warn" if used >= 0.8 * allowed else ""
    return _BAR.format(
        max=f"{allowed:.9g}",
        value=f"{min(used, allowed):.9g}",
        high=f"{0.8 * allowed:.9g}",
        tone=f"state {tone}" if tone else "",
        share=share(used, allowed),
    )


def _row(one: BudgetStanding, at: float) -> Markup:
    limit = _amount(one, one.limit)
    return _ROW.format(
        name=one.budget,
        subject=_SUBJECT.format(one.subject) if one.subject else "",
        bar=meter(one.spent + one.reserved, one.limit),
        spent=_amount(one, one.spent),
        reserved=_amount(one, one.reserved),
        left=_amount(one, one.left),
        limit=_per(limit, one.per),
        forecast=_forecast(one, at),
        resets=_resets(one, at),
    )


def _per(limit: str, per: str) -> str:
    if per == "total":
        return say("{amount} in total", amount=limit)
    return say("{amount} / {period}", amount=limit, period=say(_PERIODS.get(per, per)))


def _amount(one: BudgetStanding, value: float) -> str:
    return (
        dollars(round(value * NANOS))
        if one.unit == "usd"
        else say("{count} tokens", count=count(round(value)))
    )


def _forecast(one: BudgetStanding, at: float) -> str | Markup:
    """What will be spent, and when it is used up, which is marked."""
    text = NONE if one.forecast is None else _amount(one, one.forecast)
    if one.used_up_at is None:
        return text
    if one.used_up_at <= at:
        return _OVER.format("bad", say("{amount}, used up", amount=text))
    when = ago(datetime.fromtimestamp(one.used_up_at, UTC), datetime.fromtimestamp(at, UTC))
    return _OVER.format("warn", say.markup("{amount}, used up {when}", amount=text, when=when))


def _resets(one: BudgetStanding, at: float) -> str | Markup:
    if one.resets is None:
        return say("never")
    return ago(datetime.fromtimestamp(one.resets, UTC), datetime.fromtimestamp(at, UTC))
