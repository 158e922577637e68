"""The traffic section: six figures, and four charts by backend."""

from collections.abc import Callable, Iterator, Mapping

from markupsafe import Markup
from msgspec import Struct

from strowger_gateway.gateway.console.admin.page.formatting import ms, number, share
from strowger_gateway.gateway.console.admin.page.line_chart import Line, Plot, draw
from strowger_gateway.gateway.observability.telemetry.access_log import CELL_S
from strowger_gateway.gateway.observability.telemetry.time_series import (
    CELLS,
    STEPS,
    BackendSeries,
    QuantileSketch,
    TrafficCell,
    Window,
    by_time,
    total,
)
from strowger_gateway.gateway.platform.language import sentence, words_of

say = words_of(__file__)

LINES = 12
"""Maximum number of backends in a chart, those with most attempts; the table has all."""
_RECENT_S = 30
_SPAN: dict[Window, tuple[str, str, str]] = {
    "5m": (sentence("5 min ago"), sentence("2½ min"), sentence("now")),
    "15m": (sentence("15 min ago"), sentence("7½ min"), "now"),
    "1h": (sentence("1 h ago"), sentence("30 min"), "now"),
}


class Traffic(Struct, frozen=True, kw_only=True):
    """The traffic of a window as of `now`, Unix seconds.

    begin: of the first cell. order: backends as configured, which determines their colours.
    """

    window: Window
    now: float
    begin: int
    by_backend: tuple[BackendSeries, ...]
    order: tuple[str, ...]
    in_flight: int


_TILE = Markup(
    '<div class="card tile"><dt>{title}</dt>'
    '<dd><span class="big">{value}</span> <span class="unit">{unit}</span>'
    '<span class="more{tone}">{more}</span></dd></div>'
)
_TRAFFIC = say.template("""
<section id="traffic" data-live aria-label="[[Traffic]]">
<dl class="tiles">{tiles}</dl>
<div class="plots">{plots}</div>
</section>
""")


_Reading = Callable[[TrafficCell | None, float], float | None]


class _Kind(Struct, frozen=True, kw_only=True):
    """One chart. reading: the value of a cell (`None`: no traffic) that lasted so many seconds."""

    name: str
    title: str
    unit: str
    reading: _Reading
    says: Callable[[float], str]
    top: float


def traffic_section(traffic: Traffic) -> Markup:
    return _TRAFFIC.format(tiles=_tiles(traffic), plots=_plots(traffic))


def _tiles(traffic: Traffic) -> Markup:
    everything = total(cell for series in traffic.by_backend for cell in series.cells)
    seconds = max(_RECENT_S, STEPS[traffic.window])
    recent = total(
        cell
        for series in traffic.by_backend
        for cell in series.cells
        if traffic.now - seconds <= cell.time <= traffic.now - CELL_S
    )
    first, whole = QuantileSketch(everything.ttft), QuantileSketch(everything.latency)
    requests = everything.requests
    bad = everything.errors
    tokens = recent.prompt_tokens + recent.completion_tokens
    spent = max(seconds - CELL_S, CELL_S)
    rows = [
        (
            say("Requests"),
            number(recent.requests / spent),
            say("/ s"),
            say("{count:,} total", count=requests),
            "",
        ),
        (
            say("Errors"),
            share(bad, requests),
            "",
            say("{part:,} of {whole:,}", part=bad, whole=requests),
            " bad" if bad else "",
        ),
        (say("Time to first token"), ms(first.quantile(0.5)), "p50", _slow(first), ""),
        (say("Latency"), ms(whole.quantile(0.5)), "p50", _slow(whole), ""),
        (say("In flight"), f"{traffic.in_flight:,}", "", say("now"), ""),
        (say("Tokens"), number(tokens / spent), say("/ s"), _tokens(everything), ""),
    ]
    return Markup().join(
        _TILE.format(title=title, value=value, unit=unit, more=more, tone=tone)
        for title, value, unit, more, tone in rows
    )


def _slow(sketch: QuantileSketch) -> str:
    return f"p99 {ms(sketch.quantile(0.99))}" if sketch.counts else say("no responses yet")


def _tokens(cell: TrafficCell) -> str:
    return say(
        "{prompt:,} in, {completion:,} out",
        prompt=cell.prompt_tokens,
        completion=cell.completion_tokens,
    )


