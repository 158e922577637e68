"""Sessions of /admin: listed, ended everywhere, over restarts, and while the store is away."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest

from strowger_gateway.gateway.config.schema.auth import Auth
from strowger_gateway.gateway.governance.access.ended_sessions import EndedSessions
from strowger_gateway.gateway.governance.sessions.cookie import COOKIE
from strowger_gateway.gateway.governance.sessions.desk import (
    FRESH_S,
    MOST_EACH,
    SEEN_S,
    UNLISTED_S,
    AdminSessions,
)
from strowger_gateway.gateway.governance.sessions.principal import KEY_HOLDER, Principal
from strowger_gateway.gateway.governance.sessions.tokens import SessionTokens, TokenKind
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.session_rows import SessionRows
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.schemas.errors import Unavailable
from strowger_gateway.schemas.secret import Secret
from tests.gateway.governance.sessions.departing_store import DepartingDriver
from tests.gateway.governance.sessions.test_tokens import OIDC
from tests.gateway.governance.sign_in.provider_stand_in import sign_in_stand_in
from tests.gateway.governance.sign_in.signing_in import ADMIN_KEY, Door, door

pytestmark = pytest.mark.anyio
OWN_PAGE = {"sec-fetch-site": "same-origin"}
BEARER = {"authorization": f"Bearer {ADMIN_KEY}"}
ANN = Principal(kind="provider", name="ann", role="viewer", subject="ann")


async def opens(browser: httpx.AsyncClient) -> bool:
    return (await browser.get("/admin/live")).status_code == 200


async def closes(browser: httpx.AsyncClient) -> None:
    """Wait until a session is refused."""
    async with asyncio.timeout(60):
        while await opens(browser):  # noqa: ASYNC110  another gateway decides
            await asyncio.sleep(0.05)


@pytest.fixture
async def two(tmp_path: Path) -> AsyncGenerator[tuple[Door, Door]]:
    """Two gateways on one store, each with its own spool."""
    async with AsyncExitStack() as stack:
        provider = await stack.enter_async_context(sign_in_stand_in())
        first = await stack.enter_async_context(door(provider, tmp_path))
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "strowger.db").symlink_to(tmp_path / "strowger.db")
        second = await stack.enter_async_context(door(provider, tmp_path / "other"))
        yield first, second


async def test_sessions_of_both_kinds_are_listed_and_ended_in_all_gateways(
    two: tuple[Door, Door],
) -> None:
    first, second = two
    async with first.browser() as ann, first.browser() as key, second.browser() as program:
        await first.sign_in(ann, "staff")
        await key.post("/admin/sign-in", data={"key": ADMIN_KEY})
        elsewhere = [second.browser() for _ in range(2)]
        for browser, one in zip(elsewhere, (ann, key), strict=True):
            browser.cookies.set(COOKIE, one.cookies[COOKIE], "127.0.0.1", "/admin")
        before = [await opens(one) for one in (ann, key, *elsewhere)]
        listed = (await program.get("/admin/sessions", headers=BEARER)).json()["sessions"]
        by_kind = {one["kind"]: one for one in listed}
        (await program.delete(f"/admin/sessions/{by_kind['provider']['id']}", headers=BEARER))
        for one in (ann, elsewhere[0]):
            await closes(one)
        others = [await opens(one) for one in (key, elsewhere[1])]
        (await program.delete(f"/admin/sessions/{by_kind['admin key']['id']}", headers=BEARER))
        await closes(key)
        await closes(elsewhere[1])
        left = (await program.get("/admin/sessions", headers=BEARER)).json()["sessions"]
        unknown = await program.delete("/admin/sessions/x", headers=BEARER)
        for browser in elsewhere:
            await browser.aclose()

    assert before == [True] * 4
    assert len(listed) == 2
    assert {name: by_kind["provider"][name] for name in ("who", "subject", "role", "address")} == {
        "who": "alice",
        "subject": "alice",
        "role": "viewer",
        "address": "127.0.0.1",
    }
    assert (by_kind["admin key"]["who"], by_kind["admin key"]["role"]) == ("admin key", "admin")
    assert others == [True, True]
    assert left == []
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "session_not_found")


async def test_people_see_and_end_their_own_sessions_admins_all(two: tuple[Door, Door]) -> None:
    at, _ = two
    async with AsyncExitStack() as stack:
        ann, again, bob, boss = [await stack.enter_async_context(at.browser()) for _ in range(4)]
        for browser, sub, group in (
            (ann, "ann", "staff"),
            (again, "ann", "staff"),
            (bob, "bob", "oncall"),
            (boss, "boss", "platform"),
        ):
            at.provider.claims = {"sub": sub}
            await at.sign_in(browser, group)
        seen = {
            name: (await one.get("/admin/sessions")).json()["sessions"]
            for name, one in (("ann", ann), ("bob", bob), ("boss", boss))
        }
        ids = {one["who"]: one["id"] for one in seen["boss"]}
        foreign = await bob.delete(f"/admin/sessions/{ids['ann']}", headers=OWN_PAGE)
        (other,) = [one["id"] for one in seen["ann"] if not one["current"]]
        cross_site = await ann.delete(f"/admin/sessions/{other}")
        own = await ann.delete(f"/admin/sessions/{other}", headers=OWN_PAGE)
        await closes(again)
        kept = await opens(ann)
        ended = await boss.delete(f"/admin/sessions/{ids['bob']}", headers=OWN_PAGE)
        await closes(bob)

    assert [one["who"] for one in seen["ann"]] == ["ann", "ann"]
    assert [one["who"] for one in seen["bob"]] == ["bob"]
    assert sorted(one["who"] for one in seen["boss"]) == ["ann", "ann", "bob", "boss"]
    assert (foreign.status_code, cross_site.status_code) == (404, 403)
    assert own.status_code == ended.status_code == 200
    assert kept


async def test_signing_out_ends_copies_of_the_cookie_everywhere(two: tuple[Door, Door]) -> None:
    first, second = two
    async with first.browser() as browser, second.browser() as thief:
        await first.sign_in(browser, "platform")
        thief.cookies.set(COOKIE, browser.cookies[COOKIE], "127.0.0.1", "/admin")
        before = await opens(thief)
        answer = await browser.post("/admin/sign-out", headers=OWN_PAGE)
        await closes(thief)

    assert before
    assert (answer.status_code, answer.headers["location"]) == (303, "/admin/sign-in")
    assert COOKIE not in browser.cookies


async def test_a_session_survives_a_restart_and_another_key_ends_it(tmp_path: Path) -> None:
    async with sign_in_stand_in() as provider:
        async with door(provider, tmp_path) as at, at.browser() as browser:
            await at.sign_in(browser, "staff")
            value = browser.cookies[COOKIE]
        async with door(provider, tmp_path) as at, at.browser() as browser:
            browser.cookies.set(COOKIE, value, "127.0.0.1", "/admin")
            restarted = await opens(browser)
        other = "admin_key: another-key-of-the-operator"
        async with door(provider, tmp_path, auth=other) as at, at.browser() as browser:
            browser.cookies.set(COOKIE, value, "127.0.0.1", "/admin")
            after = await opens(browser)

    assert (restarted, after) == (True, False)


class Clock:
    """A wall clock that the test moves."""

    def __init__(self) -> None:
        self.at = time.time()

    def __call__(self) -> float:
        return self.at


class Desks:
    """Processes of a gateway, each with its own desk. lifetime_s: of sessions, may change."""

    def __init__(self, folder: Path) -> None:
        self.driver = DepartingDriver(folder / "strowger.db")
        self.store = SqlStore(self.driver)
        self.clock = Clock()
        self.lifetime_s = 3600
        self.folder = folder
        self.rows = self.store.admin_sessions
        self.made: list[AdminSessions] = []

    def desk(self, rows: SessionRows | None = None, spool: str = "spool") -> AdminSessions:
        tokens = SessionTokens(Auth(admin_key=Secret(ADMIN_KEY), admin_oidc=OIDC))
        made = AdminSessions(
            lambda: tokens,
            lambda: self.lifetime_s,
            EndedSessions(self.folder / spool, self.clock),
            rows or self.rows,
            self.clock,
        )
        self.made.append(made)
        return made


def carrying(value: str) -> list[tuple[bytes, bytes]]:
    return [(b"cookie", f"a=b; {COOKIE}={value}".encode())]


@asynccontextmanager
async def desks(folder: Path) -> AsyncGenerator[Desks]:
    found = Desks(folder)
    yield found
    for one in found.made:
        await one.close()
    found.store.close()


def broken_rows(folder: Path) -> SessionRows:
    """Rows in a database that cannot be opened: its folder does not exist."""
    return open_store(Secret(f"sqlite:///{folder / 'none' / 'x.db'}")).admin_sessions


async def test_a_session_ends_with_its_lifetime_also_if_that_is_shortened_later(
    tmp_path: Path,
) -> None:
    async with desks(tmp_path) as at:
        desk = at.desk()
        opened = await desk.begin(KEY_HOLDER, "")
        until = at.clock.at + 3600
        at.clock.at = until - 2
        late = await desk.find(carrying(opened.value))
        at.lifetime_s = 1800
        shortened = await desk.find(carrying(opened.value))
        at.lifetime_s = 10_000_000
        at.clock.at = until + 1
        after = await desk.find(carrying(opened.value))
        left = await desk.all()

    assert opened.lasts_s == 3600
    assert late is not None
    assert shortened is None
    assert after is None
    assert left == []


async def test_the_last_use_is_stored_now_and_then(tmp_path: Path) -> None:
    async with desks(tmp_path) as at:
        desk = at.desk()
        opened = await desk.begin(KEY_HOLDER, "10.0.0.1")
        at.clock.at += SEEN_S + 5
        await desk.find(carrying(opened.value))
        async with asyncio.timeout(60):
            while (await desk.all())[0].seen != at.clock.at:  # noqa: ASYNC110  a thread decides
                await asyncio.sleep(0.01)


async def test_a_person_has_so_many_sessions_at_most_and_the_oldest_ends(tmp_path: Path) -> None:
    async with desks(tmp_path) as at:
        desk = at.desk()
        values: list[str] = []
        for _ in range(MOST_EACH + 2):
            at.clock.at += 1
            values.append((await desk.begin(KEY_HOLDER, "")).value)
        found = await desk.all()
        held = [await desk.find(carrying(one)) is not None for one in values]

    assert len(found) == MOST_EACH
    assert held == [False] * 2 + [True] * MOST_EACH


async def test_a_forged_cookie_never_reaches_the_store(tmp_path: Path) -> None:
    async with desks(tmp_path) as at:
        desk = at.desk(broken_rows(tmp_path))
        guessed = SessionTokens(Auth(admin_key=Secret("a guess")))
        value, _ = guessed.issue(TokenKind.LISTED_KEY, 2**40)

        assert await desk.find(carrying(value)) is None


async def test_while_the_store_is_away_known_sessions_stay_and_the_key_opens_new_ones(
    tmp_path: Path,
) -> None:
    async with desks(tmp_path) as at:
        seeing, other = at.desk(), at.desk()
        opened = await seeing.begin(KEY_HOLDER, "")
        ended = await seeing.begin(KEY_HOLDER, "")
        for value in (opened.value, ended.value):
            assert await seeing.find(carrying(value)) is not None
        at.driver.away = True
        await asyncio.sleep(FRESH_S)

        stays = await seeing.find(carrying(opened.value))
        with pytest.raises(Unavailable, match="the store is unreachable, so this session"):
            await other.find(carrying(opened.value))
        new = await other.begin(KEY_HOLDER, "")
        with pytest.raises(Unavailable, match="cannot be used to sign in"):
            await other.begin(ANN, "")
        accepted = await seeing.find(carrying(new.value))
        with pytest.raises(Unavailable, match="the session has ended in this gateway"):
            await seeing.sign_out(carrying(ended.value))
        gone = [await one.find(carrying(ended.value)) for one in (seeing, other)]
        await seeing.sign_out(carrying(new.value))
        unlisted = await seeing.find(carrying(new.value))

        at.driver.away = False
        desk = at.desk(spool="of-a-gateway")
        async with asyncio.timeout(60):
            while await desk.find(carrying(ended.value)) is not None:  # noqa: ASYNC110  another task decides
                await asyncio.sleep(0.05)
        still = await desk.find(carrying(opened.value))

    assert stays is not None
    assert (new.lasts_s, accepted is not None) == (UNLISTED_S, True)
    assert gone == [None, None]
    assert unlisted is None
    assert still is not None


async def test_what_was_ended_before_a_restart_is_ended_in_the_store_after_it(
    tmp_path: Path,
) -> None:
    async with desks(tmp_path) as at:
        first = at.desk()
        opened = await first.begin(KEY_HOLDER, "")
        session = await first.find(carrying(opened.value))
        assert session is not None
        away = at.desk(broken_rows(tmp_path))
        with pytest.raises(Unavailable):
            await away.end(session)
        await away.close()
        restarted = at.desk()
        restarted.start()
        desk = at.desk(spool="of-a-gateway")
        async with asyncio.timeout(60):
            while await desk.find(carrying(opened.value)) is not None:  # noqa: ASYNC110  another task decides
                await asyncio.sleep(0.05)
