"""The band at the top of the page: which backends are down, since when, and models without any."""

from collections.abc import Iterator, Sequence

from markupsafe import Markup
from msgspec import Struct

from strowger_gateway.gateway.console.admin.backends import BackendView, ModelView
from strowger_gateway.gateway.console.admin.page.formatting import span
from strowger_gateway.gateway.platform.language import words_of
from strowger_gateway.gateway.routing.backend_events.event import BackendEvent, ListedEvent

say = words_of(__file__)

SHOWN, NAMES = 12, 3
"""Backends in the band, and names of a wildcard that are listed."""

_DOWN = ("failing", "circuit_opened", "refused")
_BAND = say.template("""
<section id="outages" data-live class="problems{tone}" role="status"
 aria-label="[[Outages]]"{hidden}>
<ul>{rows}</ul>
</section>
""")
_ROW = Markup('<li><span class="state {tone}">{name}</span> {what}{cause}</li>')
_CAUSE = Markup(' <span class="quiet">{}</span>')


class Outages(Struct, frozen=True, kw_only=True):
    """What is down. without: models of which no backend works. down: backends, in any model."""

    without: tuple[ModelView, ...]
    down: tuple[tuple[ModelView, BackendView], ...]

    @property
    def mark(self) -> tuple[str, str] | None:
        """A tone and a label for the bar; `None` if nothing is down."""
        if self.without:
            many = len(self.without)
            if many == 1:
                return "bad", say("1 model has no backend left")
            return "bad", say("{count} models have no backend left", count=many)
        if self.down:
            many = len({backend.place for _, backend in self.down})
            if many == 1:
                return "warn", say("1 backend is down")
            return "warn", say("{count} backends are down", count=many)
        return None


def outages_of(models: Sequence[ModelView]) -> Outages:
    return Outages(
        without=tuple(
            model
            for model in models
            if model.backends and not any(backend.health.up for backend in model.backends)
        ),
        down=tuple(
            (model, backend)
            for model in models
            for backend in model.backends
            if backend.health.phase != "up" or backend.names_down
        ),
    )


def outages_section(outages: Outages, events: Sequence[ListedEvent]) -> Markup:
    """events: the newest first; the last one of each backend that is down has the cause."""
    rows = [*_without(outages), *_down(outages, [one.event for one in events])]
    return _BAND.format(
        tone=" bad" if outages.without else "",
        rows=Markup().join(rows),
        hidden="" if rows else Markup(" hidden"),
    )


def _without(outages: Outages) -> Iterator[Markup]:
    for model in outages.without:
        fallback = (
            say("; requests go to {names}", names=", ".join(model.fallback))
            if model.fallback
            else ""
        )
        known = [one.health.down_for_s for one in model.backends]
        lasts = [seconds for seconds in known if seconds is not None]
        what = (
            say("no backend works for {time}", time=span(min(lasts)))
            if len(lasts) == len(known)
            else say("no backend works now")
        )
        yield _ROW.format(tone="bad", name=model.name, what=what + fallback, cause="")


def _down(outages: Outages, events: Sequence[BackendEvent]) -> Iterator[Markup]:
    for model, backend in outages.down[:SHOWN]:
        cause = next(
            (
                f"{one.code}: {one.message}" if one.message else one.code
                for one in events
                if one.kind in _DOWN and (one.model, one.backend) == (model.name, backend.place)
            ),
            "",
        )
        yield _ROW.format(
            tone="warn",
            name=f"{model.name} · {backend.place}",
            what=_what(backend),
            cause=_CAUSE.format(cause) if cause else "",
        )
    if len(outages.down) > SHOWN:
        yield _ROW.format(
            tone="warn",
            name=say("and {count} more", count=len(outages.down) - SHOWN),
            what="",
            cause="",
        )


def _what(backend: BackendView) -> str:
    health = backend.health
    since = "" if health.down_for_s is None else say(" for {time}", time=span(health.down_for_s))
    match health.phase:
        case "open":
            if (many := health.failures_seen_by) > 1:
                return say(
                    "circuit open{since} on failures of {count} gateways", since=since, count=many
                )
            return say("circuit open{since}", since=since)
        case "refused":
            return say("account or model refused{since}", since=since)
        case "failing":
            return say("failing: no success{since}", since=since)
        case "up":
            names = ", ".join(backend.names_down[:NAMES])
            more = len(backend.names_down) - NAMES
            if more > 0:
                return say("down for {names} and {count} more names", names=names, count=more)
            return say("down for {names}", names=names)
