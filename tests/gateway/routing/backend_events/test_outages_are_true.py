"""During an outage the gauge, the alerts, the page, the log and the events say the truth."""

import logging
import re
from pathlib import Path

import pytest
from msgspec import structs

from strowger_gateway.gateway.routing.resilience.breaker_snapshot import BreakerSnapshot
from tests.gateway.routing.backend_events.prometheus import Alert
from tests.gateway.routing.backend_events.simulated import BEGUN, CONFIG, Simulated, simulated

pytestmark = pytest.mark.anyio

SCRAPE_S = 15
CHAT = "chat: p/m"


class Observed:
    """What was seen at each scrape of an outage that begins after a minute of good answers."""

    def __init__(self, one: Simulated) -> None:
        self._one = one
        self.down, self.without = Alert("StrowgerBackendDown"), Alert("StrowgerModelDown")
        self.gauges: list[tuple[float, float]] = []
        self.fires: list[tuple[float, bool, bool]] = []
        self.bands: list[tuple[float, bool]] = []

    async def scrape(self, at: float) -> None:
        metrics = await self._one.metrics()
        mine = ("model", "chat")
        self.down.scrape(metrics, at)
        self.without.scrape(metrics, at)
        self.gauges.append((at, await self._one.gauge(CHAT)))
        self.fires.append(
            (
                at,
                any(mine in labels for labels in self.down.firing),
                any(mine in labels for labels in self.without.firing),
            )
        )
        self.bands.append((at, "chat · p/m" in await self._one.band()))


async def outage(
    one: Simulated, *, every_s: float, begins_s: float, ends_s: float, fails: int = 10_000
) -> Observed:
    """Attempts every so many seconds until 60 s after the outage; at most `fails` within it."""
    seen, began = Observed(one), one.clock.now
    at, next_attempt, next_scrape, left = 0.0, 0.0, 0.0, fails
    while at < ends_s + 120:
        one.clock.now = began + at
        if at >= next_attempt:
            next_attempt += every_s
            down = begins_s <= at < ends_s
            if not down or left > 0:
                left -= down
                one.attempt(CHAT, ok=not down)
        if at >= next_scrape:
            next_scrape += SCRAPE_S
            await seen.scrape(at)
        at = min(next_attempt, next_scrape)
    return seen


