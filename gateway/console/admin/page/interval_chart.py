"""Confidence intervals over time as SVG: a band and a line per variant, around zero difference.

Early intervals are wide; the axis fits the latest ones, and what exceeds it is clipped.
"""

from collections.abc import Callable, Sequence

from markupsafe import Markup

from strowger_gateway.gateway.console.admin.page.line_chart import COLOURS, nice
from strowger_gateway.gateway.platform.language import words_of
from strowger_gateway.gateway.statistics.interval_history import Interval, Point

say = words_of(__file__)

_WIDTH, _HEIGHT = 600, 150
_ROOM = 1.6
"""The axis ends at this multiple of the last interval's farther end."""

_FIGURE = Markup("""
<figure class="plot" id="plot-{name}">
<figcaption><h4>{title}</h4><span class="unit">{unit}</span></figcaption>
<div class="axes">
<div class="y" aria-hidden="true"><span>{top}</span><span>0</span><span>{bottom}</span></div>
<svg class="cut" viewBox="0 0 {width} {height}" preserveAspectRatio="none" role="img"
 aria-labelledby="t-{name} d-{name}"><title id="t-{name}">{title}, {unit}</title>
<desc id="d-{name}">{summary}</desc>
<g class="grid"><path d="M0 0H{width}"/><path d="M0 {height}H{width}"/></g>
{bands}<path class="none" d="M0 {middle}H{width}"/></svg>
<div class="x" aria-hidden="true"><span>{ago}</span><span>{until}</span></div>
</div>
<ul class="legend">{legend}</ul>
</figure>
""")
_BAND = Markup('<path class="band c{0}" d="{1}"/><path class="line c{0}" d="{2}"/>')
_ENTRY = Markup(
    '<li><svg class="swatch" viewBox="0 0 16 4" aria-hidden="true">'
    '<path class="line c{colour}" d="M1 2H15"/></svg>'
    '<span class="name">{label}</span><span class="value">{last}</span></li>'
)


def draw_intervals(
    name: str,
    title: str,
    unit: str,
    points: Sequence[Point],
    variants: Sequence[str],
    *,
    says: Callable[[float], str],
    ago: str,
    until: str,
) -> Markup:
    """Render the chart. points: at least one. variants: treatments, in the order of their colours.

    ago, until: labels for the times of the first and the last point.
    """
    last = points[-1].intervals
    end = nice(_ROOM * max(max(abs(one.low), abs(one.high)) for one in last.values()) or 1.0)
    bands = [_band(points, variant, place % COLOURS, end) for place, variant in enumerate(variants)]
    legend = [
        _ENTRY.format(
            colour=place % COLOURS, label=variant, last=_interval_text(last[variant], says)
        )
        for place, variant in enumerate(variants)
        if variant in last
    ]
    return _FIGURE.format(
        name=name,
        title=title,
        unit=unit,
        top=says(end),
        bottom=says(-end),
        width=_WIDTH,
        height=_HEIGHT,
        middle=_HEIGHT // 2,
        summary="; ".join(
            f"{variant}: {_interval_text(one, says)}" for variant, one in last.items()
        ),
        bands=Markup().join(bands),
        ago=ago,
        until=until,
        legend=Markup().join(legend),
    )


def _band(points: Sequence[Point], variant: str, colour: int, end: float) -> Markup:
    known = [(one.time, one.intervals[variant]) for one in points if variant in one.intervals]
    if not known:
        return Markup()
    began, over = points[0].time, points[-1].time - points[0].time

    def at(time: float, value: float) -> str:
        x = (time - began) / over * _WIDTH if over else _WIDTH
        return f"{x:.1f} {(1 - value / end) * _HEIGHT / 2:.1f}"

    if len(known) == 1:
        known = [(began, known[0][1]), (points[-1].time, known[0][1])] if over else known * 2
    highs = [at(time, one.high) for time, one in known]
    lows = [at(time, one.low) for time, one in reversed(known)]
    middles = [at(time, one.difference) for time, one in known]
    return _BAND.format(colour, f"M{'L'.join(highs + lows)}Z", f"M{'L'.join(middles)}")


def _interval_text(one: Interval, says: Callable[[float], str]) -> str:
    return say(
        "{difference} ({low} to {high})",
        difference=says(one.difference),
        low=says(one.low),
        high=says(one.high),
    )
