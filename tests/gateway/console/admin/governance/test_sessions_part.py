"""`/admin/view/sessions`: who is signed in, and ending sessions in a browser."""

import re
from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from strowger_gateway.gateway.console.admin.governance.sessions import (
    MOST_SHOWN,
    SessionPart,
    sessions_section,
)
from strowger_gateway.gateway.console.admin.sessions import SessionView
from tests.gateway.console.admin.governance.pages import NOW, text_of
from tests.gateway.governance.sign_in.provider_stand_in import SignInStandIn, sign_in_stand_in
from tests.gateway.governance.sign_in.signing_in import ADMIN_KEY, door

pytestmark = pytest.mark.anyio
HERE = {"sec-fetch-site": "same-origin"}
PART = "/admin/view/sessions"


@pytest.fixture
async def provider() -> AsyncGenerator[SignInStandIn]:
    async with sign_in_stand_in() as found:
        yield found


def endings(page: httpx.Response) -> list[str]:
    """The addresses of the buttons."""
    return re.findall(r'action="(/admin/view/sessions/[^"]+/end)"', page.text)


async def test_admins_end_all_sessions_and_others_their_own(
    provider: SignInStandIn, tmp_path: Path
) -> None:
    async with (
        door(provider, tmp_path) as at,
        at.browser() as alice,
        at.browser() as admin,
        at.browser() as nobody,
    ):
        await at.sign_in(alice, "staff")
        await admin.post("/admin/sign-in", data={"key": ADMIN_KEY}, headers=HERE)
        seen, own = await admin.get(PART), await alice.get(PART)
        (hers,) = endings(own)
        (other,) = set(endings(seen)) - {hers}
        foreign = await alice.post(other, headers=HERE)
        from_elsewhere = await admin.post(hers, headers={"sec-fetch-site": "cross-site"})
        before = await alice.get(PART)
        done = await admin.post(hers, headers=HERE, follow_redirects=True)
        again = await admin.post(hers, headers=HERE)
        after = await alice.get(PART)
        anyone = await nobody.get(PART)

    assert "alice viewer" in text_of(seen.text)
    assert "this browser" in text_of(own.text)
    assert "admin key" not in text_of(own.text).partition("Sessions Who")[2]
    assert foreign.status_code == 404
    assert from_elsewhere.status_code == 403
    assert before.status_code == 200
    assert "The session is ended." in text_of(done.text)
    assert endings(done) == [other]
    assert (again.status_code, "This session has ended already" in again.text) == (404, True)
    assert [one.status_code for one in (after, anyone)] == [303, 303]


def view(number: int, who: str = "ann") -> SessionView:
    return SessionView(
        id=f"{number:x}",
        who=who,
        kind="provider",
        subject="1",
        role="viewer",
        teams=("red", "<b>"),
        address="10.0.0.1",
        since=NOW - timedelta(hours=1),
        last_seen=NOW,
        expires=NOW + timedelta(hours=11),
        current=False,
    )


def test_names_are_text_and_a_long_list_says_that_it_is_not_all() -> None:
    evil = "<script>alert(1)</script>"
    shown = sessions_section(SessionPart(sessions=[view(1, evil)], now=NOW))
    long = sessions_section(SessionPart(sessions=[view(n) for n in range(MOST_SHOWN + 2)], now=NOW))

    assert evil not in shown
    assert "&lt;script&gt;" in shown
    assert "red, &lt;b&gt;" in shown
    assert long.count("<form") == MOST_SHOWN
    assert "2 more are not shown" in long
    assert "no sessions" in sessions_section(SessionPart(sessions=[], now=NOW))
