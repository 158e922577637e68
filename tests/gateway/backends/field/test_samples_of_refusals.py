"""What a vendor refuses is answered by the next backend: each sample of a refusal, at a gateway.

A backend whose account or model is refused gets no more requests for a while; one that refuses the
request itself gets the next (docs/routing.md#refused-accounts).
"""

import json
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from msgspec import Struct

from strowger_gateway.adapters.conformance.recordings import Recording, recordings
from strowger_gateway.adapters.openai.vendor_profiles import VENDORS
from tests.adapters.traffic import FIXTURES
from tests.gateway.serving import serving
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio

REFUSALS: Mapping[str, tuple[str, Recording]] = {
    one.name.replace("/", "-"): (vendor.name, one)
    for vendor in VENDORS
    if vendor.chat
    for one in recordings(FIXTURES / vendor.name)
    if one.error.startswith("UpstreamRefused") and not one.streamed
}
"""By a name for its model: the adapter and the sample."""

PROVIDER = """
  - {{name: "{name}", adapter: {adapter}, base_url: "{url}", api_key: of-the-operator-0123}}"""
MODEL = """
  - name: "{name}"
    policy: in_order
    retry: {{attempts: 2}}
    backends: [{{provider: "{name}", model: up}}, {{provider: spare, model: up}}]"""
FRAMED = ("content-type", "transfer-encoding")
ASK = {"messages": [{"role": "user", "content": "hi"}]}


class Refusing(Struct, frozen=True, kw_only=True):
    """A gateway, and a server with all vendors. asked: requests by the name of the model."""

    client: httpx.AsyncClient
    asked: Counter[str]

    async def text(self, model: str, *, stream: bool) -> str:
        """Return the body of the answer to a client."""
        body = {**ASK, "model": model, "stream": stream}
        reply = await self.client.post("/v1/chat/completions", json=body)
        assert reply.status_code == 200, reply.text
        return reply.text


@asynccontextmanager
async def refusing(run_dir: Path) -> AsyncGenerator[Refusing, None]:
    asked = Counter[str]()

    async def behave(request: Received, answer: Answer) -> None:
        name = request.path.split("/")[1]
        asked[name] += 1
        if name in REFUSALS:
            _, one = REFUSALS[name]
            headers = {name: text for name, text in one.headers.items() if name not in FRAMED}
            await answer.body(one.body, "application/json", one.status, headers)
        elif request.json.get("stream"):
            await answer.stream("of the spare")
        else:
            await answer.chat("of the spare")

    async with provider(behave) as vendors:
        of_vendors = "".join(
            PROVIDER.format(name=name, adapter=adapter, url=f"{vendors.origin}/{name}")
            for name, (adapter, _) in REFUSALS.items()
        )
        spare = PROVIDER.format(name="spare", adapter="openai", url=f"{vendors.origin}/spare")
        models = "".join(MODEL.format(name=name) for name in REFUSALS)
        config = f"providers:{of_vendors}{spare}\nmodels:{models}\n"
        async with (
            serving(config, run_dir) as gateway,
            httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
        ):
            yield Refusing(client=client, asked=asked)


@pytest.fixture(scope="module")
async def setting(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Refusing, None]:
    async with refusing(tmp_path_factory.mktemp("run")) as found:
        yield found


@pytest.mark.parametrize("name", REFUSALS)
async def test_the_next_backend_answers_what_a_vendor_refuses(setting: Refusing, name: str) -> None:
    _, refusal = REFUSALS[name]

    for stream in (False, True):
        assert "of the spare" in await setting.text(name, stream=stream)

    about = refusal.error.split(" ")[1]
    assert setting.asked[name] == (1 if about in ("account", "address", "model") else 2)


def test_refusals_of_each_cause_are_sampled() -> None:
    causes = {one.error for _, one in REFUSALS.values()}

    assert causes >= {f"UpstreamRefused {about}" for about in ("account", "model", "request")}
    assert any(one.status == 200 for _, one in REFUSALS.values()), json.dumps(sorted(REFUSALS))
