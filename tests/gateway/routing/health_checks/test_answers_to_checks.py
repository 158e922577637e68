"""What servers answer to health checks, and what becomes of it."""

import asyncio
import ssl
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from strowger_gateway.gateway.routing.backend_events.process_side import BackendEventsSide
from strowger_gateway.gateway.routing.health_checks.checks import HealthChecks
from tests.gateway.certificates import Issued
from tests.gateway.routing.backend_events.simulated import Simulated, simulated
from tests.gateway.routing.health_checks.test_checks import CHAT, Checked, Vendor, checked, config
from tests.stand_ins.provider import Answer, Received, answers, provider, silent

pytestmark = pytest.mark.anyio

REQUEST = "{request: smallest, every_s: 5, timeout_s: 2}"
PATH = "{path: /health, every_s: 5, timeout_s: 2}"


def error(message: str) -> Mapping[str, object]:
    return {"error": {"message": message}}


def checks_of(one: Simulated) -> HealthChecks:
    """The checks of a simulated gateway, on its clock."""
    state = one.up.state
    return HealthChecks(
        lambda: state.runtime.config,
        lambda: state.runtime.backends,
        state.side(BackendEventsSide).watch,
        state.log.metrics.registry,
        clock=one.clock,
        draw=lambda: 0.5,
    )


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (403, error("You are not allowed to sample from this model")),
        (404, {"detail": "Not Found"}),
        (405, {"detail": "Method Not Allowed"}),
        (501, error("This server does not support completions. Start it without `--embeddings`")),
    ],
)
async def test_a_model_of_embeddings_is_checked_by_embeddings_whatever_it_answers_to_chats(
    status: int, body: Mapping[str, object], tmp_path: Path
) -> None:
    async def embeds(request: Received, answer: Answer) -> None:
        if "embeddings" in request.path:
            await answers(request, answer)
        else:
            await answer.json(body, status)

    async with checked(tmp_path, REQUEST) as one:
        one.remote.behaviour = embeds
        await one.pass_s(12.0)
        kinds, metrics = await one.kinds(), await one.metrics()
        up = await one.gauge(CHAT)

    assert kinds == []
    assert 'strowger_health_checks_total{outcome="passed",provider="p"} 2.0' in metrics
    assert up == 1.0


async def test_an_overloaded_vendor_is_checked_again_after_the_pause_that_it_asks_for(
    tmp_path: Path,
) -> None:
    async with checked(tmp_path, REQUEST) as one:
        one.vendor.status, one.vendor.headers = 503, {"retry-after": "60"}
        await one.pass_s(50.0)
        asked = len(one.remote.requests)
        await one.pass_s(20.0)

    assert asked == 1
    assert len(one.remote.requests) > asked


async def test_a_page_of_any_length_is_an_answer(tmp_path: Path) -> None:
    async def shows_all_it_has(request: Received, answer: Answer) -> None:
        await answer.body(b"x" * 2_000_000, "text/plain")

    async with checked(tmp_path, PATH) as one:
        one.remote.behaviour = shows_all_it_has
        await one.pass_s(12.0)
        metrics = await one.metrics()

    assert 'strowger_health_checks_total{outcome="passed",provider="p"} 2.0' in metrics


async def test_a_failure_after_the_check_was_corrected_is_an_event_again(tmp_path: Path) -> None:
    """What was known of a check ends with a reload that changes it, and with its process."""
    async with checked(tmp_path, "{path: /wrong, every_s: 5, timeout_s: 2}") as one:
        one.vendor.healthy = 404
        await one.pass_s(12.0)
        one.reload(config(one.remote.base_url, PATH))
        one.vendor.healthy = 200
        await one.pass_s(12.0)
        one.vendor.healthy = 500
        await one.pass_s(12.0)
        kinds = [kind for kind in await one.kinds() if kind.startswith("check")]

    assert kinds == ["check_failed", "check_passed", "check_failed"]


async def test_checks_over_tls_read_certificates_once(tmp_path: Path) -> None:
    """Reading them takes 20 ms or more, in which the process does nothing else."""
    issued = Issued.to(tmp_path, "127.0.0.1")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(issued.cert, issued.key)
    async with provider(Vendor(), tls=context) as remote:
        url = remote.base_url.replace("http:", "https:")
        text = config(url, PATH).replace("sk-1", f"sk-1, tls: {{ca_file: {issued.ca}}}")
        async with simulated(tmp_path, text) as one:
            found = Checked(one.up, one.clock, one.client, tmp_path)
            found.checks = checks_of(one)
            await found.pass_s(6.0)
            issued.ca.unlink()
            await found.pass_s(6.0)
            metrics = await found.metrics()
            await found.checks.close()

    assert 'strowger_health_checks_total{outcome="passed",provider="p"} 2.0' in metrics


async def test_a_check_that_ran_out_of_time_while_the_process_stood_still_says_nothing(
    tmp_path: Path,
) -> None:
    """A virtual machine is moved, or a container is paused. The check is sent again at once."""
    async with checked(tmp_path, "{path: /health, every_s: 600, timeout_s: 1}") as one:
        one.remote.behaviour = silent
        one.checks.tick()
        one.clock.now += 600.0
        running = asyncio.create_task(one.checks.run())
        await one.remote.until(lambda: bool(one.remote.requests))
        time.sleep(2.5)  # noqa: ASYNC251  the event loop stands still
        one.remote.behaviour = Vendor()
        await one.remote.until(lambda: len(one.remote.requests) > 1)
        await one.checks.idle()
        metrics, kinds = await one.metrics(), await one.kinds()
        running.cancel()

    assert 'strowger_health_checks_total{outcome="passed",provider="p"} 1.0' in metrics
    assert 'outcome="failed"' not in metrics
    assert kinds == []


async def test_servers_that_hang_delay_no_check_of_others(tmp_path: Path) -> None:
    async with provider(silent) as hanging, provider(Vendor()) as healthy:
        urls = [hanging.base_url] * 40 + [healthy.base_url]
        providers = "".join(
            f'  - {{name: p{place}, adapter: openai, base_url: "{url}", api_key: sk-1,'
            f" health_check: {{path: /health, every_s: 60, timeout_s: 30}}}}\n"
            for place, url in enumerate(urls)
        )
        backends = ", ".join(f"{{provider: p{place}, model: m}}" for place in range(len(urls)))
        text = f"providers:\n{providers}models: [{{name: chat, backends: [{backends}]}}]\n"
        async with simulated(tmp_path, text) as one:
            found = Checked(one.up, one.clock, one.client, tmp_path)
            found.checks = checks_of(one)
            found.checks.tick()
            one.clock.now += 60.0
            found.checks.tick()
            await healthy.until(lambda: bool(healthy.requests), 15.0)
            waiting = hanging.open
            await found.checks.close()

    assert waiting > 0
