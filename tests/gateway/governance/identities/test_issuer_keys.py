"""Keys of an identity provider over time: rotated, withdrawn, out of reach, too old."""

import asyncio
import logging
from pathlib import Path

import pytest

from strowger_gateway.gateway.governance.identities import issuer_keys
from tests.gateway.governance.identities.test_tokens import accepting, send
from tests.gateway.serving import Serving
from tests.stand_ins.identity_provider import (
    IdentityProvider,
    identity_provider,
    public_jwk,
    rsa_key,
)

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def no_cooldown(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COOLDOWN_S", "RETRY_S"):
        monkeypatch.setattr(issuer_keys, name, 0.0)


def rotate(issuer: IdentityProvider) -> None:
    """Replace the key, as an emergency does."""
    issuer.keys = [public_jwk(rsa_key(1), "second")]


async def fetched(gateway: Serving) -> None:
    """Fetch the keys again, as the gateway does every five minutes."""
    issuers = gateway.state.runtime.access.issuers
    assert issuers is not None
    (keys,) = issuers.keys
    before = sum(keys.fetches.values())
    keys.tick()
    while sum(keys.fetches.values()) == before:  # noqa: ASYNC110  nothing reports it
        await asyncio.sleep(0.005)


async def test_a_new_key_is_fetched_once_for_all_that_wait_for_it(tmp_path: Path) -> None:
    async with identity_provider() as issuer, accepting(issuer, tmp_path) as gateway:
        old = issuer.token()
        first = await send(gateway, old)
        issuer.keys.append(public_jwk(rsa_key(1), "second"))
        tokens = [issuer.token(rsa_key(1), headers={"kid": "second"}, jti=str(n)) for n in range(8)]
        answers = await asyncio.gather(*(send(gateway, token) for token in tokens))
        again = await send(gateway, old)

    assert {one.status_code for one in (first, *answers, again)} == {200}
    assert issuer.fetches == 2


async def test_unknown_keys_do_not_make_the_gateway_fetch_more_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issuer_keys, "COOLDOWN_S", 60.0)
    async with identity_provider() as issuer, accepting(issuer, tmp_path) as gateway:
        statuses = [
            (await send(gateway, issuer.token(headers={"kid": f"made-up-{n}"}))).status_code
            for n in range(5)
        ]
        genuine = await send(gateway, issuer.token())

    assert statuses == [401] * 5
    assert genuine.status_code == 200
    assert issuer.fetches == 1


async def test_a_token_that_was_accepted_ends_with_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issuer_keys, "REFRESH_S", 0.0)
    async with identity_provider() as issuer, accepting(issuer, tmp_path) as gateway:
        token = issuer.token()
        before = await send(gateway, token)
        rotate(issuer)
        await fetched(gateway)
        after = await send(gateway, token)
        new = await send(gateway, issuer.token(rsa_key(1), headers={"kid": "second"}))

    assert (before.status_code, after.status_code, new.status_code) == (200, 401, 200)
    assert "header kid" in after.text


@pytest.mark.parametrize("mode", ["broken", "garbage"])
async def test_the_last_keys_are_kept_while_the_provider_is_away(
    mode: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(issuer_keys, "REFRESH_S", 0.0)
    caplog.set_level(logging.INFO)
    async with identity_provider() as issuer, accepting(issuer, tmp_path) as gateway:
        known = issuer.token()
        await send(gateway, known)
        issuer.mode = "broken" if mode == "broken" else "garbage"
        await fetched(gateway)
        new = await send(gateway, issuer.token(sub="bob"))
        by_new_key = await send(gateway, issuer.token(rsa_key(1), headers={"kid": "second"}))
        issuer.mode = "well"
        await fetched(gateway)
        back = await send(gateway, known)

    assert (new.status_code, back.status_code) == (200, 200)
    assert by_new_key.status_code == 503
    assert by_new_key.json()["error"]["code"] == "identity_provider_unavailable"
    assert by_new_key.headers["retry-after"]
    assert "keeping its last keys" in caplog.text
    assert "can be reached again" in caplog.text


async def test_keys_that_are_too_old_are_used_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issuer_keys, "REFRESH_S", 0.0)
    async with (
        identity_provider() as issuer,
        accepting(issuer, tmp_path, "max_stale_s: 0.001") as gateway,
    ):
        token = issuer.token()
        fresh = await send(gateway, token)
        issuer.mode = "broken"
        await asyncio.sleep(0.01)
        await fetched(gateway)
        stale = await send(gateway, token)

    assert (fresh.status_code, stale.status_code) == (200, 503)


@pytest.mark.parametrize(
    "mode", ["broken", "garbage", "silent", "another issuer", "weak", "secret"]
)
async def test_a_provider_that_cannot_be_used_is_never_an_internal_error(
    mode: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(
        "strowger_gateway.gateway.governance.identities.issuer_documents.FETCH_S", 0.1
    )
    async with identity_provider() as issuer, accepting(issuer, tmp_path) as gateway:
        if mode == "another issuer":
            issuer.issuer = "https://login.example.com/realms/b"
        elif mode == "weak":
            issuer.keys = [public_jwk(rsa_key(0, 1024), "first")]
        elif mode == "secret":
            issuer.keys = [{"kty": "oct", "k": "c2VjcmV0c2VjcmV0", "kid": "first"}]
        else:
            issuer.mode = "broken" if mode == "broken" else "garbage"
            issuer.mode = "silent" if mode == "silent" else issuer.mode
        answers = [await send(gateway, issuer.token()) for _ in range(2)]
        key = await send(gateway, "key-of-the-file")

    assert [one.status_code for one in answers] == [503, 503]
    assert answers[0].json()["error"]["code"] == "identity_provider_unavailable"
    assert "'corp'" in answers[0].text
    assert key.status_code == 200
    assert caplog.text.count("identity provider corp cannot be used; refusing its tokens") == 1
    if mode == "another issuer":
        assert "letter by letter" in caplog.text


async def test_a_reload_keeps_the_keys_of_providers_that_did_not_change(tmp_path: Path) -> None:
    async with identity_provider() as issuer, accepting(issuer, tmp_path) as gateway:
        await send(gateway, issuer.token())
        known = gateway.state.runtime.access.issuers
        assert known is not None
        same = issuer_keys.KnownIssuers(known.settings, known)

    assert same.keys[0] is known.keys[0]
