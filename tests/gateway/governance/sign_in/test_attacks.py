"""What an attacker may try at the sign-in to /admin: each attempt is refused with a reason."""

import asyncio
import html
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from strowger_gateway.gateway.governance.sessions.cookie import COOKIE
from strowger_gateway.gateway.governance.sign_in.attempt import (
    LASTS_S,
    LEEWAY_S,
    attempt_of,
    new_attempt,
)
from strowger_gateway.gateway.governance.sign_in.provider import MOST_EXCHANGES, MOST_WAITING_EACH
from strowger_gateway.schemas.holdings import RESERVED
from tests.gateway.governance.identities.test_tokens import by_hand
from tests.gateway.governance.sign_in.provider_stand_in import (
    CLIENT,
    SECRET,
    SignInStandIn,
    sign_in_stand_in,
)
from tests.gateway.governance.sign_in.signing_in import (
    ADMIN_KEY,
    BEGIN,
    CALLBACK,
    PUBLIC_URL,
    Door,
    door,
)
from tests.stand_ins.identity_provider import rsa_key

pytestmark = pytest.mark.anyio

FORWARDED = "x-forwarded-for"


@pytest.fixture
async def provider() -> AsyncGenerator[SignInStandIn]:
    async with sign_in_stand_in() as found:
        yield found


@pytest.fixture
async def at(provider: SignInStandIn, tmp_path: Path) -> AsyncGenerator[Door]:
    async with door(provider, tmp_path) as found:
        yield found


@pytest.fixture(scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Door]:
    """For tests that fail at nothing, which an address may do ten times."""
    folder = tmp_path_factory.mktemp("shared")
    async with sign_in_stand_in() as found, door(found, folder) as at:
        yield at


def refused(answer: httpx.Response, status: int, *words: str) -> None:
    """The answer is a page that says why, and opens nothing."""
    text = html.unescape(answer.text)
    assert (answer.status_code, answer.headers["content-type"]) == (
        status,
        "text/html; charset=utf-8",
    ), text
    assert 'role="alert"' in text
    for word in words:
        assert word.lower() in text.lower(), text
    assert f"{COOKIE}=" not in answer.headers.get("set-cookie", "")


async def test_an_answer_without_a_state_is_refused(at: Door) -> None:
    async with at.browser() as browser:
        url = at.provider.answer_url(await at.begun(browser), state=None)
        refused(await at.back(browser, url), 400, "no state", "start again")

    assert at.provider.forms == [], "the code is not even exchanged"


@pytest.mark.parametrize("state", ["", "x", "ü", "a" * 5000])
async def test_an_answer_with_another_state_is_refused(at: Door, state: str) -> None:
    async with at.browser() as browser:
        url = at.provider.answer_url(await at.begun(browser), state=state)
        refused(await at.back(browser, url), 400, "start again")

    assert at.provider.forms == []


async def test_the_state_of_another_browser_signs_nobody_in(at: Door) -> None:
    """Login CSRF: a victim's browser is sent to the answer of a sign-in that the attacker began."""
    async with at.browser() as attacker, at.browser() as victim:
        url = at.provider.answer_url(await at.begun(attacker))
        nothing_begun = await at.back(victim, url)
        await at.begun(victim)
        begun = await at.back(victim, url)

    refused(nothing_begun, 400, "no sign-in was started in this browser")
    refused(begun, 400, "the state of another sign-in")
    assert at.provider.forms == []


async def test_an_answer_opens_one_session_however_often_it_is_sent(at: Door) -> None:
    """Even with a copy of the cookie, and a provider that accepts a code twice."""
    at.provider.claims = {"groups": ["staff"]}
    async with at.browser() as browser:
        authorization_url = await at.begun(browser)
        url = at.provider.answer_url(authorization_url)
        copy = dict(browser.cookies)
        first = await at.back(browser, url)
        again = await at.back(browser, url)
    async with httpx.AsyncClient(base_url=at.gateway.url, cookies=copy, timeout=60) as thief:
        code_again = await at.back(thief, url)
    async with httpx.AsyncClient(base_url=at.gateway.url, cookies=copy, timeout=60) as thief:
        same_state = await at.back(thief, at.provider.answer_url(authorization_url))

    assert first.status_code == 200
    refused(again, 400, "no sign-in was started in this browser")
    refused(code_again, 401, "did not accept the code (invalid_grant)")
    refused(same_state, 400, "this sign-in was used before")


