"""What was spent over time, by key, team, user, tag or model: a chart with budgets, and a table."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal
from urllib.parse import urlencode

from markupsafe import Markup
from msgspec import Struct

from strowger_gateway.gateway.config.schema.budgets import Budget
from strowger_gateway.gateway.console.admin.governance.markup import dollars, options, problem
from strowger_gateway.gateway.console.admin.page.formatting import count, share
from strowger_gateway.gateway.console.admin.page.line_chart import COLOURS, Line, Plot, draw
from strowger_gateway.gateway.governance.usage.periods import UsagePeriod
from strowger_gateway.gateway.governance.usage.report import UsageReport, UsageRow
from strowger_gateway.gateway.platform.language import sentence, words_of

say = words_of(__file__)

SpendBy = Literal[
    "team",
    "key",
    "user",
    "tag",
    "model",
    "provider",
    "backend",
    "client",
    "request_tag",
    "end_user",
]
SpendPer = Literal["day", "week", "month"]
BY: Final[Mapping[SpendBy, str]] = {
    "team": sentence("Team"),
    "key": sentence("Key"),
    "model": sentence("Model"),
    "user": sentence("User"),
    "tag": sentence("Tag"),
    "provider": sentence("Provider"),
    "backend": sentence("Backend"),
    "client": sentence("Client program"),
    "request_tag": sentence("Tag of the request"),
    "end_user": sentence("End user"),
}
PER: Final[Mapping[SpendPer, str]] = {
    "day": sentence("Days (30)"),
    "week": sentence("Weeks (13)"),
    "month": sentence("Months (12)"),
}
_BY_TITLES: Final[Mapping[SpendBy, str]] = {
    "team": sentence("By team"),
    "key": sentence("By key"),
    "model": sentence("By model"),
    "user": sentence("By user"),
    "tag": sentence("By tag"),
    "provider": sentence("By provider"),
    "backend": sentence("By backend"),
    "client": sentence("By client program"),
    "request_tag": sentence("By tag of the request"),
    "end_user": sentence("By end user"),
}
_FILTERS: Final[Mapping[SpendBy, str]] = {
    "team": "team",
    "key": "key",
    "model": "model",
    "backend": "backend",
    "client": "client",
    "request_tag": "tag",
}
"""How the page of requests names what a row is about."""
_PER_TITLES: Final[Mapping[SpendPer, str]] = {
    "day": sentence("US dollars per day"),
    "week": sentence("US dollars per week"),
    "month": sentence("US dollars per month"),
}
_WHOSE: Final = {
    "key": sentence("key"),
    "team": sentence("team"),
    "user": sentence("user"),
    "end_user": sentence("end user"),
}
PERIODS: Final[Mapping[SpendPer, int]] = {"day": 30, "week": 13, "month": 12}
LINES: Final = 6
MOST_SHOWN: Final = 200
_LEAST_TOP: Final = 0.01
"""Of the chart's axis, US dollars."""

_SECTION = say.template("""
<section id="spend" aria-labelledby="h-spend">
<h2 id="h-spend" class="hidden">[[Spend]]</h2>
{problem}
<form class="row filters" method="get" action="/admin/view/spend">
<label>[[By]] <select name="by">{by}</select></label>
<label>[[Over]] <select name="per">{per}</select></label>
<label>[[Time zone]] <input name="time_zone" value="{time_zone}" maxlength="64" autocomplete="off"
 spellcheck="false"></label>
<button class="primary">[[Show]]</button>
</form>
{body}
</section>
""")
_BODY = say.template("""
<dl class="tiles">{tiles}</dl>
<div class="plots one">{plot}</div>
<div class="card table plain">
<header><h3>{title}</h3><p class="facts">{facts}</p>
<a class="button" href="/admin/usage?{csv}" download="usage.csv">CSV</a></header>
{table}
</div>
""")
_TABLE = say.template("""<table>
<thead><tr><th scope="col">{by}</th><th scope="col" class="n">[[Spent]]</th>
<th scope="col" class="n">[[Share]]</th><th scope="col" class="n">[[Answers only]]</th>
<th scope="col" class="n">[[Requests]]</th><th scope="col" class="n">[[Tokens in]]</th>
<th scope="col" class="n">[[Tokens out]]</th></tr></thead>
<tbody>{rows}</tbody>
</table>""")
_ROW = say.template("""<tr>
<th scope="row">{key}{name}</th>
<td data-label="[[Spent]]" class="n">{spent}</td>
<td data-label="[[Share]]" class="n">{share}</td>
<td data-label="[[Answers only]]" class="n">{served}</td>
<td data-label="[[Requests]]" class="n">{requests}</td>
<td data-label="[[Tokens in]]" class="n">{prompt}</td>
<td data-label="[[Tokens out]]" class="n">{completion}</td>
</tr>""")
_KEY = Markup('<span class="key c{}" aria-hidden="true"></span>')
_TILE = Markup(
    '<div class="card tile"><dt>{title}</dt><dd><span class="big">{value}</span>'
    '<span class="more">{more}</span></dd></div>'
)
_LINK = Markup('<a href="/admin/view/requests?{}">{}</a>')
_EMPTY = say.template("""<p class="empty">[[Nothing was used in this time.]]</p>""")