@pytest.mark.parametrize("every_s", [1.0, 60.0])
async def test_an_outage_under_traffic_is_seen_until_something_succeeds(
    every_s: float, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    begins_s, ends_s = 60.0, 1260.0
    with caplog.at_level(logging.INFO, "strowger.backends"):
        async with simulated(tmp_path) as one:
            seen = await outage(one, every_s=every_s, begins_s=begins_s, ends_s=ends_s)
            events = await one.events(model="chat")
            transitions = await one.metrics()

    third = begins_s + 2 * every_s
    back = next(at for at, value in seen.gauges if at >= ends_s and value)
    for at, value in seen.gauges:
        assert value == (0.0 if third <= at < back else 1.0), at
    assert back <= ends_s + max(every_s, 10.0) + SCRAPE_S
    assert [at for at, is_down in seen.bands if is_down] == [
        at for at, value in seen.gauges if not value
    ]
    told = third + 180.0 + SCRAPE_S
    for at, backend, model in seen.fires:
        if told <= at < ends_s:
            assert backend
            assert model
        if at < begins_s or at >= back:
            assert not backend
            assert not model
    kinds = [str(event["kind"]) for event in events]
    opened = ["circuit_opened"] if every_s == 1.0 else []
    closing = "circuit_closed" if opened else "recovered"
    assert kinds == ["failing", "no_backend", *opened, closing, "backend_again"]
    first, last = events[0], events[-2]
    assert first["since"] == pytest.approx(BEGUN + begins_s)
    assert (first["code"], first["message"]) == ("upstream_failed", "p: the server is on fire")
    assert last["duration_s"] == pytest.approx(ends_s - begins_s, abs=max(every_s, 10.0))
    lines = [(record.levelname, record.message) for record in caplog.records]
    assert len(lines) == len(events)
    assert lines[0][0] == "WARNING"
    assert "chat: p/m: failing" in lines[0][1]
    assert lines[-2][0] == "INFO"
    assert " after 20 min" in lines[-2][1]
    if opened:
        labels = 'backend="p/m",model="chat"'
        assert f'strowger_circuit_transitions_total{{{labels},to="open"}} 1.0' in transitions
        assert f'strowger_circuit_transitions_total{{{labels},to="closed"}} 1.0' in transitions


async def test_an_outage_after_which_nobody_asks_again_does_not_heal_by_itself(
    tmp_path: Path,
) -> None:
    async with simulated(tmp_path) as one:
        seen = await outage(one, every_s=1.0, begins_s=60.0, ends_s=1800.0, fails=13)
        page = await one.page()
        kinds = await one.kinds(model="chat")

    assert all(value == 0.0 for at, value in seen.gauges if 62.0 < at < 1800.0)
    assert all(backend for at, backend, _ in seen.fires if 300.0 < at < 1800.0)
    assert kinds[:3] == ["failing", "no_backend", "circuit_opened"]
    assert kinds[-1] == "backend_again"
    assert ">healthy<" in page


async def test_a_mirror_hides_no_outage_of_its_model(tmp_path: Path) -> None:
    mirrored = CONFIG.replace("{name: chat,", "{name: chat, mirror: {backend: q/m, share: 1},")
    async with simulated(tmp_path, mirrored) as one:
        seen = await outage(one, every_s=1.0, begins_s=60.0, ends_s=300.0)
        metrics, kinds = await one.metrics(), await one.kinds(model="chat")

    assert 'strowger_backend_available{backend="q/m (mirror)",model="chat"} 1.0' in metrics
    assert all(model for at, _, model in seen.fires if 150.0 < at < 300.0)
    assert "no_backend" in kinds


async def test_a_backend_that_was_never_tried_is_neither_down_nor_healthy(tmp_path: Path) -> None:
    async with simulated(tmp_path) as one:
        metrics, page = await one.metrics(), await one.page()
        one.attempt(CHAT, ok=True)
        after = await one.metrics()

    sample = 'strowger_backend_untried{backend="p/m",model="chat"}'
    assert 'strowger_backend_available{backend="p/m",model="chat"} 1.0' in metrics
    assert f"{sample} 1.0" in metrics
    assert f"{sample} 0.0" in after
    assert "not tried yet" in page
    assert ">healthy<" not in page
    assert 'class="problems " aria-label="What is wrong now" hidden' in page


async def test_a_cooldown_is_an_event_and_ends_by_itself(tmp_path: Path) -> None:
    async with simulated(tmp_path) as one:
        one.attempt(CHAT, ok=True)
        one.breaker(CHAT).cool_down(one.clock.now, 20.0, probe=False)
        during = await one.gauge(CHAT)
        one.clock.now += 21.0
        events = await one.events(model="chat")
        after = await one.gauge(CHAT)

    assert [event["kind"] for event in events] == ["cooldown", "no_backend", "backend_again"]
    assert events[0]["for_s"] == pytest.approx(20.0)
    assert events[2]["duration_s"] == pytest.approx(21.0)
    assert (during, after) == (0.0, 1.0)


async def test_a_model_with_another_backend_or_a_fallback_names_what_is_left(
    tmp_path: Path,
) -> None:
    async with simulated(tmp_path) as one:
        for _ in range(3):
            one.attempt("pair: p/m", ok=False)
        alone = await one.kinds(model="pair")
        head = await one.page()
        for _ in range(3):
            one.attempt("pair: q/m", ok=False)
        (without,) = await one.events(model="pair", kind="no_backend")
        band = await one.band()

    assert alone == ["failing"]
    assert "ready · 1 warning" in head
    assert without["fallback"] == ["chat"]
    assert "no backend works" in band
    assert "requests go to chat" in band


async def test_a_refused_account_is_down_until_something_succeeds(tmp_path: Path) -> None:
    async with simulated(tmp_path) as one:
        breaker = one.breaker(CHAT)
        breaker.refuse(one.clock.now, "r1", certain=True, retry_after=None, probe=False)
        one.clock.now += 3600.0
        later, band = await one.gauge(CHAT), await one.band()
        one.attempt(CHAT, ok=True)
        kinds = await one.kinds(model="chat", backend="p")

    assert later == 0.0
    assert "p/m: its vendor refuses the account or the model" in band
    assert "for 60 min" in band
    assert kinds == ["refused", "recovered"]
    async with simulated(tmp_path) as one:
        assert await one.gauge(CHAT) == 1.0


async def test_a_wildcard_is_down_when_no_name_succeeds_and_up_when_any_does(
    tmp_path: Path,
) -> None:
    wild = "any/*: q/*"
    async with simulated(tmp_path) as one:
        one.attempt(wild, ok=True, name="good")
        for name in ("bad", "bad", "worse"):
            one.attempt(wild, ok=False, name=name)
        down = await one.gauge(wild)
        one.attempt(wild, ok=True, name="good")
        up = await one.gauge(wild)
        for _ in range(12):
            one.attempt(wild, ok=False, name="<b>bad</b>")
        opened = await one.events(kind="circuit_opened")
        one.attempt(wild, ok=True, name="good")
        band, still = await one.band(), await one.gauge(wild)
        metrics = await one.metrics()

    assert (down, up, still) == (0.0, 1.0, 1.0)
    assert [event["requested"] for event in opened] == ["<b>bad</b>"]
    assert "down for &lt;b&gt;bad&lt;/b&gt;" in band
    assert "bad" not in metrics, "clients choose the names"


async def test_a_client_that_invents_names_hides_no_other_outage(tmp_path: Path) -> None:
    async with simulated(tmp_path) as one:
        for _ in range(3):
            one.attempt(CHAT, ok=False)
        for place in range(4500):
            name = f"invented-{place}"
            for _ in range(3):
                one.attempt("any/*: q/*", ok=False, name=name)
        one.attempt(CHAT, ok=True)
        found = await one.kinds(model="chat")

    assert found == ["failing", "no_backend", "recovered", "backend_again"]


async def test_a_backend_that_flaps_writes_few_lines_and_says_how_many_it_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "strowger.backends"):
        async with simulated(tmp_path) as one:
            for _ in range(200):
                one.clock.now += 1.0
                one.attempt("pair: p/m", ok=True)
                for _ in range(3):
                    one.attempt("pair: p/m", ok=False)
            events = await one.events(model="pair")
            metrics = await one.metrics()

    assert len(events) <= 7 * (200 / 60 + 1)
    assert len(caplog.records) == len(events)
    assert sum(int(str(event["left_out"])) for event in events) + len(events) >= 300
    assert "more changes before it are not logged" in caplog.text
    labels = re.escape('backend="p/m",model="pair"')
    counted = re.findall(f"strowger_circuit_transitions_total{{{labels},to=.*}} (.*)", metrics)
    assert sum(map(float, counted)) >= 399, "each fall and each rise"


