"""Problems that `error` does not show: fallbacks, and arms with fewer votes."""

from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from tests.gateway.experiments.recorded_gateway import (
    ADMIN,
    ask,
    behave,
    config,
    recorded,
    report,
)
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio


def mean(found: dict[str, Any], metric: str, variant: str) -> float:
    (variants,) = [one["variants"] for one in found["metrics"] if one["name"] == metric]
    (row,) = [one for one in variants if one["variant"] == variant]
    return row["mean"]


async def test_a_harm_limit_stops_an_arm_whose_backend_is_down_while_a_standby_answers(
    tmp_path: Path,
) -> None:
    harm_limit = "    harm_limits: [{metric: fallback, worse_by: 0.1}]"
    async with provider(behave) as remote:
        async with recorded(config(remote.base_url, more=harm_limit, other=ADMIN), tmp_path) as up:
            answers = [await ask(up.running, f"s{number}", "new is down") for number in range(120)]
            up.settle()
            with anyio.fail_after(60):
                while "x-gateway-variant" in (await ask(up.running, "s1")).headers:
                    pass
            found = await report(up)

    assert {answer.status_code for answer in answers} == {200}
    assert found["paused"] is True
    assert found["reason"] == "treatment is worse than control in fallback by more than 0.1"
    assert (mean(found, "error", "treatment"), mean(found, "error", "control")) == (0, 0)
    assert (mean(found, "fallback", "treatment"), mean(found, "fallback", "control")) == (1, 0)


async def test_the_report_has_the_share_of_requests_that_were_voted_on(tmp_path: Path) -> None:
    asked: Counter[str] = Counter()
    voted: Counter[str] = Counter()
    async with provider(behave) as remote:
        async with recorded(config(remote.base_url, other=ADMIN), tmp_path) as up:
            for number in range(40):
                answer = await ask(up.running, f"s{number}")
                variant = answer.headers["x-gateway-variant"]
                asked[variant] += 1
                votes: list[dict[str, object]] = [{"comment": "no vote"}]
                if number % 3 == 0:
                    votes = [{"metric": name, "value": True} for name in ("thumbs_up", "kept")]
                    voted[variant] += 1
                for vote in votes:
                    body = {"request_id": answer.headers["x-gateway-request-id"], **vote}
                    async with httpx.AsyncClient(timeout=60) as client:
                        await client.post(f"{up.running.url}/v1/feedback", json=body)
            up.settle()
            found = await report(up)

    for variant in ("control", "treatment"):
        assert mean(found, "vote_rate", variant) == pytest.approx(voted[variant] / asked[variant])