@pytest.mark.parametrize(
    ("ahead_s", "known"),
    [
        (0, True),
        (LEEWAY_S - 1, True),
        (LEEWAY_S + 2, False),
        (-LASTS_S + 2, True),
        (-LASTS_S, False),
    ],
)
def test_a_gateway_ends_what_one_with_another_clock_began(ahead_s: float, known: bool) -> None:
    """A cookie that is valid for much longer than one begun now is no cookie of a gateway."""
    at = 1_800_000_000.0

    found = attempt_of(new_attempt("/admin", at + ahead_s).cookie, at)

    assert (found is not None) is known


async def test_a_token_for_another_sign_in_is_refused(at: Door) -> None:
    at.provider.claims = {"nonce": "of another sign-in", "groups": ["platform"]}
    async with at.browser() as browser:
        refused(await at.sign_in(browser, "platform"), 401, "claim nonce: is not of this sign-in")


@pytest.mark.parametrize("nonce", [None, 7, ["x"]])
async def test_a_token_without_a_proper_nonce_is_refused(at: Door, nonce: object) -> None:
    at.provider.claims = {"nonce": nonce}
    async with at.browser() as browser:
        refused(await at.sign_in(browser, "platform"), 401, "claim nonce")


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"aud": "another client"}, "claim aud"),
        ({"aud": ["another client"]}, "claim aud"),
        ({"aud": None}, "claim aud"),
        ({"aud": [CLIENT, "another"]}, "claim azp"),
        ({"aud": [CLIENT, "another"], "azp": "another"}, "claim azp"),
        ({"azp": "another"}, "claim azp"),
        ({"exp": 1_000_000}, "expired at 1970"),
        ({"exp": None}, "claim exp"),
        ({"iat": time.time() + 3600}, "in the future"),
        ({"iss": "https://elsewhere.test"}, "claim iss"),
        ({"sub": None}, "claim sub"),
    ],
)
async def test_a_token_with_wrong_claims_is_refused(
    at: Door, claims: dict[str, object], words: str
) -> None:
    at.provider.claims = claims
    async with at.browser() as browser:
        refused(await at.sign_in(browser, "platform"), 401, words)


async def test_a_token_for_several_that_was_issued_to_this_client_is_accepted(at: Door) -> None:
    at.provider.claims = {"aud": [CLIENT, "another"], "azp": CLIENT}
    async with at.browser() as browser:
        assert (await at.sign_in(browser, "platform")).status_code == 200


@pytest.mark.parametrize("algorithm", ["none", "HS256", "RS256"])
async def test_a_token_that_the_provider_did_not_sign_is_refused(at: Door, algorithm: str) -> None:
    async with at.browser() as browser:
        url = await at.begun(browser)
        (nonce,) = parse_qs(urlsplit(url).query)["nonce"]
        claims: dict[str, object] = {
            "iss": at.provider.url, "aud": CLIENT, "sub": "mallory", "nonce": nonce,
            "exp": time.time() + 600, "groups": ["platform"],
        }  # fmt: skip
        header: dict[str, object] = {"alg": algorithm, "kid": "first"}
        at.provider.token_sent = (
            at.provider.token(rsa_key(1), more=claims)
            if algorithm == "RS256"
            else by_hand(header, claims, SECRET.encode())
        )
        answer = await at.back(browser, at.provider.answer_url(url))

    refused(answer, 401, "signature" if algorithm == "RS256" else "header alg")


@pytest.mark.parametrize("sent", ["https://evil.test", ""])
async def test_an_answer_of_another_provider_is_refused(at: Door, sent: str) -> None:
    """Mix-up: https://www.rfc-editor.org/rfc/rfc9207"""
    async with at.browser() as browser:
        url = at.provider.answer_url(await at.begun(browser), iss=sent)
        answer = await at.back(browser, url)
    if sent:
        refused(answer, 401, "not of this identity provider", "names another issuer")
        assert at.provider.forms == [], "the code goes to nobody"
    else:
        assert answer.status_code in (200, 403)