class SpendPart(Struct, frozen=True, kw_only=True):
    """What the part shows.

    rows: the report by value. series: the report by period and value. parts: the periods.
    months: this one and the last, whatever `per` is.
    """

    by: SpendBy
    per: SpendPer
    time_zone: str
    rows: UsageReport | None = None
    series: UsageReport | None = None
    parts: Sequence[UsagePeriod] = ()
    budgets: Sequence[Budget] = ()
    months: "Months | None" = None
    refused: str = ""


class Months(Struct, frozen=True, kw_only=True):
    """What was spent, 10⁻⁹ US dollars: this month so far, last month by then, and all of that."""

    this: int
    last_by_now: int
    last: int


def spend_section(part: SpendPart) -> Markup:
    return _SECTION.format(
        problem=problem(part.refused),
        by=options({value: say(label) for value, label in BY.items()}, part.by),
        per=options({value: say(label) for value, label in PER.items()}, part.per),
        time_zone=part.time_zone,
        body=_body(part, part.rows, part.series) if part.rows and part.series else "",
    )


def _body(part: SpendPart, report: UsageReport, series: UsageReport) -> Markup:
    def order(row: UsageRow) -> tuple[int, int, str]:
        return -row.cost_nano_usd, -row.attempts, row.text(part.by)

    rows, total = sorted(report.rows, key=order), report.total
    tiles = (
        (say("Spent"), dollars(total.cost_nano_usd), _unpriced(total.unpriced)),
        (
            say("Requests"),
            count(total.requests),
            say("{count} attempts", count=count(total.attempts)),
        ),
        (say("Tokens"), count(total.prompt_tokens + total.completion_tokens), _tokens(report)),
        *_month_tile(part.months),
    )
    query = {"by": f"{part.per},{part.by}", "time_zone": part.time_zone, "format": "csv"}
    query["from"], query["to"] = report.begin.isoformat(), report.end.isoformat()
    facts = say("since {day}", day=report.begin.date().isoformat())
    if report.rows_overlap:
        facts += say(" · a request counts under each of its tags; shares are of the total")
    if len(rows) > MOST_SHOWN:
        facts += say(" · the first {shown} of {all:,}", shown=MOST_SHOWN, all=len(rows))
    return _BODY.format(
        tiles=Markup().join(
            _TILE.format(title=title, value=value, more=more) for title, value, more in tiles
        ),
        plot=draw(_plot(part, rows, series)),
        title=say(_BY_TITLES[part.by]),
        facts=facts,
        csv=urlencode(query),
        table=_table(part, rows, total.cost_nano_usd) if rows else _EMPTY.format(),
    )


def _table(part: SpendPart, rows: Sequence[UsageRow], total: int) -> Markup:
    lines = [
        _ROW.format(
            key=_KEY.format(place % COLOURS) if place < LINES else "",
            name=_linked(part, row.text(part.by)),
            spent=_cost(row.cost_nano_usd, row.unpriced),
            share=share(row.cost_nano_usd, total),
            served=_cost(row.served_nano_usd, row.served_unpriced),
            requests=count(row.requests),
            prompt=count(row.prompt_tokens),
            completion=count(row.completion_tokens),
        )
        for place, row in enumerate(rows[:MOST_SHOWN])
    ]
    return _TABLE.format(by=say(BY[part.by]), rows=Markup().join(lines))


