"""The gateway of compose.yaml works with its database, Redis, scraper and collector.

Servers of this machine stand for the containers; only addresses and the spool's folder differ.
"""

import asyncio
from pathlib import Path

import pytest

from tests.deploy.proxies import replaced
from tests.gateway.commanded import SOON_S, commanded
from tests.gateway.observability.otlp.fake_collector import otlp_collector
from tests.stand_ins.postgres import running_postgres
from tests.stand_ins.redis_server import running_redis

pytestmark = [pytest.mark.anyio, pytest.mark.nightly]
CONFIG = Path(__file__).parents[2] / "deploy" / "compose" / "gateway" / "config.yaml"
KEY, ADMIN, METRICS = ("key-of-the-client", "key-of-the-operator", "key-of-the-scraper")


async def test_it_answers_records_shares_measures_and_traces(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with running_postgres() as postgres, running_redis() as redis:
        async with otlp_collector() as collector:
            text = replaced(
                CONFIG.read_text("utf-8"),
                ("host: 0.0.0.0", "host: 127.0.0.1"),
                ("http://collector:4318", collector.origin),
                ("/var/lib/strowger/spool", str(tmp_path / "spool")),
            )
            environment = {
                "STROWGER_API_KEY": KEY,
                "STROWGER_ADMIN_KEY": ADMIN,
                "STROWGER_METRICS_KEY": METRICS,
                "STROWGER_STORE_URL": postgres.new_database(),
                "STROWGER_REDIS_URL": redis.url,
            }

            async with (
                commanded(tmp_path / "config.yaml", text, env=environment) as up,
                up.client() as client,
            ):
                async with asyncio.timeout(SOON_S):
                    while (await client.get("/readyz")).status_code != 200:  # noqa: ASYNC110
                        await asyncio.sleep(0.05)
                body = {"model": "chat", "messages": [{"role": "user", "content": "Hello!"}]}
                answer = await client.post(
                    "/v1/chat/completions", json=body, headers={"authorization": f"Bearer {KEY}"}
                )
                scraper = {"authorization": f"Bearer {METRICS}"}
                async with asyncio.timeout(SOON_S):
                    while True:
                        scraped = (await client.get("/metrics", headers=scraper)).text
                        if "\nstrowger_records_imported_total 0" not in scraped:
                            break
                        await asyncio.sleep(0.05)
                    while not collector.resource_spans():  # noqa: ASYNC110  the same
                        await asyncio.sleep(0.05)

    assert answer.status_code == 200, answer.text
    assert answer.json()["model"] == "tiny-chat"
    assert "\nstrowger_redis_available 1" in scraped
    assert "\nstrowger_store_available 1" in scraped