async def test_a_provider_that_names_itself_must_do_so(
    provider: SignInStandIn, tmp_path: Path
) -> None:
    provider.more = {"authorization_response_iss_parameter_supported": True}
    provider.claims = {"groups": ["staff"]}
    async with door(provider, tmp_path) as at, at.browser() as browser:
        silent = await at.back(browser, provider.answer_url(await at.begun(browser)))
        url = provider.answer_url(await at.begun(browser), iss=provider.url)
        named = await at.back(browser, url)

    refused(silent, 401, "iss is missing")
    assert named.status_code == 200


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.test/", "//evil.test", "/\\evil.test", "/admin@evil.test", "/adminevil",
        "/admin/../v1", "/admin//evil.test", "/admin?a=<script>", "javascript:alert(1)",
        "/admin\r\nset-cookie: a=b", "/admin#x", "/admin/" + "a" * 5000, "admin", "",
    ],
)  # fmt: skip
async def test_nobody_is_sent_elsewhere_after_signing_in(shared: Door, target: str) -> None:
    shared.provider.claims = {"groups": ["staff"]}
    async with shared.browser() as browser:
        begin = str(httpx.URL(BEGIN, params={"return_to": target}))
        url = shared.provider.answer_url(await shared.begun(browser, begin))
        answer = await shared.back(browser, url)
    async with shared.browser() as browser:
        by_key = await browser.post("/admin/sign-in", data={"key": ADMIN_KEY, "return_to": target})

    assert 'content="0; url=/admin"' in answer.text
    assert by_key.headers["location"] == "/admin"


async def test_what_was_wanted_is_shown_after_signing_in(at: Door) -> None:
    at.provider.claims = {"groups": ["staff"]}
    async with at.browser() as browser:
        sent = (await browser.get("/admin?window=1h")).headers["location"]
        form = await browser.get(sent)
        begin = f"{BEGIN}?return_to=%2Fadmin%3Fwindow%3D1h"
        answer = await at.back(browser, at.provider.answer_url(await at.begun(browser, begin)))

    assert sent == "/admin/sign-in?return_to=%2Fadmin%3Fwindow%3D1h"
    assert f'href="{begin}"' in form.text
    assert 'content="0; url=/admin?window=1h"' in answer.text


async def test_a_planted_session_is_not_taken_over(at: Door) -> None:
    """Fixation: whatever cookie the browser has, signing in makes a new one and ends the old."""
    at.provider.claims = {"groups": ["staff"]}
    async with at.browser() as attacker, at.browser() as victim:
        await at.sign_in(attacker, "staff")
        planted = attacker.cookies[COOKIE]
        victim.cookies.set(COOKIE, planted, "127.0.0.1", "/admin")
        await at.sign_in(victim, "platform")
        own = victim.cookies[COOKIE]
        after = await attacker.get("/admin/live")

    assert own != planted
    assert after.status_code == 401


async def test_a_provider_that_says_no_is_quoted_by_its_code_only(at: Door) -> None:
    async with at.browser() as browser:
        url = await at.begun(browser)
        (state,) = parse_qs(urlsplit(url).query)["state"]
        query = {"state": state, "error": "access_denied", "error_description": "<b>call 555</b>"}
        answer = await browser.get(CALLBACK, params=query)
        await at.begun(browser)
        unbegun = await browser.get(CALLBACK, params=query)

    refused(answer, 401, "Corp refused the sign-in: access_denied")
    assert "555" not in answer.text
    refused(unbegun, 400)


async def test_a_parameter_that_comes_twice_is_not_one(at: Door) -> None:
    async with at.browser() as browser:
        url = at.provider.answer_url(await at.begun(browser))
        (state,) = parse_qs(urlsplit(url).query)["state"]
        refused(await at.back(browser, f"{url}&state={state}"), 400, "no state")


async def test_people_without_a_role_are_refused_by_name(at: Door) -> None:
    async with at.browser() as browser:
        answer = await at.sign_in(browser, "marketing")
        refused(answer, 403, "alice has no role here", "claim groups")
        assert (await browser.get("/admin/live")).status_code == 401


