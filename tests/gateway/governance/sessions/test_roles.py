"""Every route under /admin names the role it needs, and the server holds every session to it."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from litestar.routes import HTTPRoute

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.console.admin.access import NEEDS, PUBLIC
from strowger_gateway.gateway.console.admin.routes import admin_routes
from strowger_gateway.gateway.governance.issued_keys.desk import KeyDesk
from strowger_gateway.gateway.governance.issued_keys.process_side import KeysSide
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.schemas.secret import Secret
from tests.gateway.governance.sign_in.provider_stand_in import sign_in_stand_in
from tests.gateway.governance.sign_in.signing_in import ADMIN_KEY, ROLES, Door, door

pytestmark = pytest.mark.anyio
RANKS = {"viewer": 0, "operator": 1, "admin": 2}
OWN_PAGE = {"sec-fetch-site": "same-origin"}


@pytest.fixture
async def at(tmp_path: Path) -> AsyncGenerator[Door]:
    store = open_store(Secret(f"sqlite:///{tmp_path / 'strowger.db'}"))
    async with sign_in_stand_in() as provider:
        async with door(provider, tmp_path, team_claim="teams") as found:
            state = found.gateway.state
            state.side(KeysSide).desk = desk = KeyDesk(
                store.issued_keys, lambda: state.runtime.config, lambda: None
            )
            yield found
            desk.close()
    store.close()


def routes(state: Gateway) -> list[tuple[str, str, object]]:
    """Method, path with x for its parameters, and the role that the handler names."""
    found: list[tuple[str, str, object]] = []
    for route in admin_routes(lambda: state).routes:
        assert isinstance(route, HTTPRoute)
        path = re.sub(r"\{[^}]*\}", "x", route.path)
        for handler in route.route_handlers:
            methods = {str(one) for one in handler.http_methods} - {"OPTIONS"}
            found += [(method, path, handler.opt.get(NEEDS)) for method in methods]
    return found


@asynccontextmanager
async def signed_in(at: Door, group: str, *teams: str) -> AsyncGenerator[httpx.AsyncClient]:
    async with at.browser() as browser:
        at.provider.claims = {"teams": list(teams)}
        assert (await at.sign_in(browser, group)).status_code == 200
        yield browser


async def test_every_route_names_its_role(at: Door) -> None:
    found = routes(at.gateway.state)
    named = {needed for _, _, needed in found}
    public = {path for _, path, needed in found if needed == PUBLIC}

    assert len(found) > 20
    assert named <= {*RANKS, PUBLIC}, "a handler names no role: get(..., role=…)"
    assert public == {
        "/admin",
        "/admin/language",
        "/admin/static/x",
        "/admin/sign-in",
        "/admin/sign-in/provider",
        "/admin/sign-in/callback",
        "/admin/sign-out",
    }
    own = {"/admin/sessions/x", "/admin/view/sessions/x/end"}  # a viewer ends sessions of its own
    for method, path, needed in found:
        reads = path in {*public, *own, "/admin/explain", "/admin/view/explain"}
        changes = method != "GET" and not reads
        assert not changes or needed in ("operator", "admin"), (method, path)


async def test_a_session_may_do_what_its_role_may_and_nothing_more(at: Door) -> None:
    found = [one for one in routes(at.gateway.state) if one[2] != PUBLIC]
    async with at.browser() as stranger:
        refused = [await stranger.request(method, path) for method, path, _ in found]
    for answer in refused:
        page = answer.headers.get("location", "").startswith("/admin/sign-in")
        assert answer.status_code == (303 if page else 401), answer.url
    for group, role in ROLES.items():
        async with signed_in(at, group) as browser:
            for method, path, needed in found:
                answer = await browser.request(method, path, headers=OWN_PAGE)
                allowed = RANKS[role] >= RANKS[str(needed)]
                stopped = (
                    answer.status_code == 403 and "this requires the role" in answer.text.lower()
                )
                assert stopped != allowed, (role, method, path, answer.text)
                to = answer.headers.get("location", "")
                assert answer.status_code != 401, (role, method, path)
                assert not to.startswith("/admin/sign-in"), (role, method, path)


async def test_the_refusal_names_both_roles(at: Door) -> None:
    async with signed_in(at, "staff") as browser:
        answer = await browser.delete("/admin/keys/x", headers=OWN_PAGE)

    assert answer.status_code == 403
    error = answer.json()["error"]
    assert error["code"] == "role_not_allowed"
    assert error["message"] == "this requires the role operator; alice has the role viewer"


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({}, False),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"sec-fetch-site": "same-site"}, False),
        ({"origin": "null"}, False),
        ({"origin": "https://evil.test"}, False),
        ({"origin": "http://127.0.0.1:9999"}, True),
        ({"sec-fetch-site": "same-origin"}, True),
    ],
)
async def test_a_session_changes_something_only_for_our_own_pages(
    at: Door, headers: dict[str, str], allowed: bool
) -> None:
    async with signed_in(at, "platform") as browser:
        answer = await browser.post("/admin/keys", json={"name": "ci"}, headers=headers)
        read = await browser.get("/admin/keys")
    async with at.browser() as program:
        bearer = {"authorization": f"Bearer {ADMIN_KEY}"}
        by_key = await program.post("/admin/keys", json={"name": "own"}, headers=bearer)

    assert (answer.status_code == 200) == allowed
    assert allowed or answer.json()["error"]["code"] == "cross_site"
    assert read.status_code == by_key.status_code == 200


async def test_an_operator_manages_the_keys_of_its_own_teams_only(at: Door) -> None:
    headers = {"authorization": f"Bearer {ADMIN_KEY}"}
    async with at.browser() as program:
        for name, team in (("of-blue", "blue"), ("of-none", ""), ("of-red", "red")):
            await program.post("/admin/keys", json={"name": name, "team": team}, headers=headers)
    async with signed_in(at, "oncall", "red") as browser:
        browser.headers.update(OWN_PAGE)
        made = await browser.post("/admin/keys", json={"name": "new", "team": "red"})
        others = [
            await browser.post("/admin/keys", json={"name": "a", "team": "blue"}),
            await browser.post("/admin/keys", json={"name": "a"}),
            await browser.patch("/admin/keys/of-blue", json={"disabled": True}),
            await browser.patch("/admin/keys/of-blue", json={"team": "red"}),
            await browser.patch("/admin/keys/of-red", json={"team": "blue"}),
            await browser.patch("/admin/keys/of-red", json={"team": ""}),
            await browser.post("/admin/keys/of-none/rotate"),
            await browser.delete("/admin/keys/of-blue"),
        ]
        own = [
            await browser.patch("/admin/keys/of-red", json={"disabled": True}),
            await browser.post("/admin/keys/of-red/rotate"),
            await browser.delete("/admin/keys/of-red"),
        ]
        listed = (await browser.get("/admin/keys")).json()["keys"]

    assert made.status_code == 200
    assert made.json()["key"]["created_by"] == "alice from 127.0.0.1"
    assert [one.json()["error"]["code"] for one in others] == ["team_not_allowed"] * len(others)
    assert [one.status_code for one in own] == [200] * 3
    assert {one["name"]: one["state"] for one in listed} == {
        "c": "active",
        "new": "active",
        "of-blue": "active",
        "of-none": "active",
        "of-red": "revoked",
    }


async def test_only_an_admin_sees_which_requests_have_a_payload(at: Door) -> None:
    paths = (
        "/admin/requests",
        "/admin/requests/export",
        "/admin/requests/tail",
        "/admin/view/requests",
    )
    found = dict[str, set[tuple[int, bool]]]()
    for group, role in ROLES.items():
        async with signed_in(at, group) as browser:
            answers = [await browser.get(path, params={"payload": "true"}) for path in paths]
            found[role] = {
                (answer.status_code, "only the role admin sees" in answer.text.lower())
                for answer in answers
            }

    assert found["viewer"] == found["operator"] == {(403, True)}
    assert not any(status == 403 for status, _ in found["admin"])
