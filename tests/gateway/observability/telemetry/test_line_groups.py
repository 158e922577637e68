"""Requests that are counted together count as they would one by one."""

import random

from prometheus_client import generate_latest

from strowger_gateway.gateway.observability.telemetry.access_log import AccessLine, grouped
from strowger_gateway.gateway.observability.telemetry.metrics import Metrics
from strowger_gateway.gateway.routing.request_record import AttemptRecord


def _attempts(draw: random.Random) -> tuple[AttemptRecord, ...]:
    count = draw.choice([0, 1, 1, 1, 1, 2])
    return tuple(
        AttemptRecord(
            backend=draw.choice(["a/m", "b/m"]),
            pattern=draw.choice(["", "", "b/*"]),
            outcome=draw.choice(["ok", "ok", "upstream_error", "cancelled"]),
            hedge=number > 0 and draw.random() < 0.2,
        )
        for number in range(count)
    )


def _line(draw: random.Random, number: int) -> AccessLine:
    attempts = _attempts(draw)
    return AccessLine(
        time=1_800_000_000 + number / 16,
        request_id=str(number),
        surface=draw.choice(["openai", "anthropic"]),
        status=draw.choice([200, 200, 502]),
        ms=float(draw.randrange(2000)),
        route=draw.choice(["chat", "code"]),
        backend=attempts[-1].backend if attempts else "",
        experiment=draw.choice(["", "blue"]),
        variant=draw.choice(["control", "treatment"]),
        fallback=draw.random() < 0.2,
        ttft_ms=draw.choice([None, 50.0]),
        attempts=attempts,
        prompt_tokens=draw.choice([None, 7]),
        completion_tokens=draw.choice([None, 0, 3]),
        usage_source=draw.choice(["", "reported", "estimated"]),
        cost_usd=draw.choice([None, 0.25]),
        unpriced=draw.random() < 0.2,
    )


def test_a_batch_counts_as_its_requests_would_one_by_one() -> None:
    draw = random.Random(11)
    lines = [_line(draw, number) for number in range(400)]
    at_once, one_by_one = Metrics(), Metrics()

    at_once.count(grouped(lines))
    for line in lines:
        one_by_one.count(grouped([line]))

    whole, single = (
        sorted(generate_latest(metrics.registry).decode().splitlines())
        for metrics in (at_once, one_by_one)
    )
    assert whole == single
    assert max(len(group.lines) for group in grouped([lines[0]] * 3)) == 3
