"""No request waits for a store that hangs for ever."""

import asyncio
from collections.abc import AsyncGenerator

import httpx
import pytest

from strowger_gateway.gateway.storage.sql.sql import SqlStore
from tests.gateway.experiments.faulty_store import FaultyDriver
from tests.gateway.experiments.recorded_gateway import ask, behave, config, recorded
from tests.gateway.serving import Serving
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

SOON_S = 60.0
"""Time before which no waiting call to the store is cancelled."""


@pytest.fixture(scope="module")
async def silent(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Serving, None]:
    """A running experiment, with a call that already waits for the hanging store."""
    folder = tmp_path_factory.mktemp("silent")
    driver = FaultyDriver(folder / "strowger.db")
    async with provider(behave) as remote:
        text = config(remote.base_url)
        async with recorded(text, folder, store=SqlStore(driver)) as gateway:
            assert (await ask(gateway.running, "first")).headers["x-gateway-variant"]
            driver.silent = True
            await asyncio.to_thread(driver.asked.wait, SOON_S)
            yield gateway.running
            driver.over.set()


async def test_requests_are_answered_and_take_part(silent: Serving) -> None:
    chat, completions = "/v1/chat/completions", "/v1/completions"
    asked = [
        ask(silent, f"session-{number}", path=path, body=body)
        for number in range(10)
        for path, body in (
            (chat, {}),
            (chat, {"stream": True}),
            (completions, {"prompt": "hi"}),
            ("/v1/embeddings", {"input": "hi"}),
        )
    ]
    answers = await asyncio.wait_for(asyncio.gather(*asked), SOON_S)

    assert {one.status_code for one in answers} == {200}
    assert {one.headers["x-gateway-variant"] for one in answers} == {"control", "treatment"}


async def test_probes_scrapes_and_feedback_are_answered(silent: Serving) -> None:
    request_id = (await ask(silent, "voter")).headers["x-gateway-request-id"]
    vote = {"request_id": request_id, "metric": "thumbs_up", "value": True}
    async with httpx.AsyncClient(base_url=silent.url, timeout=SOON_S) as client:
        feedback = await client.post("/v1/feedback", json=vote)
        others = [
            (await client.get(path)).status_code
            for path in ("/healthz", "/readyz", "/metrics", "/v1/models")
        ]

    assert (feedback.status_code, others) == (202, [200, 200, 200, 200])
