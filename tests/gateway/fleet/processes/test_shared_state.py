"""Messages between processes, on values: configurations, breakers, loads, leases and counts."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge

from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.config.schema.failover import BreakerRule as Rule
from strowger_gateway.gateway.coordination.breaker_messages import (
    BreakerUpdate,
    LoadUpdate,
    ToWorker,
)
from strowger_gateway.gateway.coordination.probe_locks import FileLeases
from strowger_gateway.gateway.coordination.state_hub import GATHER_S, StateHub
from strowger_gateway.gateway.fleet.processes.messages import WorkerInit, frame, to_worker
from strowger_gateway.gateway.observability.telemetry.metric_snapshot import (
    merge,
    render,
    snapshot,
    without_gauges,
)
from strowger_gateway.gateway.routing.resilience.breaker_snapshot import BreakerSnapshot
from strowger_gateway.gateway.routing.resilience.circuit_breaker import Breaker
from strowger_gateway.local_engine.protocol.frames import HEAD_BYTES
from tests.gateway.config.configs import GOOD

RULE = Rule(min_requests=2, cooldown_s=10, max_cooldown_s=40)
PROBING = """
import sys
from pathlib import Path
from strowger_gateway.gateway.coordination.probe_locks import FileLeases
lease = FileLeases(Path(sys.argv[1])).lease("chat: one/m")
print("taken" if lease.acquire() else "refused", flush=True)
sys.stdin.read()
"""


def test_a_configuration_arrives_as_it_left_secrets_and_all() -> None:
    keyed = GOOD.replace("adapter: openai}", "adapter: openai, api_key: k}")
    config = read_config(keyed, source="config.yaml", env={})

    sent = frame(WorkerInit(worker=1, config=config, engines=(), run_dir=b"/run"))
    heard = to_worker.decode(sent[HEAD_BYTES:])

    assert isinstance(heard, WorkerInit)
    assert heard.config == config


def test_a_breaker_does_what_another_of_its_backend_has_learnt() -> None:
    one, other = Breaker(RULE), Breaker(RULE)
    for at in (1.0, 2.0):
        one.fail(at, probe=False)

    other.merge(one.snapshot())
    opened = (other.is_available(3.0), other.is_available(12.1))
    probe = other.begin(12.1)
    other.fail(12.2, probe=probe)
    one.merge(other.snapshot())

    assert opened == (False, True)
    assert probe
    assert not one.is_available(32.1)
    assert one.is_available(32.3)


def test_old_updates_undo_nothing_and_cooldowns_only_grow() -> None:
    one, other = Breaker(RULE), Breaker(RULE)
    one.cool_down(1.0, 5.0, probe=False)
    one.deprioritise(1.0, 0.5, probe=False)
    old = one.snapshot()
    other.cool_down(1.0, 9.0, probe=False)
    for at in (2.0, 3.0):
        other.fail(at, probe=False)

    other.merge(old)

    assert other.state(4.0) == "open"
    assert other.cooling_down(9.9)
    assert other.deprioritised_for(1.0) == one.deprioritised_for(1.0) > 0


def test_a_backends_restart_reaches_every_peer_that_received_its_failures() -> None:
    told: list[BreakerSnapshot] = []
    one, other, joining = Breaker(RULE), Breaker(RULE), Breaker(RULE)
    one.changed = lambda: told.append(one.snapshot())
    for at in (1.0, 2.0):
        one.fail(at, probe=False)
    other.merge(told[-1])

    one.reset(3.0)
    other.merge(told[-1])
    joining.merge(told[-1])

    assert [each.is_available(3.1) for each in (one, other, joining)] == [True] * 3


def test_a_lease_is_one_processs_and_free_again_when_that_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "probes.lock"
    leases = FileLeases(file)
    with subprocess.Popen(
        [sys.executable, "-c", PROBING, str(file)], stdin=-1, stdout=-1, text=True
    ) as holder:
        assert holder.stdout is not None
        taken = holder.stdout.readline().strip()
        meanwhile = leases.lease("chat: one/m").available()
        elsewhere = leases.lease("chat: other/m").acquire()
        holder.kill()
    after = leases.lease("chat: one/m").acquire()
    leases.close()

    assert (taken, meanwhile, elsewhere, after) == ("taken", False, True, True)


@pytest.mark.anyio
async def test_each_peer_receives_the_sum_of_the_others_and_their_end() -> None:
    hub = StateHub()
    told: dict[int, list[ToWorker]] = {0: [], 1: [], 2: []}
    for peer, heard in told.items():
        hub.join(peer, heard.append)

    hub.on_message(1, LoadUpdate(attempts={"a": 2}, in_flight=3, buffered=10))
    hub.on_message(2, LoadUpdate(attempts={"a": 1, "b": 1}, in_flight=1, buffered=0))
    await asyncio.sleep(GATHER_S * 2)
    first = told[0][-1]
    hub.leave(1)
    hub.on_message(2, LoadUpdate(attempts={"b": 0}, in_flight=1, buffered=0))
    await asyncio.sleep(GATHER_S * 2)

    assert first == LoadUpdate(attempts={"a": 3, "b": 1}, in_flight=4, buffered=10, processes=2)
    assert told[0][-1] == LoadUpdate(attempts={"a": 1, "b": 0}, in_flight=1, buffered=0)


@pytest.mark.anyio
async def test_a_peer_that_joins_later_receives_the_current_state() -> None:
    hub = StateHub()
    one, other, late = Breaker(RULE), Breaker(RULE), Breaker(RULE)
    told = list[ToWorker]()
    one.cool_down(1.0, 60.0, probe=False)
    other.deprioritise(1.0, 0.5, probe=False)

    for peer, breaker in enumerate((one, other)):
        hub.on_message(peer, BreakerUpdate(health={"chat: one/m": breaker.snapshot()}))
    hub.join(2, told.append)

    (news,) = told
    assert isinstance(news, BreakerUpdate)
    late.merge(news.health["chat: one/m"])
    assert late.cooling_down(60.9)
    assert late.deprioritised_for(1.0) == other.deprioritised_for(1.0) > 0


def test_counts_add_up_and_what_a_dead_process_counted_stays_without_its_gauges() -> None:
    def process(count: int, level: int) -> CollectorRegistry:
        registry = CollectorRegistry()
        Counter("c", "C.", ("k",), registry=registry).labels('x"').inc(count)
        Gauge("strowger_backend_available", "A.", registry=registry).set(level)
        return registry

    dead = without_gauges(snapshot(process(4, 0)))
    lines = render(merge((snapshot(process(1, 1)), snapshot(process(2, 1)), dead)))[0].decode()

    assert 'c_total{k="x\\""} 7.0' in lines
    assert "strowger_backend_available 1.0" in lines