async def test_events_are_filtered_and_unknown_filters_are_named(tmp_path: Path) -> None:
    async with simulated(tmp_path) as one:
        for _ in range(3):
            one.attempt("pair: q/m", ok=False)
        one.clock.now += 100.0
        for _ in range(3):
            one.attempt(CHAT, ok=False)
        found = {
            "model": await one.kinds(model="pair"),
            "provider": await one.kinds(backend="q"),
            "backend": await one.kinds(backend="p/m"),
            "kind": await one.kinds(kind="no_backend"),
            "since": await one.kinds(since=str(BEGUN + 50.0)),
            "limit": await one.kinds(limit="1"),
        }
        unknown = await one.client.get("/admin/events", params={"modle": "x"})
        wrong = await one.client.get("/admin/events", params={"kind": "opened"})
        stranger = await one.client.get("/admin/events", headers={"authorization": ""})

    assert found == {
        "model": ["failing"],
        "provider": ["failing"],
        "backend": ["failing"],
        "kind": ["no_backend"],
        "since": ["failing", "no_backend"],
        "limit": ["no_backend"],
    }
    assert (unknown.status_code, wrong.status_code, stranger.status_code) == (400, 400, 401)
    assert "kind: 'opened' is not a kind of event" in wrong.json()["error"]["message"]


async def test_a_circuit_that_other_gateways_open_and_close_is_an_event_here_too(
    tmp_path: Path,
) -> None:
    async with simulated(tmp_path) as one:
        at, breaker = one.clock.now, one.breaker(CHAT)
        opened = BreakerSnapshot(
            at=at,
            open_until=at + 5.0,
            cooldown_s=5.0,
            retry_after_until=float("-inf"),
            last_failure=at,
            seen_by=3,
        )
        breaker.merge(opened)
        down = await one.gauge(CHAT)
        one.clock.now += 60.0
        breaker.merge(structs.replace(opened, at=at + 60.0, open_until=None, seen_by=0))
        up, events = await one.gauge(CHAT), await one.events(model="chat")

    assert (down, up) == (0.0, 1.0)
    kinds = [event["kind"] for event in events]
    assert kinds == ["circuit_opened", "no_backend", "circuit_closed", "backend_again"]
    assert events[0]["seen_by"] == 3
    assert events[2]["duration_s"] == pytest.approx(60.0)


async def test_a_reload_keeps_an_outage_and_a_changed_provider_ends_it(tmp_path: Path) -> None:
    async with simulated(tmp_path) as one:
        for _ in range(12):
            one.attempt(CHAT, ok=False)
        old = one.breaker(CHAT)
        one.clock.now += 30.0
        one.reload(CONFIG + "limits: [{name: all, who: {any: true}, requests: 9}]")
        kept = await one.gauge(CHAT)
        one.reload(CONFIG.replace("name: p, adapter: openai", "name: p, adapter: vllm"))
        changed, events = await one.gauge(CHAT), await one.events(model="chat")
        old.fail(one.clock.now, probe=False)  # a request that began before the reload
        late = await one.kinds(model="chat")

    assert (kept, changed) == (0.0, 1.0)
    assert [event["kind"] for event in events[3:]] == ["removed", "backend_again"]
    assert events[3]["duration_s"] == pytest.approx(30.0)
    assert late == [event["kind"] for event in events]


async def test_a_model_that_is_removed_during_its_outage_leaves_nothing_behind(
    tmp_path: Path,
) -> None:
    gone = "  - {name: chat, backends: [{provider: p, model: m}]}\n"
    async with simulated(tmp_path) as one:
        for _ in range(12):
            one.attempt(CHAT, ok=False)
        one.reload(CONFIG.replace(gone, "").replace("fallback: [chat], ", ""))
        metrics, band = await one.metrics(), await one.band()
        kinds = await one.kinds(model="chat")

    assert 'strowger_backend_available{backend="p/m",model="chat"}' not in metrics
    assert "chat" not in band
    assert kinds == ["failing", "no_backend", "circuit_opened", "removed", "backend_again"]
