"""The budgets: spent, reserved and left, the forecast, and when they begin again."""

from collections.abc import Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from markupsafe import Markup

from gateway.admin.governance.markup import ago, dollars, problem
from gateway.admin.governance.measured import BudgetState
from gateway.admin.page.formatting import NONE, count, share

_SECTION = Markup("""
<section id="budgets" aria-labelledby="h-budgets">
<h2 id="h-budgets">Budgets</h2>
{problem}
<div class="card table plain">{table}</div>
</section>
""")
_TABLE = Markup("""<table>
<thead><tr><th scope="col">Budget</th><th scope="col">Used</th>
<th scope="col" class="n">Spent</th><th scope="col" class="n">Reserved</th>
<th scope="col" class="n">Left</th><th scope="col" class="n">Budget</th>
<th scope="col" class="n">Forecast</th><th scope="col">Begins again</th></tr></thead>
<tbody>{rows}</tbody>
</table>""")
_ROW = Markup("""<tr>
<th scope="row">{name}{subject}</th>
<td data-label="Used">{bar}</td>
<td data-label="Spent" class="n">{spent}</td>
<td data-label="Reserved" class="n">{reserved}</td>
<td data-label="Left" class="n">{left}</td>
<td data-label="Budget" class="n">{limit}</td>
<td data-label="Forecast" class="n">{forecast}</td>
<td data-label="Begins again">{resets}</td>
</tr>""")
_SUBJECT = Markup(' <span class="tag">{}</span>')
_BAR = Markup(
    '<span class="use"><meter min="0" max="{max}" value="{value}" high="{high}" optimum="0">'
    '</meter> <span class="{tone}">{share}</span></span>'
)
_OVER = Markup('<span class="state {}">{}</span>')
_NONE = Markup(
    '<p class="empty">There are no budgets. <code>budgets</code> in the configuration caps what '
    "keys, teams and users spend.</p>"
)


def budgets_section(states: Sequence[BudgetState], now: float, trouble: str = "") -> Markup:
    """now: Unix seconds."""
    rows = Markup().join(_row(one, now) for one in states)
    table = _TABLE.format(rows=rows) if states else _NONE
    return _SECTION.format(problem=problem(trouble), table=table if not trouble else "")


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


def _row(one: BudgetState, now: float) -> Markup:
    return _ROW.format(
        name=one.name,
        subject=_SUBJECT.format(one.subject) if one.subject else "",
        bar=meter(one.spent + one.reserved, one.limit),
        spent=_amount(one, one.spent),
        reserved=_amount(one, one.reserved),
        left=_amount(one, one.left),
        limit=f"{_amount(one, one.limit)} / {one.per}" if one.per != "total" else _total(one),
        forecast=_forecast(one, now),
        resets=_resets(one, now),
    )


def _total(one: BudgetState) -> str:
    return f"{_amount(one, one.limit)} in total"


def _amount(one: BudgetState, value: float) -> str:
    return dollars(round(value * 1e9)) if one.usd else f"{count(round(value))} tokens"


def _forecast(one: BudgetState, now: float) -> str | Markup:
    """Marked if it is more than the budget."""
    found = one.forecast(now)
    if found is None:
        return NONE
    text = _amount(one, found)
    return _OVER.format("warn", text) if found > one.limit else text


def _resets(one: BudgetState, now: float) -> str | Markup:
    if one.end is None:
        return "never"
    end = datetime.fromtimestamp(one.end, ZoneInfo(one.time_zone))
    return ago(end, datetime.fromtimestamp(now, UTC))
