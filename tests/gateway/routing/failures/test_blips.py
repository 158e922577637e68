"""A vendor that fails for a second: clients get their answer, as they do without a gateway.

All times are a fifth of the real ones: the outage's, those between the clients' retries, and ours.
"""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import anthropic
import openai
import pytest

from strowger_gateway.gateway.platform.clock import now
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Provider, Received, answers, provider

pytestmark = pytest.mark.anyio

SCALE = 0.2
OUTAGE_S = 1.0 * SCALE
STATUSES = (429, 500, 503, 529)
CLIENTS = ("openai", "anthropic", "once")
"""Vendors' clients as they are, and one that never retries."""
CASES = [f"{client}-{status}" for client in CLIENTS for status in STATUSES]


class Blips:
    """Fails for `OUTAGE_S` from the first request of each case on; `dead` forever."""

    def __init__(self) -> None:
        self._began: dict[str, float] = {}

    async def behave(self, request: Received, answer: Answer) -> None:
        case = request.path.split("/")[1]
        began = self._began.setdefault(case, now())
        if case != "dead" and now() - began > OUTAGE_S:
            await answers(request, answer)
            return
        status = 500 if case == "dead" else int(case.rpartition("-")[2])
        await answer.json({"error": {"message": "not now"}}, status)


def config(origin: str) -> str:
    """A provider and a model for each case."""
    cases = (*CASES, "dead")
    providers = "\n".join(
        f"  - {{name: {one}, adapter: openai, base_url: {origin}/{one}/v1, api_key: k}}"
        for one in cases
    )
    models = "\n".join(
        f"  - {{name: {one}, retry: {{backoff_s: {0.2 * SCALE}, max_backoff_s: {5 * SCALE}}}, "
        f"breaker: {{min_requests: {1000 if one == 'dead' else 12}}}, "
        f"backends: [{{provider: {one}, model: m}}]}}"
        for one in cases
    )
    return f"providers:\n{providers}\nmodels:\n{models}\n"


@pytest.fixture(scope="module")
async def remote() -> AsyncGenerator[Provider, None]:
    async with provider(Blips().behave) as running:
        yield running


@pytest.fixture(scope="module")
async def gateway(
    remote: Provider, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Serving, None]:
    async with serving(config(remote.origin), tmp_path_factory.mktemp("run")) as running:
        yield running


@pytest.fixture(autouse=True)
def hasty_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("openai._base_client", "anthropic._base_client"):
        monkeypatch.setattr(f"{module}.INITIAL_RETRY_DELAY", 0.5 * SCALE)
        monkeypatch.setattr(f"{module}.MAX_RETRY_DELAY", 8.0 * SCALE)


async def ask(base: str, client: str, model: str) -> str:
    """The answer's text, through the vendor's own client. base: without the `/v1`."""
    if client == "anthropic":
        async with anthropic.AsyncAnthropic(base_url=base, api_key="k") as claude:
            message = await claude.messages.create(
                model=model, max_tokens=20, messages=[{"role": "user", "content": "hi"}]
            )
        (block,) = message.content
        return block.text if block.type == "text" else ""
    retries = 0 if client == "once" else openai.DEFAULT_MAX_RETRIES
    async with openai.AsyncOpenAI(
        base_url=f"{base}/v1", api_key="k", max_retries=retries
    ) as caller:
        chat = await caller.chat.completions.create(
            model=model, messages=[{"role": "user", "content": "hi"}]
        )
    return chat.choices[0].message.content or ""


async def test_every_client_gets_its_answer_although_the_vendor_fails_for_a_second(
    gateway: Serving,
) -> None:
    found = await asyncio.gather(
        *(ask(gateway.url, one.partition("-")[0], one) for one in CASES), return_exceptions=True
    )

    assert dict(zip(CASES, found, strict=True)) == dict.fromkeys(CASES, "hello")


async def test_the_outage_is_one_that_clients_survive_without_a_gateway(tmp_path: Path) -> None:
    async with provider(Blips().behave) as direct:
        found = [await ask(f"{direct.origin}/openai-{one}", "openai", "m") for one in STATUSES]

    assert found == ["hello"] * len(STATUSES)


async def test_a_long_outage_gets_hardly_more_requests_than_the_clients_make(
    gateway: Serving, remote: Provider
) -> None:
    clients = 12
    found = await asyncio.gather(
        *(ask(gateway.url, "openai", "dead") for _ in range(clients)), return_exceptions=True
    )

    assert all(isinstance(one, openai.InternalServerError) for one in found)
    made = sum(request.path.startswith("/dead/") for request in remote.requests)
    own = clients * (1 + openai.DEFAULT_MAX_RETRIES)
    assert made <= own + max(10, 0.2 * own)