def _plot(part: SpendPart, rows: Sequence[UsageRow], series: UsageReport) -> Plot:
    begin, half, end = (part.parts[place].label for place in (0, len(part.parts) // 2, -1))
    return Plot(
        name="spend",
        title=say(_PER_TITLES[part.per]),
        unit=say("{by}; the last one is not over", by=say(_BY_TITLES[part.by])),
        lines=(*_lines(part, rows, series), *_budget_lines(part, rows)),
        ago=(begin, half, end),
        says=lambda value: dollars(round(value * 1e9)),
        top=_LEAST_TOP,
    )


def _lines(part: SpendPart, rows: Sequence[UsageRow], series: UsageReport) -> Iterator[Line]:
    """The most expensive values, and the sum of all others."""
    shown = [row.text(part.by) for row in rows[:LINES]]
    cells: dict[str, dict[str, int]] = {name: {} for name in shown}
    others: dict[str, int] = {}
    for row in series.rows:
        cell = cells.get(row.text(part.by), others)
        cell[row.text(part.per)] = cell.get(row.text(part.per), 0) + row.cost_nano_usd
    for place, name in enumerate(shown):
        yield Line(label=_name(name), place=place, values=_values(part, cells[name]))
    if others and part.by not in ("tag", "request_tag"):
        yield Line(label=say("all others"), place=0, values=_values(part, others), tone="soft")


def _budget_lines(part: SpendPart, rows: Sequence[UsageRow]) -> Iterator[Line]:
    """A level line for each budget in US dollars that begins again with the chart's periods.

    It is a budget of a value that the chart shows, or of everyone.
    """
    shown = {row.text(part.by) for row in rows[:LINES]}
    for budget in part.budgets:
        if budget.usd is None or budget.per != part.per:
            continue
        who = budget.who
        own = {"key": who.key, "team": who.team, "user": who.user}.get(part.by)
        if own in shown or (who.any and budget.each in (None, part.by)):
            level = (budget.usd,) * len(part.parts)
            label = say("budget {name}", name=budget.name)
            if budget.each:
                label += say(" (each {whose})", whose=say(_WHOSE.get(budget.each, budget.each)))
            yield Line(label=label, place=0, values=level, tone="budget")


def _values(part: SpendPart, cells: Mapping[str, int]) -> tuple[float | None, ...]:
    return tuple(cells.get(one.label, 0) / 1e9 for one in part.parts)


def _name(value: str) -> str:
    return value or say("(none)")


def _linked(part: SpendPart, value: str) -> str | Markup:
    """The name, as a link to its requests where the page of requests has such a filter."""
    name = _FILTERS.get(part.by)
    if name is None or not value or part.rows is None:
        return _name(value)
    query = {name: value, "since": part.rows.begin.isoformat()}
    return _LINK.format(urlencode(query), value)


def _month_tile(months: Months | None) -> Sequence[tuple[str, str, str]]:
    if months is None:
        return ()
    change = ""
    if months.last_by_now:
        grown = (months.this - months.last_by_now) / months.last_by_now
        change = f" ({grown:+.0%})"
    return (
        (
            say("This month so far"),
            dollars(months.this),
            say(
                "{before} by then last month{change}, {all} in all of it",
                before=dollars(months.last_by_now),
                change=change,
                all=dollars(months.last),
            ),
        ),
    )


def _cost(nanos: int, unpriced: int) -> str:
    """Of attempts whose cost is unknown, a question mark."""
    if unpriced:
        return f"{dollars(nanos)} + ?" if nanos else "?"
    return dollars(nanos)


def _unpriced(attempts: int) -> str:
    return (
        say("{count} attempts of unknown cost", count=count(attempts))
        if attempts
        else say("in US dollars")
    )


def _tokens(report: UsageReport) -> str:
    total = report.total
    return say(
        "{prompt} in, {completion} out",
        prompt=count(total.prompt_tokens),
        completion=count(total.completion_tokens),
    )
