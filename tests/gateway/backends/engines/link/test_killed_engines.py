"""kill -9 of one of two engines under load: nothing is lost, and streams go on token for token.

`STROWGER_KILLS` is the number of rounds; in each, one of two fresh engines is killed.
"""

import asyncio
import os
from pathlib import Path

import pytest

from tests.gateway.backends.engines.link.commanded_engine import commanded_engine
from tests.gateway.backends.engines.link.fleets import Certificates, pool
from tests.gateway.commanded import SOON_S
from tests.gateway.routing.recovery.continuing import Client, ask
from tests.gateway.serving import Serving, serving

pytestmark = [pytest.mark.anyio, pytest.mark.nightly]

ROUNDS = int(os.environ.get("STROWGER_KILLS", "1"))
STREAMS = 8
ENGINE = """
# bfloat16, which `auto` uses where a processor has it, rounds by the number of requests in a step.
dtype: float32
models: [{name: m, path: "bundled:tiny-chat"}]
"""
RECOVERING = "    stream_recovery: continue\n    breaker: {min_requests: 100000}\n"


async def drawn(gateway: Serving, name: str) -> int:
    """The tokens that an engine has generated."""
    links = gateway.state.runtime.links
    return (await links[name].stats())["m"].num_output_tokens


@pytest.mark.parametrize("number", range(ROUNDS))
async def test_streams_go_on_elsewhere_token_for_token(number: int, tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    file = tmp_path / "engine.yaml"
    file.write_text(ENGINE)
    async with (
        commanded_engine(certificates, str(file)) as one,
        commanded_engine(certificates, str(file)) as other,
    ):
        config = pool([one.host, other.host], certificates.tls(), RECOVERING)
        async with serving(config, tmp_path, seed=number) as gateway:

            async def stream(seed: int) -> Client:
                return await ask(
                    gateway.url,
                    model="chat",
                    seed=seed,
                    temperature=1.5,
                    max_tokens=200,
                    ignore_eos=True,
                )

            expected = [await stream(seed) for seed in range(STREAMS)]
            doomed = f"pool@{one.host}"
            before = await drawn(gateway, doomed)
            asking = [asyncio.create_task(stream(seed)) for seed in range(STREAMS)]
            async with asyncio.timeout(SOON_S):
                while await drawn(gateway, doomed) < before + 4 * STREAMS:  # noqa: ASYNC110  polled
                    await asyncio.sleep(0.01)
            one.process.kill()
            got = await asyncio.gather(*asking)
            after = await asyncio.gather(*(stream(seed) for seed in range(STREAMS)))

    for answers in (expected, got, after):
        assert [one.error for one in answers] == [""] * STREAMS
        assert [one.text for one in answers] == [one.text for one in expected]
        counts = [one.usage["completion_tokens"] for one in answers]
        assert counts == [one.usage["completion_tokens"] for one in expected]
    assert any(one.comments for one in got), "no stream had shown content when its engine died"
