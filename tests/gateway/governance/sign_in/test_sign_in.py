"""Sign in to /admin with an identity provider: roles, cookies, and providers in trouble."""

from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest

from strowger_gateway.gateway.governance.sessions.cookie import COOKIE, SECURE_COOKIE
from tests.gateway.governance.sign_in.provider_stand_in import (
    CLIENT,
    SignInStandIn,
    sign_in_stand_in,
)
from tests.gateway.governance.sign_in.signing_in import ADMIN_KEY, BEGIN, door
from tests.gateway.governance.sign_in.test_attacks import refused
from tests.gateway.serving import serving

pytestmark = pytest.mark.anyio


@pytest.fixture
async def provider() -> AsyncGenerator[SignInStandIn]:
    async with sign_in_stand_in() as found:
        yield found


@pytest.mark.parametrize(
    ("groups", "role"),
    [
        (["staff"], "viewer"),
        (["oncall", "staff"], "operator"),
        (["staff", "platform", "x"], "admin"),
        ("platform", "admin"),
    ],
)
async def test_the_highest_role_of_the_claim_counts(
    provider: SignInStandIn, tmp_path: Path, groups: object, role: str
) -> None:
    async with door(provider, tmp_path, role_claim="realm.groups") as at:
        async with at.browser() as browser:
            provider.claims = {"realm": {"groups": groups}}
            done = await at.sign_in(browser)
            page = await browser.get("/admin")
            (session,) = (await browser.get("/admin/sessions")).json()["sessions"]
            lines = at.gateway.access_lines()

    assert done.status_code == 200
    assert "Signed in as alice" in done.text
    assert f'<span>alice</span>\n<span class="tag">{role}</span>' in page.text
    assert (session["who"], session["role"], session["kind"]) == ("alice", role, "provider")
    assert (session["address"], session["current"]) == ("127.0.0.1", True)
    assert [line.actor for line in lines][-3:] == ["alice"] * 3


async def test_a_default_role_lets_everyone_in_whom_the_provider_knows(
    provider: SignInStandIn, tmp_path: Path
) -> None:
    async with door(provider, tmp_path, default_role="viewer") as at, at.browser() as browser:
        await at.sign_in(browser, "marketing")
        (session,) = (await browser.get("/admin/sessions")).json()["sessions"]

    assert session["role"] == "viewer"


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"email": "a@example.com", "email_verified": True}, "a@example.com"),
        ({"email": "a@example.com", "preferred_username": "ali"}, "ali"),
        ({"email": "a@example.com"}, "alice"),
        ({"preferred_username": "x" * 500}, "alice"),
        ({"preferred_username": "a\nb"}, "alice"),
    ],
)
async def test_people_are_called_by_what_the_provider_vouches_for(
    provider: SignInStandIn, tmp_path: Path, claims: dict[str, object], name: str
) -> None:
    provider.claims = claims
    async with door(provider, tmp_path, user_claim=None) as at, at.browser() as browser:
        await at.sign_in(browser, "staff")
        (session,) = (await browser.get("/admin/sessions")).json()["sessions"]

    assert (session["who"], session["subject"]) == (name, "alice")


@pytest.mark.parametrize(
    ("offered", "setting", "way"),
    [
        (None, "auto", "basic"),
        (["client_secret_post", "client_secret_basic"], "auto", "basic"),
        (["client_secret_post"], "auto", "post"),
        (["client_secret_basic"], "post", "post"),
    ],
)
async def test_the_secret_is_sent_as_the_provider_wants_it(
    provider: SignInStandIn, tmp_path: Path, offered: object, setting: str, way: str
) -> None:
    provider.more = {"token_endpoint_auth_methods_supported": offered}
    async with door(provider, tmp_path, token_auth=setting) as at, at.browser() as browser:
        assert (await at.sign_in(browser, "staff")).status_code == 200

    assert ("client_secret" in provider.forms[0]) == (way == "post")


async def test_a_public_client_needs_no_secret(provider: SignInStandIn, tmp_path: Path) -> None:
    provider.secret = ""
    async with door(provider, tmp_path, client_secret="") as at, at.browser() as browser:
        assert (await at.sign_in(browser, "staff")).status_code == 200

    assert provider.forms[0]["client_id"] == CLIENT


async def test_a_wrong_secret_is_named_and_not_shown(
    provider: SignInStandIn, tmp_path: Path
) -> None:
    async with door(provider, tmp_path, client_secret="wrong-secret") as at:
        async with at.browser() as browser:
            answer = await at.sign_in(browser, "staff")

    refused(answer, 401, "does not accept the gateway's client_id or client_secret")
    assert "wrong-secret" not in answer.text


async def test_without_an_admin_key_the_provider_is_the_only_way_in(
    provider: SignInStandIn, tmp_path: Path
) -> None:
    async with door(provider, tmp_path, auth="mode: none") as at, at.browser() as browser:
        form = await browser.get("/admin/sign-in")
        key = await browser.post("/admin/sign-in", data={"key": ""})
        await at.sign_in(browser, "staff")
        page = await browser.get("/admin")

    assert "Sign in with Corp" in form.text
    assert "Operator key" not in form.text
    assert key.status_code == 401
    assert page.status_code == 200


