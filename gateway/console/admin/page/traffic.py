"""The traffic section: six figures, four charts by backend, and which gateways they are of."""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

from markupsafe import Markup
from msgspec import Struct

from strowger_gateway.gateway.console.admin.page.formatting import ms, number, share
from strowger_gateway.gateway.console.admin.page.line_chart import Line, Plot, draw
from strowger_gateway.gateway.console.admin.traffic.choice import SHARES, Quantile, TrafficChoice
from strowger_gateway.gateway.console.admin.traffic.reader import Source, TrafficRead
from strowger_gateway.gateway.observability.telemetry.access_log import CELL_S
from strowger_gateway.gateway.platform.language import sentence, words_of
from strowger_gateway.gateway.storage.sql.traffic.counting import QuantileSketch, TrafficCell
from strowger_gateway.gateway.storage.sql.traffic.series import BackendSeries, by_time, total
from strowger_gateway.gateway.storage.sql.traffic.windows import (
    CELLS,
    IN_MEMORY,
    STEPS,
    Window,
    span_of,
)

say = words_of(__file__)

LINES = 12
"""Maximum number of backends in a chart, those with most attempts; the table has all."""

_RECENT_S = 30
"""Rates are of this long, or of a cell of the window if that is longer."""

_AGO: Final[dict[Window, tuple[str, str]]] = {
    "5m": (sentence("5 min ago"), sentence("2½ min")),
    "15m": (sentence("15 min ago"), sentence("7½ min")),
    "1h": (sentence("1 h ago"), sentence("30 min")),
    "24h": (sentence("24 h ago"), sentence("12 h")),
    "7d": (sentence("7 days ago"), sentence("3½ days")),
    "30d": (sentence("30 days ago"), sentence("15 days")),
}
_SOURCES: Final[dict[Source, str]] = {
    "all_gateways": sentence("All gateways that share the store."),
    "no_store": sentence("This gateway only: it has no store."),
    "store_away": sentence("This gateway only: the store does not answer."),
}
_LONG: Final = sentence("More than an hour back, only the store knows.")
_CLIENTS: Final = sentence("Only the store knows the traffic of a key or a team.")


class Traffic(Struct, frozen=True, kw_only=True):
    """The traffic of a window as of `now`, Unix seconds.

    order: backends as configured, which determines their colours.
    """

    choice: TrafficChoice
    now: float
    found: TrafficRead
    order: tuple[str, ...]
    in_flight: int

    @property
    def window(self) -> Window:
        return self.choice.window

    @property
    def step(self) -> int:
        """Seconds of a cell."""
        return STEPS[self.choice.window]


_TILE = Markup(
    '<div class="card tile"><dt>{title}</dt>'
    '<dd><span class="big">{value}</span> <span class="unit">{unit}</span>'
    '<span class="more{tone}">{more}</span></dd></div>'
)
_TRAFFIC = Markup("""
<section id="traffic" data-live aria-label="{title}">
<h2 class="hidden">{title}</h2>
<p class="quiet source">{source}</p>
<dl class="tiles">{tiles}</dl>
<div class="plots">{plots}</div>
</section>
""")
_LINK = Markup('<a href="{}">{}</a>')


_Reading = Callable[[TrafficCell | None, float, Quantile], float | None]


class _Kind(Struct, frozen=True, kw_only=True):
    """One chart. reading: the value of a cell (`None`: no traffic) that lasted so many seconds.

    unit: "" for the quantile that was chosen.
    """

    name: str
    title: str
    unit: str
    reading: _Reading
    says: Callable[[float], str]
    top: float


def traffic_section(traffic: Traffic) -> Markup:
    return _TRAFFIC.format(
        title=say("Traffic"),
        source=_source(traffic),
        tiles=_tiles(traffic),
        plots=_plots(traffic),
    )


