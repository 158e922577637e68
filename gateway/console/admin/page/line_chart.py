"""Line charts over time as SVG, stretched to fit; labels are HTML, so that they are not stretched.

Every value can be read: the pointer on a cell shows its values (a `<title>`), the table below has
all of them, and page.js adds a line that follows the pointer and the arrow keys.

Colours are classes of the style sheet (`c0` to `c5`, and some with a meaning); lines beyond the
sixth are also dashed, and the legend has each line's name and last value.
"""

from collections.abc import Callable, Sequence
from math import floor, log10
from typing import Literal

from markupsafe import Markup
from msgspec import Struct

from strowger_gateway.gateway.platform.language import words_of

say = words_of(__file__)

COLOURS = 6
_WIDTH, _HEIGHT = 600, 150
_STEPS = (1, 2, 4, 6, 8, 10)
"""Possible ends of an axis, times a power of ten: half of each is a short number."""


class Line(Struct, frozen=True, kw_only=True):
    """One line. values: one per cell, oldest first; `None` leaves a gap. place: its colour.

    tone: a colour with a meaning instead, for lines that are not of a backend.
    """

    label: str
    place: int
    values: tuple[float | None, ...]
    tone: Literal["", "bad", "warn", "soft", "budget"] = ""


class Plot(Struct, frozen=True, kw_only=True):
    """name: unique on the page. says: formats a value. top: least upper end of the axis.

    times: when each cell begins, for the table; () leaves it out.
    """

    name: str
    title: str
    unit: str
    lines: tuple[Line, ...]
    ago: tuple[str, str, str]
    says: Callable[[float], str]
    top: float
    times: tuple[str, ...] = ()


_FIGURE = Markup("""
<figure class="card plot" id="plot-{name}">
<figcaption><h3>{title}</h3><span class="unit">{unit}</span></figcaption>
<div class="axes"{readable}>
<div class="y" aria-hidden="true"><span>{top}</span><span>{half}</span><span>0</span></div>
<svg viewBox="0 0 {width} {height}" preserveAspectRatio="none" role="img"
 aria-labelledby="t-{name} d-{name}"><title id="t-{name}">{title}, {unit}</title>
<desc id="d-{name}">{summary}</desc>
<g class="grid">{grid}</g>{paths}{cells}</svg>
<div class="x" aria-hidden="true"><span>{a}</span><span>{b}</span><span>{c}</span></div>
</div>
<ul class="legend">{legend}</ul>
{table}
</figure>
""")
_CELL = Markup(
    '<rect x="{x:.1f}" y="0" width="{wide:.1f}" height="{high}"><title>{told}</title></rect>'
)
_TABLE = Markup("""<details class="values" id="values-{name}">
<summary>{summary}</summary>
<div class="scroll" tabindex="0" role="region" aria-label="{caption}"><table>
<caption class="unseen">{caption}</caption>
<thead><tr><th scope="col">{time}</th>{heads}</tr></thead>
<tbody>{rows}</tbody>
</table></div>
</details>""")
_HEAD = Markup('<th scope="col" class="n">{}</th>')
_ROW = Markup('<tr><th scope="row">{}</th>{}</tr>')
_VALUE = Markup('<td class="n">{}</td>')
_PATH = Markup('<path class="line {colour}" d="{d}"/>')
_ENTRY = Markup(
    '<li><svg class="swatch" viewBox="0 0 16 4" aria-hidden="true">'
    '<path class="line {colour}" d="M1 2H15"/></svg>'
    '<span class="name">{label}</span><span class="value">{last}</span></li>'
)