@pytest.mark.parametrize("public_url", ["https://gateway.example.com", "http://127.0.0.1:9999"])
async def test_cookies_are_for_this_gateway_alone(
    provider: SignInStandIn, tmp_path: Path, public_url: str
) -> None:
    """The session's is Strict. The other one has to be sent when the provider's site sends back."""
    provider.claims = {"groups": ["staff"]}
    secure = public_url.startswith("https")
    async with door(provider, tmp_path, public_url=public_url) as at:
        async with httpx.AsyncClient(base_url=at.gateway.url, timeout=60) as browser:
            begun = await browser.get(BEGIN)
            url = provider.answer_url(begun.headers["location"])
            pair = begun.headers["set-cookie"].partition(";")[0]
            done = await browser.get(
                url.removeprefix(public_url.rstrip("/")), headers={"cookie": pair}
            )
    of_attempt = begun.headers["set-cookie"].split("; ")
    set_cookies = [one.split("; ") for one in done.headers.get_list("set-cookie")]
    session, *removed, forgotten = set_cookies

    assert of_attempt[0].startswith("__Host-" if secure else "strowger_sign_in=")
    assert {"HttpOnly", "SameSite=lax", "Path=/"} <= set(of_attempt)
    assert session[0].startswith(f"{SECURE_COOKIE if secure else COOKIE}=")
    assert {"HttpOnly", "SameSite=strict", f"Path={'/' if secure else '/admin'}"} <= set(session)
    assert "Max-Age=0" in forgotten
    assert {"Secure" in one for one in (of_attempt, *set_cookies)} == {secure}
    assert [one[0] for one in removed] == ([f'{COOKIE}=""'] if secure else [])
    assert all({"Max-Age=0", "Path=/admin"} <= set(one) for one in removed)
    assert not any("Domain" in one for one in (*of_attempt, *session))


@pytest.mark.parametrize("mode", ["silent", "huge", "error", "garbage", "bare"])
async def test_a_token_endpoint_in_trouble_is_reported_and_the_next_sign_in_works(
    provider: SignInStandIn, tmp_path: Path, mode: str
) -> None:
    async with door(provider, tmp_path, timeout_s=1.5) as at, at.browser() as browser:
        setattr(provider, "token_mode", mode)  # noqa: B010
        answer = await at.sign_in(browser, "staff")
        provider.token_mode = "well"
        again = await at.sign_in(browser, "staff")

    if mode in ("bare", "garbage"):
        refused(answer, 401, "sent no ID token")
    else:
        refused(answer, 503, "Corp cannot be reached or does not answer", "operator's key")
        assert answer.headers["retry-after"] == "1"
    assert again.status_code == 200


@pytest.mark.parametrize("mode", ["silent", "broken", "garbage"])
async def test_a_provider_that_is_away_leaves_the_key_as_the_way_in(
    provider: SignInStandIn, tmp_path: Path, mode: str
) -> None:
    setattr(provider, "mode", mode)  # noqa: B010
    async with door(provider, tmp_path, timeout_s=0.9) as at, at.browser() as browser:
        answer = await browser.get(BEGIN)
        key = await browser.post("/admin/sign-in", data={"key": ADMIN_KEY})

    refused(answer, 503, "Corp cannot be reached")
    assert key.status_code == 303


@pytest.mark.parametrize(
    "more",
    [
        {"authorization_endpoint": None},
        {"token_endpoint": 7},
        {"issuer": "https://elsewhere.test"},
    ],
)
async def test_a_discovery_document_that_cannot_be_used_is_an_outage(
    provider: SignInStandIn, tmp_path: Path, more: dict[str, object]
) -> None:
    provider.more = more
    async with door(provider, tmp_path) as at, at.browser() as browser:
        refused(await browser.get(BEGIN), 503, "Corp cannot be reached")


async def test_without_a_store_only_the_key_signs_in(
    provider: SignInStandIn, tmp_path: Path
) -> None:
    async with door(provider, tmp_path, store=False) as at, at.browser() as browser:
        answer = await at.sign_in(browser, "platform")
        key = await browser.post("/admin/sign-in", data={"key": ADMIN_KEY})
        page = await browser.get("/admin")

    refused(answer, 503, "the store is unreachable")
    assert (key.status_code, page.status_code) == (303, 200)


async def test_without_a_provider_there_is_no_way_to_begin(tmp_path: Path) -> None:
    text = "auth: {admin_key: key-of-the-operator}\nproviders: []\nmodels: []\n"
    async with serving(text, tmp_path) as gateway:
        async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as browser:
            answers = [await browser.get(path) for path in (BEGIN, "/admin/sign-in/callback")]

    assert [answer.status_code for answer in answers] == [404, 404]
    assert "auth.admin_oidc is not configured" in answers[0].text