def _source(traffic: Traffic) -> str:
    """Which gateways the figures are of, and what is missing without the store."""
    told = [say(_SOURCES[traffic.found.source])]
    if traffic.found.source != "all_gateways":
        if traffic.window not in IN_MEMORY:
            told.append(say(_LONG))
        if traffic.choice.only.of_whom:
            told.append(say(_CLIENTS))
    return " ".join(told)


def _tiles(traffic: Traffic) -> Markup:
    everything = total(cell for series in traffic.found.by_backend for cell in series.cells)
    seconds = max(_RECENT_S, traffic.step)
    recent = total(
        cell
        for series in traffic.found.by_backend
        for cell in series.cells
        if traffic.now - seconds - CELL_S < cell.time <= traffic.now - CELL_S
    )
    first, whole = QuantileSketch(everything.ttft), QuantileSketch(everything.latency)
    requests = everything.requests
    bad = everything.errors
    tokens = recent.prompt_tokens + recent.completion_tokens
    spent = _covered(traffic, seconds)
    rows = [
        (
            say("Requests"),
            number(recent.requests / spent),
            say("/ s"),
            _requests(traffic, "", say("{count:,} total", count=requests)),
            "",
        ),
        (say("Errors"), share(bad, requests), "", _errors_of(traffic, everything), _tone(bad)),
        (say("Time to first token"), ms(first.quantile(0.5)), "p50", _slow(first), ""),
        (say("Latency"), ms(whole.quantile(0.5)), "p50", _slow(whole), ""),
        (say("In flight"), f"{traffic.in_flight:,}", "", say("now, this gateway"), ""),
        (say("Tokens"), number(tokens / spent), say("/ s"), _tokens(everything), ""),
    ]
    return Markup().join(
        _TILE.format(title=title, value=value, unit=unit, more=more, tone=tone)
        for title, value, unit, more, tone in rows
    )


def _tone(bad: int) -> str:
    return " bad" if bad else ""


