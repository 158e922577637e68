"""The leader's list of events: each transition once, whichever processes report it."""

import asyncio
import logging

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from strowger_gateway.gateway.routing.backend_events import book as module
from strowger_gateway.gateway.routing.backend_events.book import KEPT, EventBook
from strowger_gateway.gateway.routing.backend_events.event import BackendEvent, Kind
from strowger_gateway.gateway.routing.backend_events.limiter import MOST
from strowger_gateway.gateway.routing.resilience.breaker_state import Phase

T = 1_800_000_000.0


def event(kind: Kind, phase: Phase = "up", at: float = 0.0, **more: object) -> BackendEvent:
    values = {"model": "chat", "backend": "p/m", **more}
    return BackendEvent(time=T + at, kind=kind, phase=phase, **values)  # pyright: ignore[reportArgumentType]


def kinds(book: EventBook) -> list[str]:
    return [one.event.kind for one in reversed(book.newest())]


def test_what_four_workers_report_is_one_event() -> None:
    book = EventBook()
    for _ in range(4):
        book.add(event("failing", "failing"))
    for _ in range(4):
        book.add(event("circuit_opened", "open"))
    for _ in range(4):
        book.add(event("circuit_closed"))

    assert kinds(book) == ["failing", "circuit_opened", "circuit_closed"]


def test_a_worker_that_knows_less_changes_nothing() -> None:
    book = EventBook()
    for one in (
        event("refused", "refused"),
        event("failing", "failing"),
        event("circuit_opened", "open"),
        event("failing", "failing"),
        event("recovered"),
        event("recovered"),
    ):
        book.add(one)

    assert kinds(book) == ["refused", "circuit_opened", "recovered"]


def test_a_circuit_that_closes_on_a_429_has_not_recovered_yet() -> None:
    book = EventBook()
    for one in (
        event("circuit_opened", "open"),
        event("circuit_closed", "failing"),
        event("recovered"),
    ):
        book.add(one)

    assert kinds(book) == ["circuit_opened", "circuit_closed", "recovered"]


def test_a_cooldown_that_is_prolonged_is_the_same_one() -> None:
    book = EventBook()
    for at, seconds in ((0.0, 10.0), (0.1, 10.0), (5.0, 10.0), (20.0, 10.0)):
        book.add(event("cooldown", at=at, for_s=seconds))

    assert [one.event.time - T for one in book.newest()] == [20.0, 0.0]


def test_replicas_and_models_are_separate_and_labels_have_no_addresses() -> None:
    book, registry = EventBook(), CollectorRegistry()
    registry.register(book)
    for place in ("p/m @ 10.0.0.7:8000", "p/m @ 10.0.0.8:8000"):
        for model in ("chat", "other"):
            book.add(event("failing", "failing", backend=place, model=model))

    text = generate_latest(registry).decode()
    assert len(book.newest()) == 4
    assert 'transitions_total{backend="p/m",model="chat",to="failing"} 2.0' in text
    assert "10.0.0" not in text


@pytest.mark.parametrize(
    ("begins", "ends"), [("no_backend", "backend_again"), ("check_failed", "check_passed")]
)
def test_an_outage_is_as_long_as_it_was_whichever_process_reports_its_end(
    begins: Kind, ends: Kind
) -> None:
    """One that was started in the middle of it knows of the last seconds only."""
    book = EventBook()
    for at in (0.0, 57.0):
        book.add(event(begins, "failing", at, backend=""))
    book.add(event(ends, at=60.0, backend="", duration_s=3.0))
    book.add(event(begins, "failing", 70.0, backend=""))
    book.add(event(ends, at=40.0, backend="", duration_s=5.0))

    listed = [one.event for one in reversed(book.newest())]
    assert [(one.kind, one.duration_s) for one in listed] == [
        (begins, None),
        (ends, 60.0),
        (begins, None),
        (ends, 5.0),
    ], "the clock that was set back decides nothing"


def test_the_list_is_bounded() -> None:
    book = EventBook()
    for place in range(2 * KEPT):
        book.add(event("failing", "failing", backend=f"p/{place}"))

    assert len(book.newest()) == KEPT
    assert book.newest(3)[0].event.backend == f"p/{2 * KEPT - 1}"


def test_a_client_that_invents_names_makes_no_outage_be_forgotten() -> None:
    book = EventBook()
    book.add(event("failing", "failing"))
    for place in range(5000):
        book.add(event("failing", "failing", backend="q/*", requested=f"invented-{place}"))
    book.add(event("failing", "failing"))
    book.add(event("recovered"))

    assert [one.event.kind for one in book.newest() if one.event.backend == "p/m"] == [
        "recovered",
        "failing",
    ]


@pytest.mark.anyio
async def test_the_last_of_too_many_events_follows_so_that_the_log_ends_with_the_truth(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "WINDOW_S", 0.01)
    book = EventBook()
    with caplog.at_level(logging.INFO, "strowger.backends"):
        for place in range(2 * MOST + 1):
            book.add(event("recovered") if place % 2 else event("failing", "failing"))
        book.add(event("recovered"))
        held = len(book.newest())
        await asyncio.sleep(0.1)

    last = book.newest(1)[0]
    assert held == MOST
    assert (last.event.kind, last.left_out) == ("recovered", MOST + 1)
    assert caplog.records[-1].message == (
        f"chat: p/m: works again ({MOST + 1} more changes before it are not logged)"
    )