@pytest.mark.parametrize("verified", [False, None, "false"])
async def test_an_address_that_the_provider_has_not_verified_gives_no_role(
    provider: SignInStandIn, tmp_path: Path, verified: object
) -> None:
    provider.claims = {"email": "boss@example.com", "email_verified": verified}
    roles = {"boss@example.com": "admin"}
    async with door(provider, tmp_path, role_claim="email", roles=roles, user_claim=None) as at:
        async with at.browser() as browser:
            refused(await at.sign_in(browser), 403, "alice has no role here")
            provider.claims["email_verified"] = True
            assert (await at.sign_in(browser)).status_code == 200


async def test_strangers_who_began_no_sign_in_wait_and_keep_out_only_themselves(at: Door) -> None:
    """All have one address, as behind a proxy that the gateway does not trust."""
    answers: list[httpx.Response] = []
    async with at.browser() as browser, at.browser() as stranger:
        begun = at.provider.answer_url(await at.begun(browser))
        while not answers or int(answers[-1].headers.get("retry-after", "0")) < 4:
            answers.append(await stranger.get(f"{CALLBACK}?code=x&state=y"))
            await asyncio.sleep(0.05 if answers[-1].status_code == 429 else 0)
        asked = list(at.provider.forms)
        again = await stranger.get(f"{CALLBACK}?code=x&state=y")
        at.provider.claims |= {"groups": ["platform"]}
        signed_in = await at.back(browser, begun)
        key = await stranger.post("/admin/sign-in", data={"key": ADMIN_KEY})

    statuses = [answer.status_code for answer in answers]
    assert statuses[:11] == [400] * 11
    refused(again, 429, "too many failed sign-ins from this address")
    assert int(again.headers["retry-after"]) >= 1
    assert asked == [], "nothing is asked of the provider"
    assert signed_in.status_code == 200
    assert key.status_code == 303


async def test_codes_of_a_strangers_invention_do_not_take_the_turn_of_another_address(
    provider: SignInStandIn, tmp_path: Path
) -> None:
    async with door(provider, tmp_path, server="{trusted_proxies: [127.0.0.1]}") as at:
        provider.claims |= {"groups": ["platform"]}
        provider.hold = asyncio.Event()
        async with at.browser() as browser, at.browser() as stranger:
            begun = provider.answer_url(await at.begun(browser))
            invented = new_attempt("/admin", time.time())
            stranger.cookies.set("strowger_sign_in", invented.cookie)
            url = f"{CALLBACK}?code=x&state={invented.state}"
            flood = [
                asyncio.create_task(stranger.get(url, headers={FORWARDED: "192.0.2.1"}))
                for _ in range(MOST_EXCHANGES + MOST_WAITING_EACH)
            ]
            await provider.received(MOST_EXCHANGES - MOST_EXCHANGES // RESERVED)
            path = begun.removeprefix(PUBLIC_URL)
            signing_in = asyncio.create_task(browser.get(path, headers={FORWARDED: "192.0.2.2"}))
            await provider.received(len(provider.forms) + 1)
            provider.hold.set()
            answers = await asyncio.gather(*flood)
            signed_in = await signing_in

    assert signed_in.status_code == 200
    assert {one.status_code for one in answers} <= {401, 503}


async def test_tokens_codes_and_secrets_are_in_no_log_no_page_and_no_address(
    at: Door, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "strowger")
    async with at.browser() as browser:
        url = await at.begun(browser)
        answer_url = at.provider.answer_url(url)
        at.provider.claims = {"groups": ["staff"]}
        done = await at.back(browser, answer_url)
        wrong = await at.back(browser, answer_url)
        page = await browser.get("/admin")
        sessions = await browser.get("/admin/sessions")
        secret = browser.cookies[COOKIE]
    verifier = at.provider.forms[0]["code_verifier"]
    logged = at.gateway.log.getvalue().decode() + caplog.text
    logged += "".join(line.path for line in at.gateway.access_lines())
    shown = done.text + wrong.text + page.text + sessions.text

    for hidden in (SECRET, "opaque-access", "code-0", verifier, secret, ADMIN_KEY):
        assert hidden not in logged
        assert hidden not in shown
        assert hidden not in url
    assert done.headers["referrer-policy"] == "no-referrer"
    assert done.headers["cache-control"] == "no-store"
