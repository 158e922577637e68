"""Views of the requests, by what they filter, and how long each takes: page, attempts, totals."""

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from benchmarks.request_log.made_up import DAY_S, NEWEST
from strowger_gateway.gateway.storage.sql.request_log.filters import RequestFilter
from strowger_gateway.gateway.storage.sql.request_log.search import RequestSearch

PAGE: Final = 50

FILTERS: Final[Mapping[str, tuple[RequestFilter, ...]]] = {
    "none": (RequestFilter(),),
    "status": tuple(
        RequestFilter(status=one)
        for one in (
            "ok",
            "failed",
            "error",
            "client_error",
            "refused",
            "4xx",
            "5xx",
            "429",
            "499",
            "418",
            "200",
        )
    ),
    "error": tuple(RequestFilter(error=one) for one in ("upstream_failed", "teapot", "none-such")),
    "model": tuple(RequestFilter(model=one) for one in ("model-0", "model-rare", "an-alias", "x")),
    "backend": tuple(
        RequestFilter(backend=one)
        for one in ("vendor-0/model-0", "vendor/rare", "vendor-9/broken", "x/y")
    ),
    "key": tuple(
        RequestFilter(key=one) for one in ("team-0-key-0", "team-rare-key-0", "team-old-key-0", "x")
    ),
    "team": tuple(RequestFilter(team=one) for one in ("team-0", "team-rare", "team-old", "x")),
    "tag": tuple(RequestFilter(tag=one) for one in ("nightly", "rare", "none-such")),
    "client": tuple(RequestFilter(client=one) for one in ("curl", "openai-python", "rare", "x")),
    "end user": tuple(RequestFilter(end_user=one) for one in ("000003e8", "none-such")),
    "experiment": (
        RequestFilter(experiment="trial"),
        RequestFilter(experiment="trial", variant="control"),
        RequestFilter(experiment="trial-rare"),
    ),
    "id": tuple(
        RequestFilter(id=one)
        for one in ("client-999000", f"{int(NEWEST * 1000):012x}"[:9], "no-id-")
    ),
    "surface": tuple(RequestFilter(surface=one) for one in ("openai", "kserve", "none-such")),
    "stream": (RequestFilter(stream=True), RequestFilter(stream=False)),
    "payload": (RequestFilter(payload=True), RequestFilter(payload=False)),
    "team, failed": tuple(
        RequestFilter(team=one, status="failed") for one in ("team-0", "team-rare", "team-old", "x")
    ),
    "model, failed": tuple(
        RequestFilter(model=one, status="failed") for one in ("model-0", "model-14", "model-rare")
    ),
    "backend, failed": tuple(
        RequestFilter(backend=one, status="5xx")
        for one in ("vendor-0/model-0", "vendor-9/broken", "vendor/rare")
    ),
    "key, model": (
        RequestFilter(key="team-0-key-0", model="model-0"),
        RequestFilter(key="team-0-key-0", model="model-rare"),
        RequestFilter(key="team-39-key-0", model="model-14"),
    ),
    "team, model, stream": (
        RequestFilter(team="team-0", model="model-0", stream=True),
        RequestFilter(team="team-1", model="model-14", stream=False),
        RequestFilter(team="team-old", model="model-0", stream=True),
    ),
    "team, model of others": (RequestFilter(team="team-0", model="model-rare"),),
}

_SPANS: Final = (
    (None, None),
    (NEWEST - 3_600.0, None),
    (NEWEST - DAY_S, NEWEST - 0.5 * DAY_S),
    (NEWEST - 13 * DAY_S, NEWEST - 12.5 * DAY_S),
    (None, NEWEST - 13 * DAY_S),
)


class Timed(Struct, frozen=True, kw_only=True):
    """Seconds of the views with one kind of filter, and the slowest of them."""

    name: str
    seconds: list[float]
    slowest: RequestFilter

    def quantile(self, share: float) -> float:
        ordered = sorted(self.seconds)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def timed(search: RequestSearch, rounds: int) -> Iterator[Timed]:
    """Time every filter in every span, the first page and the next."""
    for name, filters in FILTERS.items():
        seconds = list[float]()
        slow, slowest = 0.0, filters[0]
        for wanted, (since, until) in product(filters, _SPANS):
            view = replace(wanted, since=since, until=until)
            following = search.page(view, PAGE).next
            took = _least(rounds, partial(_first, search, view))
            seconds.append(took)
            if took > slow:
                slow, slowest = took, view
            if following is not None:
                seconds.append(_least(rounds, partial(search.page, view, PAGE, following)))
        yield Timed(name=name, seconds=seconds, slowest=slowest)


def _first(search: RequestSearch, wanted: RequestFilter) -> None:
    search.page(wanted, PAGE)
    search.totals(wanted)


def _least(rounds: int, work: Callable[[], object]) -> float:
    """Return the seconds of the fastest round: other work on the machine only adds to it."""
    took = list[float]()
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return min(took)
