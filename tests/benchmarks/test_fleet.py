"""A simulated fleet: what must hold at every size, and whether its Redis limits as the real one."""

import random
from collections.abc import Generator
from time import time

import msgspec
import pytest

from benchmarks.fleet.redis import Redis
from benchmarks.fleet.run import Figures, Size, run
from strowger_gateway.gateway.coordination.redis_transport import RedisTransport
from strowger_gateway.gateway.governance.limits.over_gateways.limit_script import (
    SCRIPT,
    ScriptAnswer,
    ScriptItem,
    ScriptRequest,
)
from strowger_gateway.schemas.secret import Secret
from tests.stand_ins.redis_server import RedisServer, running_redis

GATEWAYS = 4


@pytest.fixture(scope="module")
def figures() -> Figures:
    return run(Size(gateways=GATEWAYS, replicas=16, seconds=36.0))


@pytest.fixture(scope="module")
def redis() -> Generator[RedisServer]:
    with running_redis() as server:
        yield server


def test_a_limit_is_exceeded_by_at_most_one_lease_of_each_worker(figures: Figures) -> None:
    assert figures.refused > 0
    assert figures.admitted <= figures.limit + GATEWAYS * figures.lease


def test_no_replica_gets_more_of_the_load_than_chance_would_give_it(figures: Figures) -> None:
    assert figures.spread <= 4.0 * figures.chance


def test_one_request_at_a_time_probes_a_replica_that_was_gone(figures: Figures) -> None:
    assert figures.attempts_down > 0
    assert figures.probes > 0
    assert figures.together == 1
    assert figures.back_s < 12.0


def test_a_fleet_opens_circuits_on_the_failures_of_all_gateways(figures: Figures) -> None:
    """Each gateway has a fourth of them; alone they need most of the outage."""
    assert figures.open_s < 5.0


def test_the_same_seed_gives_the_same_figures() -> None:
    size = Size(gateways=2, replicas=4, seconds=6.0)

    # as text, because a time that was not reached is not a number
    assert repr(run(size)) == repr(run(size))


@pytest.mark.anyio
@pytest.mark.parametrize("seed", range(3))
async def test_the_simulated_redis_limits_as_the_script_does(seed: int, redis: RedisServer) -> None:
    draws = random.Random(seed)
    simulated = Redis(time)
    held: dict[str, int] = dict.fromkeys("abc", 0)
    transport = RedisTransport(Secret(redis.url), "test")
    await transport.run([("FLUSHALL",)])

    for _ in range(200):
        holder = draws.choice("abc")
        used = draws.randint(0, held[holder])
        back = draws.randint(0, held[holder] - used) if draws.random() < 0.2 else 0
        item = ScriptItem(
            limit=100,
            period=60_000,
            need=draws.randint(0, 2),
            advance=draws.randint(0, 5),
            uses=((60_000, used),) if used else (),
            back=back,
        )
        body = msgspec.json.encode(ScriptRequest(holder=holder, items=(item,)))
        (answer,) = await transport.run([("EVAL", SCRIPT, "1", "k", body, "5000")])
        assert isinstance(answer, bytes)
        real = msgspec.json.decode(answer, type=ScriptAnswer)
        ours = msgspec.json.decode(simulated.script(["k"], body), type=ScriptAnswer)
        assert msgspec.structs.replace(ours, wait=real.wait) == real
        assert abs(ours.wait - real.wait) < 2_000
        held[holder] = real.mine[0]

    await transport.leave()
