"""Sign in with a certified provider, which requires PKCE and names itself in its answers.

Installs it from npm at its first run: `make nightly`.
"""

import asyncio
import json
import re
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import httpx
import pytest

from tests.clients.install import install
from tests.clients.packages import Client as Package
from tests.gateway.commanded import SOON_S
from tests.gateway.governance.sign_in.real_provider import Client, Settings
from tests.gateway.governance.sign_in.signing_in import BEGIN
from tests.stand_ins.ports.reserved import reserved_port

pytestmark = [pytest.mark.anyio, pytest.mark.nightly]
PACKAGE: Final = Package(name="oidc-provider", node=("oidc-provider@9.13.3",))
SCRIPT: Final = Path(__file__).parent / "certified_provider.mjs"
CLIENT: Final = Client(client_id="strowger", client_secret="a secret: of the client / with %")


@asynccontextmanager
async def certified(public_url: str) -> AsyncGenerator[str, None]:
    """Run the provider until the block ends; its issuer."""
    await asyncio.to_thread(install, PACKAGE)
    shutil.copy(SCRIPT, PACKAGE.folder)
    port = reserved_port()
    process = await asyncio.create_subprocess_exec(
        *("node", SCRIPT.name),
        cwd=PACKAGE.folder,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    settings = {"port": port, "publicUrl": public_url, "secret": CLIENT.client_secret}
    process.stdin.write(json.dumps(settings).encode())
    process.stdin.close()
    try:
        async with asyncio.timeout(SOON_S):
            assert (await process.stdout.readline()).strip() == b"ready"
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        await process.wait()


async def let_in(url: str, login: str, public_url: str) -> str:
    """Log in and consent, as a person does; return where the provider sends the browser."""
    forms = [{"prompt": "login", "login": login, "password": "any"}, {"prompt": "consent"}]
    async with httpx.AsyncClient(timeout=SOON_S) as client:
        answer = await client.get(url)
        while True:
            if answer.is_redirect:
                where = str(httpx.URL(url).join(answer.headers["location"]))
                if where.startswith(public_url):
                    return where
                answer = await client.get(where)
                continue
            action = re.search(r'action="([^"]+)"', answer.text)
            assert answer.status_code == 200, answer.text
            assert action is not None
            answer = await client.post(str(httpx.URL(url).join(action[1])), data=forms.pop(0))


async def test_a_certified_provider_lets_people_in_with_their_roles(tmp_path: Path) -> None:
    port = reserved_port()
    public_url = f"http://127.0.0.1:{port}"
    async with certified(public_url) as issuer:
        settings = Settings(
            issuer=issuer, client=CLIENT, public_url=public_url, store=tmp_path / "s.db"
        )
        async with settings.gateway(tmp_path / "one", port=port) as up:
            answers: list[tuple[int, bool]] = []
            sessions: list[tuple[str, str]] = []
            for login in ("ann", "eve"):
                async with up.client() as browser:
                    begun = (await browser.get(BEGIN)).headers["location"]
                    back = await let_in(begun, login, public_url)
                    stripped = re.sub(r"&iss=[^&]*", "", back)
                    foreign = f"{stripped}&iss=http%3A%2F%2Felsewhere.test"
                    refused = (await browser.get(foreign)).status_code
                    begun = (await browser.get(BEGIN)).headers["location"]
                    back = await let_in(begun, login, public_url)
                    answer = await browser.get(back)
                    answers.append((answer.status_code, "iss=" in back))
                    assert refused == 401
                    if answer.status_code == 200:
                        listed = (await browser.get("/admin/sessions")).json()["sessions"]
                        sessions += [(one["who"], one["role"]) for one in listed]

    assert answers == [(200, True), (403, True)]
    assert sessions == [("ann", "admin")]