def draw(plot: Plot) -> Markup:
    """Render the figure; without any value, a sentence instead of lines."""
    top = nice(max([plot.top, *(value for line in plot.lines for value in _known(line))]))
    lasts = [(line, _last(line)) for line in plot.lines]
    summary = "; ".join(_describe(plot, line, last) for line, last in lasts)
    rows = _readings(plot)
    entries = [
        _ENTRY.format(
            colour=_colour(line),
            label=line.label,
            last=_value_text(plot, last),
        )
        for line, last in lasts
    ]
    nothing = Markup('<li class="quiet">{}</li>').format(say("No data in this window."))
    grid = [Markup('<path d="M0 {}H{}"/>').format(y * _HEIGHT // 4, _WIDTH) for y in range(5)]
    return _FIGURE.format(
        name=plot.name,
        title=plot.title,
        unit=plot.unit,
        top=plot.says(top),
        half=plot.says(top / 2),
        width=_WIDTH,
        height=_HEIGHT,
        summary=summary or say("no data"),
        readable=Markup(' data-plot="{}"').format(plot.name) if rows else "",
        cells=_cells(plot, rows),
        table=_table(plot, rows),
        grid=Markup().join(grid),
        paths=Markup().join(_path(line, top) for line in plot.lines),
        a=plot.ago[0],
        b=plot.ago[1],
        c=plot.ago[2],
        legend=Markup().join(entries) if entries else nothing,
    )


def _describe(plot: Plot, line: Line, last: float | None) -> str:
    most = max(_known(line), default=None)
    return say(
        "{line}: now {last}, max {most}",
        line=line.label,
        last=_value_text(plot, last),
        most=_value_text(plot, most),
    )


_Row = tuple[str, list[str]]


def _readings(plot: Plot) -> list[_Row]:
    """When each cell begins, and the value of each line as text; nothing without lines."""
    most = max((len(line.values) for line in plot.lines), default=0)
    return [
        (
            time,
            [
                _value_text(plot, line.values[place] if place < len(line.values) else None)
                for line in plot.lines
            ],
        )
        for place, time in enumerate(plot.times[:most])
    ]


def _cells(plot: Plot, rows: Sequence[_Row]) -> Markup:
    """A field around each value, with what is in it."""
    if not rows:
        return Markup()
    step = _WIDTH / max(len(rows) - 1, 1)
    fields = Markup().join(
        _CELL.format(
            x=max(place * step - step / 2, 0.0),
            wide=step,
            high=_HEIGHT,
            told="\n".join(
                [
                    time,
                    *(
                        f"{line.label}: {text}"
                        for line, text in zip(plot.lines, texts, strict=True)
                    ),
                ]
            ),
        )
        for place, (time, texts) in enumerate(rows)
    )
    return Markup('<g class="cells">{}</g>').format(fields)


def _table(plot: Plot, rows: Sequence[_Row]) -> Markup:
    if not rows:
        return Markup()
    return _TABLE.format(
        name=plot.name,
        summary=say("Table"),
        caption=f"{plot.title}, {plot.unit}",
        time=say("Time"),
        heads=Markup().join(_HEAD.format(line.label) for line in plot.lines),
        rows=Markup().join(
            _ROW.format(time, Markup().join(map(_VALUE.format, texts))) for time, texts in rows
        ),
    )


def _path(line: Line, top: float) -> Markup:
    """A stroke through neighbouring values; a single value is a dot (a stroke of no length)."""
    step = _WIDTH / max(len(line.values) - 1, 1)
    strokes: list[str] = []
    drawing = False
    for place, value in enumerate(line.values):
        if value is None:
            drawing = False
            continue
        at = f"{place * step:.1f} {_HEIGHT - min(value / top, 1.0) * _HEIGHT:.1f}"
        alone = not drawing and (place + 1 == len(line.values) or line.values[place + 1] is None)
        strokes.append(f"M{at}h0.1" if alone else f"{'L' if drawing else 'M'}{at}")
        drawing = True
    return _PATH.format(colour=_colour(line), d="".join(strokes))


def _colour(line: Line) -> str:
    if line.tone:
        return line.tone
    dashed = " dashed" if line.place // COLOURS % 2 else ""
    return f"c{line.place % COLOURS}{dashed}"


def _value_text(plot: Plot, value: float | None) -> str:
    return "–" if value is None else plot.says(value)


def _known(line: Line) -> list[float]:
    return [value for value in line.values if value is not None]


def _last(line: Line) -> float | None:
    """The newest value of the last twelve cells, if there is one."""
    recent = [value for value in line.values[-12:] if value is not None]
    return recent[-1] if recent else None


def nice(value: float) -> float:
    """The least of 1, 2, 4, 6, 8 and 10 times a power of ten that is at least `value`."""
    unit = 10.0 ** floor(log10(value))
    return next(step * unit for step in _STEPS if step * unit >= value * 0.999)
