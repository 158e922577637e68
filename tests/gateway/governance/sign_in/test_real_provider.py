"""Sign in with a provider that others wrote, over workers, gateways and restarts."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

from strowger_gateway.gateway.governance.sessions.cookie import COOKIE
from tests.gateway.commanded import SOON_S, Commanded, connected
from tests.gateway.governance.sign_in.real_provider import (
    RealProvider,
    real_provider,
    settings_for,
)
from tests.gateway.governance.sign_in.signing_in import BEGIN
from tests.stand_ins.ports.reserved import reserved_port

pytestmark = pytest.mark.anyio
OWN_PAGE = {"sec-fetch-site": "same-origin"}


async def enter(provider: RealProvider, up: Commanded, sub: str) -> httpx.AsyncClient:
    """A browser after signing in, or trying to."""
    browser = up.client()
    begun = await browser.get(BEGIN)
    back = await provider.let_in(begun.headers["location"], sub)
    assert back.startswith(up.url)
    browser.headers["x-answer"] = str((await browser.get(back)).status_code)
    return browser


async def test_people_of_a_real_provider_enter_with_their_roles_in_every_worker_and_gateway(
    tmp_path: Path,
) -> None:
    async with AsyncExitStack() as stack:
        provider = await stack.enter_async_context(real_provider())
        port = reserved_port()
        settings = await settings_for(provider, port, tmp_path)
        one = await stack.enter_async_context(
            settings.gateway(tmp_path / "one", port=port, workers=2)
        )
        two = await stack.enter_async_context(settings.gateway(tmp_path / "two"))
        ann, bob, eve = [await enter(provider, one, sub) for sub in ("u-1", "u-2", "u-3")]
        answers = [browser.headers["x-answer"] for browser in (ann, bob, eve)]
        processes = [await connected(one, stack, number) for number in range(2)]
        processes.append(await stack.enter_async_context(two.client()))
        cookie = {"cookie": f"{COOKIE}={bob.cookies[COOKIE]}"}
        seen = [(await each.get("/admin/live", headers=cookie)).status_code for each in processes]
        listed = (await ann.get("/admin/sessions")).json()["sessions"]
        refused = await bob.post("/admin/keys", json={"name": "a"}, headers=OWN_PAGE)
        (id,) = [each["id"] for each in listed if each["who"] == "bob"]
        ended = await ann.delete(f"/admin/sessions/{id}", headers=OWN_PAGE)
        for each in processes:
            await closes(each, cookie)
        one.process.terminate()
        await one.process.wait()
        await stack.enter_async_context(settings.gateway(tmp_path / "one", port=port))
        restarted = [(await each.get("/admin/live")).status_code for each in (ann, bob)]
        logged = "\n".join((*one.lines, *map(str, one.access)))
        for browser in (ann, bob, eve):
            await browser.aclose()

    assert answers == ["200", "200", "403"]
    assert seen == [200] * 3
    assert sorted((each["who"], each["role"]) for each in listed) == [
        ("ann@example.com", "admin"),
        ("bob", "viewer"),
    ]
    assert refused.status_code == 403
    assert ended.status_code == 200
    assert restarted == [200, 401]
    assert "code=" not in logged
    assert settings.client.client_secret not in logged


async def closes(browser: httpx.AsyncClient, cookie: dict[str, str]) -> None:
    """Wait until a session is refused."""
    async with asyncio.timeout(SOON_S):
        while (await browser.get("/admin/live", headers=cookie)).status_code == 200:  # noqa: ASYNC110  another process decides
            await asyncio.sleep(0.05)
