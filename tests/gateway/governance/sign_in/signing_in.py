"""A gateway whose operators sign in with an identity provider, and browsers that do."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import yaml
from msgspec import Struct

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.governance.access.ended_sessions import EndedSessions
from strowger_gateway.gateway.governance.sessions.desk import AdminSessions
from strowger_gateway.gateway.governance.sessions.process_side import SessionsSide
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.schemas.secret import Secret
from tests.gateway.governance.sign_in.provider_stand_in import CLIENT, SECRET, SignInStandIn
from tests.gateway.serving import Serving, one_model, serving

ADMIN_KEY = "key-of-the-operator"
AUTH = f"admin_key: {ADMIN_KEY}, mode: keys, keys: [{{name: c, key: key-of-a-client}}]"
PUBLIC_URL = "http://127.0.0.1:9999"
BEGIN, CALLBACK = "/admin/sign-in/provider", "/admin/sign-in/callback"
ROLES = {"platform": "admin", "oncall": "operator", "staff": "viewer"}


class Door(Struct, frozen=True, kw_only=True, eq=False):
    """A running gateway, and the identity provider of its operators."""

    gateway: Serving
    provider: SignInStandIn

    def browser(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.gateway.url, timeout=60)

    async def begun(self, browser: httpx.AsyncClient, path: str = BEGIN) -> str:
        """Begin a sign-in; return the provider's address that the browser is sent to."""
        answer = await browser.get(path)
        assert answer.status_code == 303, answer.text
        return answer.headers["location"]

    async def back(self, browser: httpx.AsyncClient, url: str) -> httpx.Response:
        """Follow the provider's redirect back to the gateway's public address."""
        assert url.startswith(f"{PUBLIC_URL}{CALLBACK}?")
        return await browser.get(url.removeprefix(PUBLIC_URL))

    async def sign_in(self, browser: httpx.AsyncClient, *roles: str) -> httpx.Response:
        """Sign in as alice with these values of the role claim."""
        self.provider.claims |= {"groups": list(roles)}
        url = await self.begun(browser)
        return await self.back(browser, self.provider.answer_url(url))


@asynccontextmanager
async def door(
    provider: SignInStandIn,
    folder: Path,
    *,
    store: bool = True,
    auth: str = "",
    server: str = "{}",
    **fields: object,
) -> AsyncGenerator[Door, None]:
    """store: the gateway has one, in `folder`. auth, fields: of `auth` and `auth.admin_oidc`."""
    rows = open_store(Secret(f"sqlite:///{folder / 'strowger.db'}"))
    settings: dict[str, object] = {
        "name": "Corp",
        "issuer": provider.url,
        "client_id": CLIENT,
        "client_secret": SECRET,
        "public_url": PUBLIC_URL,
        "role_claim": "groups",
        "roles": ROLES,
        "user_claim": "sub",
        **fields,
    }
    oidc = yaml.safe_dump({"admin_oidc": settings}, default_flow_style=True, width=10_000)
    more = (
        f"auth: {{{auth or AUTH}, {oidc.strip()[1:-1]}}}\n"
        f"server: {server}\nstore: {{spool: {folder}/spool}}\n"
        "teams: [{name: red}, {name: blue}]"
    )

    def equip(gateway: Gateway) -> None:
        if store:
            gateway.side(SessionsSide).desk = AdminSessions(
                lambda: gateway.runtime.access.session_tokens,
                lambda: gateway.runtime.config.auth.admin_session_s,
                EndedSessions(Path(f"{folder}/spool")),
                rows.admin_sessions,
            )

    config = one_model("http://127.0.0.1:9/v1", more)
    async with serving(config, folder, equip=equip) as gateway:
        yield Door(gateway=gateway, provider=provider)
        await gateway.state.side(SessionsSide).desk.close()
    rows.close()