def _covered(traffic: Traffic, seconds: int) -> float:
    """How many of the last seconds the cells that are counted for rates have lasted so far."""
    oldest = traffic.now - seconds - CELL_S
    begun = int(oldest // traffic.step + 1) * traffic.step
    last = int((traffic.now - CELL_S) // traffic.step) * traffic.step
    return max(min(last + traffic.step, traffic.now) - begun, CELL_S)


def _errors_of(traffic: Traffic, cell: TrafficCell) -> Markup:
    """Whose errors they are, each with a link to its requests."""
    told = [_requests(traffic, "error", say("{count} of backends", count=f"{cell.errors:,}"))]
    if cell.client_errors:
        told.append(
            _requests(
                traffic, "client_error", say("{count} of clients", count=f"{cell.client_errors:,}")
            )
        )
    if cell.refused:
        told.append(
            _requests(traffic, "refused", say("{count} refused", count=f"{cell.refused:,}"))
        )
    return Markup(", ").join(told)


def _requests(traffic: Traffic, status: str, text: str) -> Markup:
    return _LINK.format(traffic.choice.requests(status), text)


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
    begin, half = _AGO[traffic.window]
    return Markup().join(
        draw(
            Plot(
                name=kind.name,
                title=say(kind.title),
                unit=say(kind.unit) if kind.unit else traffic.choice.quantile,
                lines=(
                    *(_line(traffic, kind, one, cells) for one, cells in by_backend.items()),
                    *(_failures(traffic) if kind.reading is _answered else ()),
                ),
                ago=(say(begin), say(half), say("now")),
                says=kind.says,
                top=kind.top,
                times=_times(traffic),
            )
        )
        for kind in _KINDS
    )


def _times(traffic: Traffic) -> tuple[str, ...]:
    """When each cell begins, in UTC, as precisely as the window needs."""
    begin, _ = span_of(traffic.window, traffic.now)
    form = {5: "%H:%M:%S", 15: "%H:%M:%S", 60: "%H:%M", 900: "%d %b %H:%M"}
    told = form.get(traffic.step, "%d %b %H:%M")
    return tuple(
        f"{datetime.fromtimestamp(begin + traffic.step * place, UTC):{told}} UTC"
        for place in range(CELLS[traffic.window])
    )


def _line(traffic: Traffic, kind: _Kind, backend: str, cells: Mapping[int, TrafficCell]) -> Line:
    place = traffic.order.index(backend) if backend in traffic.order else len(traffic.order)
    return Line(label=backend, place=place, values=_values(traffic, kind.reading, cells))


def _values(
    traffic: Traffic, reading: _Reading, cells: Mapping[int, TrafficCell]
) -> tuple[float | None, ...]:
    """One value per cell; the last, incomplete cell is left out while it is too short."""
    step, quantile = traffic.step, traffic.choice.quantile
    begin, _ = span_of(traffic.window, traffic.now)
    times = [begin + step * place for place in range(CELLS[traffic.window])]
    elapsed = traffic.now - times[-1]
    values = [reading(cells.get(time), step, quantile) for time in times[:-1]]
    if elapsed >= CELL_S:
        values.append(reading(cells.get(times[-1]), elapsed, quantile))
    return tuple(values)


def _failures(traffic: Traffic) -> Iterator[Line]:
    """Lines for requests that no backend answered, if there are any."""
    cells = by_time(traffic.found.by_backend, lambda series: True)
    everything = total(cells.values())
    if everything.errors:
        values = _values(traffic, _errors, cells)
        yield Line(label=say("errors"), place=0, values=values, tone="bad")
    if everything.client_errors:
        values = _values(traffic, _client_errors, cells)
        yield Line(label=say("errors of clients"), place=0, values=values, tone="warn")
    if everything.refused:
        values = _values(traffic, _refused, cells)
        yield Line(label=say("refused"), place=0, values=values, tone="soft")


def _by_backend(traffic: Traffic) -> dict[str, Mapping[int, TrafficCell]]:
    """The backends in the charts, in the order of the configuration."""
    attempts = dict.fromkeys(traffic.order, 0)
    for series in traffic.found.by_backend:
        if series.backend:
            made = sum(cell.attempts for cell in series.cells)
            attempts[series.backend] = attempts.get(series.backend, 0) + made
    busiest = sorted(attempts, key=lambda name: attempts[name], reverse=True)[:LINES]
    return {
        name: by_time(traffic.found.by_backend, _of(name))
        for name in attempts
        if name in busiest and attempts[name]
    }


def _of(backend: str) -> Callable[[BackendSeries], bool]:
    return lambda series: series.backend == backend


def _answered(cell: TrafficCell | None, seconds: float, quantile: Quantile) -> float | None:
    """Includes requests whose client disconnected, because a backend was answering."""
    if cell is None:
        return 0.0
    return (cell.requests - cell.errors - cell.client_errors - cell.refused) / seconds


def _errors(cell: TrafficCell | None, seconds: float, quantile: Quantile) -> float | None:
    return cell.errors / seconds if cell else 0.0


def _client_errors(cell: TrafficCell | None, seconds: float, quantile: Quantile) -> float | None:
    return cell.client_errors / seconds if cell else 0.0


def _refused(cell: TrafficCell | None, seconds: float, quantile: Quantile) -> float | None:
    return cell.refused / seconds if cell else 0.0


def _failed(cell: TrafficCell | None, seconds: float, quantile: Quantile) -> float | None:
    return 100 * cell.failed / cell.attempts if cell and cell.attempts else None


def _first(cell: TrafficCell | None, seconds: float, quantile: Quantile) -> float | None:
    return QuantileSketch(cell.ttft).quantile(SHARES[quantile]) if cell else None


def _latency(cell: TrafficCell | None, seconds: float, quantile: Quantile) -> float | None:
    return QuantileSketch(cell.latency).quantile(SHARES[quantile]) if cell else None


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
        unit="",
        reading=_first,
        says=ms,
        top=10.0,
    ),
    _Kind(
        name="latency",
        title=sentence("Latency"),
        unit="",
        reading=_latency,
        says=ms,
        top=10.0,
    ),
)