def _plots(traffic: Traffic) -> Markup:
    by_backend = _by_backend(traffic)
    return Markup().join(
        draw(
            Plot(
                name=kind.name,
                title=say(kind.title),
                unit=say(kind.unit),
                lines=(
                    *(_line(traffic, kind, one, cells) for one, cells in by_backend.items()),
                    *(_failures(traffic) if kind.reading is _answered else ()),
                ),
                ago=_labels(traffic.window),
                says=kind.says,
                top=kind.top,
            )
        )
        for kind in _KINDS
    )


def _labels(window: Window) -> tuple[str, str, str]:
    begin, middle, end = _SPAN[window]
    return say(begin), say(middle), say(end)


def _line(traffic: Traffic, kind: _Kind, backend: str, cells: Mapping[int, TrafficCell]) -> Line:
    place = traffic.order.index(backend) if backend in traffic.order else len(traffic.order)
    return Line(label=backend, place=place, values=_values(traffic, kind.reading, cells))


def _values(
    traffic: Traffic, reading: _Reading, cells: Mapping[int, TrafficCell]
) -> tuple[float | None, ...]:
    """One value per cell; the last, incomplete cell is left out while it is too short."""
    step = STEPS[traffic.window]
    times = [traffic.begin + step * place for place in range(CELLS)]
    elapsed = traffic.now - times[-1]
    values = [reading(cells.get(time), step) for time in times[:-1]]
    if elapsed >= CELL_S:
        values.append(reading(cells.get(times[-1]), elapsed))
    return tuple(values)


def _failures(traffic: Traffic) -> Iterator[Line]:
    """Lines for requests that no backend answered, if there are any."""
    cells = by_time(traffic.by_backend, lambda series: True)
    everything = total(cells.values())
    if everything.errors:
        yield Line(
            label=say("errors"), place=0, values=_values(traffic, _errors, cells), tone="bad"
        )
    if everything.refused:
        yield Line(
            label=say("refused"), place=0, values=_values(traffic, _refused, cells), tone="soft"
        )


def _by_backend(traffic: Traffic) -> dict[str, Mapping[int, TrafficCell]]:
    """The backends in the charts, in the order of the configuration."""
    attempts = dict.fromkeys(traffic.order, 0)
    for series in traffic.by_backend:
        if series.backend:
            made = sum(cell.attempts for cell in series.cells)
            attempts[series.backend] = attempts.get(series.backend, 0) + made
    busiest = sorted(attempts, key=lambda name: attempts[name], reverse=True)[:LINES]
    return {
        name: by_time(traffic.by_backend, _of(name))
        for name in attempts
        if name in busiest and attempts[name]
    }


def _of(backend: str) -> Callable[[BackendSeries], bool]:
    return lambda series: series.backend == backend


def _answered(cell: TrafficCell | None, seconds: float) -> float | None:
    """Includes requests whose client disconnected, because a backend was answering."""
    return (cell.requests - cell.errors - cell.refused) / seconds if cell else 0.0


def _errors(cell: TrafficCell | None, seconds: float) -> float | None:
    return cell.errors / seconds if cell else 0.0


def _refused(cell: TrafficCell | None, seconds: float) -> float | None:
    return cell.refused / seconds if cell else 0.0


def _failed(cell: TrafficCell | None, seconds: float) -> float | None:
    return 100 * cell.failed / cell.attempts if cell and cell.attempts else None


def _first(cell: TrafficCell | None, seconds: float) -> float | None:
    return QuantileSketch(cell.ttft).quantile(0.9) if cell else None


def _latency(cell: TrafficCell | None, seconds: float) -> float | None:
    return QuantileSketch(cell.latency).quantile(0.9) if cell else None


def _per_cent(value: float) -> str:
    return f"{number(round(value, 1))} %"


_KINDS = (
    _Kind(
        name="rate",
        title=sentence("Requests/s"),
        unit=sentence("by backend"),
        reading=_answered,
        says=number,
        top=1.0,
    ),
    _Kind(
        name="failed",
        title=sentence("Failed attempts"),
        unit=sentence("% of attempts"),
        reading=_failed,
        says=_per_cent,
        top=10.0,
    ),
    _Kind(
        name="first",
        title=sentence("Time to first token"),
        unit=sentence("p90"),
        reading=_first,
        says=ms,
        top=10.0,
    ),
    _Kind(
        name="latency",
        title=sentence("Latency"),
        unit=sentence("p90"),
        reading=_latency,
        says=ms,
        top=10.0,
    ),
)
