"""Tokens of an identity provider on the wire: accepted, refused, and whom they stand for."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from strowger_gateway.gateway.governance.identities.compact_token import MOST_BYTES
from strowger_gateway.gateway.storage.sql.key_rows import KeyList
from tests.gateway.serving import Serving, one_model, serving
from tests.stand_ins.identity_provider import (
    IdentityProvider,
    ec_key,
    ed_key,
    identity_provider,
    pem,
    public_jwk,
    rsa_key,
)
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

CONFIG = """
  - {{name: spare, aliases: [extra], backends: [{{provider: remote, model: m-2}}]}}
  - {{name: other, backends: [{{provider: remote, model: m-3}}]}}
teams:
  - {{name: red, models: [chat, spare]}}
  - {{name: blue}}
{more}
auth:
  mode: keys
  metrics: client
  keys: [{{name: of-the-file, key: key-of-the-file}}]
  jwt:
    - name: corp
      issuer: {issuer}
      audience: [another, strowger]
      {fields}
"""
HELLO = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
CHAT = "/v1/chat/completions"


@asynccontextmanager
async def accepting(
    issuer: IdentityProvider, run_dir: Path, fields: str = "", more: str = ""
) -> AsyncGenerator[Serving, None]:
    """A gateway that accepts the provider's tokens."""
    async with provider() as remote:
        text = CONFIG.format(issuer=issuer.url, fields=fields, more=more)
        async with serving(one_model(remote.base_url, text), run_dir) as gateway:
            yield gateway


async def send(
    gateway: Serving, token: str, path: str = CHAT, header: str = "authorization", **more: object
) -> httpx.Response:
    value = f"Bearer {token}" if header == "authorization" else token
    headers = {header: value, "anthropic-version": "2023-06-01"}
    async with httpx.AsyncClient(base_url=gateway.url, headers=headers, timeout=60) as client:
        return await client.post(path, json={**HELLO, **more})


async def test_a_token_opens_models_under_its_issuers_and_its_own_name(tmp_path: Path) -> None:
    async with identity_provider() as issuer, accepting(issuer, tmp_path) as gateway:
        token = issuer.token()
        answers = [
            await send(gateway, token),
            await send(gateway, token, header="x-api-key"),
            await send(gateway, token),
            await send(gateway, "key-of-the-file"),
        ]
        async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
            bearer = {"authorization": f"Bearer {token}"}
            models = (await client.get("/v1/models", headers=bearer)).json()["data"]
            metrics = await client.get("/metrics", headers=bearer)
        lines = gateway.access_lines()

    assert [answer.status_code for answer in answers] == [200] * 4
    assert [model["id"] for model in models] == ["chat", "spare", "other", "extra"]
    assert 'strowger_identity_provider_up{issuer="corp"} 1.0' in metrics.text
    assert issuer.fetches == 1
    assert [line.key for line in lines] == ["corp/alice"] * 3 + ["of-the-file"]
    assert token.split(".")[1] not in gateway.log.getvalue().decode()


@pytest.mark.parametrize(
    ("algorithm", "key"), [("PS256", rsa_key), ("ES256", ec_key), ("EdDSA", ed_key)]
)
async def test_each_kind_of_key_that_issuers_use_is_accepted(
    algorithm: str, key: Callable[[], object], tmp_path: Path
) -> None:
    made = {"PS256": rsa_key(), "ES256": ec_key(), "EdDSA": ed_key()}[algorithm]
    async with identity_provider() as issuer, accepting(issuer, tmp_path) as gateway:
        issuer.keys = [public_jwk(made, "first", use="sig", x5c=["AAAA"], alg=algorithm)]
        signed = await send(gateway, issuer.token(made, algorithm))
        nameless = await send(gateway, issuer.token(made, algorithm, {"kid": None}))

    assert (signed.status_code, nameless.status_code) == (200, 200)


def by_hand(header: dict[str, object], claims: dict[str, object], secret: bytes = b"") -> str:
    """A token that no library makes."""
    parts = [base64.urlsafe_b64encode(json.dumps(one).encode()) for one in (header, claims)]
    signed = b".".join(part.rstrip(b"=") for part in parts)
    mac = hmac.digest(secret, signed, hashlib.sha256)
    return (signed + b"." + base64.urlsafe_b64encode(mac).rstrip(b"=")).decode()


def claims_of(issuer: IdentityProvider) -> dict[str, object]:
    return {"iss": issuer.url, "aud": "strowger", "sub": "mallory", "exp": time.time() + 600}


def changed(token: str) -> str:
    """Another subject under the same signature."""
    head, body, signature = token.split(".")
    text = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)).replace(b"alice", b"admin")
    return f"{head}.{base64.urlsafe_b64encode(text).decode().rstrip('=')}.{signature}"


Maker = Callable[[IdentityProvider], str]
HOSTILE: dict[str, tuple[Maker, int, str, str]] = {
    "wrong audience": (lambda i: i.token(aud="somebody-else"), 401, "invalid_token", "claim aud"),
    "no audience": (lambda i: i.token(aud=None), 401, "invalid_token", "claim aud"),
    "expired": (lambda i: i.token(exp=1), 401, "token_expired", "claim exp"),
    "no expiry": (lambda i: i.token(exp=None), 401, "invalid_token", "claim exp"),
    "expiry is a text": (
        lambda i: by_hand({"alg": "RS256"}, {**claims_of(i), "exp": "never"}),
        401,
        "invalid_token",
        "signature",
    ),
    "not yet": (lambda i: i.token(nbf=2e9), 401, "token_not_yet_valid", "claim nbf"),
    "from the future": (lambda i: i.token(iat=2e9), 401, "token_not_yet_valid", "claim iat"),
    "another issuer": (lambda i: i.token(iss="https://evil"), 401, "invalid_token", "claim iss"),
    "issuer is a list": (
        lambda i: by_hand({"alg": "RS256"}, {**claims_of(i), "iss": [i.url]}),
        401,
        "invalid_token",
        "claim iss",
    ),
    "changed claims": (lambda i: changed(i.token()), 401, "invalid_token", "signature"),
    "another key": (lambda i: i.token(rsa_key(9)), 401, "invalid_token", "signature"),
    "none": (
        lambda i: by_hand({"alg": "none"}, claims_of(i)).rpartition(".")[0] + ".AA",
        401,
        "invalid_token",
        "header alg",
    ),
    "the public key as a secret": (
        lambda i: by_hand({"alg": "HS256", "kid": "first"}, claims_of(i), pem(rsa_key())),
        401,
        "invalid_token",
        "header alg",
    ),
    "kid is a path": (
        lambda i: i.token(headers={"kid": "../../../dev/null"}),
        401,
        "invalid_token",
        "header kid",
    ),
    "kid is a number": (
        lambda i: by_hand({"alg": "RS256", "kid": 7}, claims_of(i)),
        401,
        "invalid_token",
        "its header",
    ),
    "its own keys": (
        lambda i: i.token(
            rsa_key(9),
            headers={"jku": "http://127.0.0.1:1/keys", "jwk": public_jwk(rsa_key(9), "first")},
        ),
        401,
        "invalid_token",
        "signature",
    ),
    "an extension": (
        lambda i: by_hand({"alg": "RS256", "crit": ["b64"], "b64": False}, claims_of(i)),
        401,
        "invalid_token",
        "header crit",
    ),
    "a logout token": (
        lambda i: i.token(headers={"typ": "logout+jwt"}),
        401,
        "invalid_token",
        "header typ",
    ),
    "huge": (lambda i: i.token(padding="x" * MOST_BYTES), 401, "invalid_token", "bytes"),
    "nested": (lambda i: "eyJ." + "W1tb" * 1500 + ".AA", 401, "invalid_token", "its header"),
    "not base64": (lambda i: "eyJ.!!.AA", 401, "invalid_token", "damaged"),
    "empty parts": (lambda i: "eyJ..", 401, "invalid_token", "damaged"),
    "no name": (lambda i: i.token(sub=None), 403, "token_not_allowed", "claim sub"),
    "unprintable name": (lambda i: i.token(sub="a\nb"), 403, "token_not_allowed", "claim sub"),
}


@pytest.mark.parametrize("case", HOSTILE)
async def test_a_token_that_is_not_genuine_is_refused_by_the_name_of_its_claim(
    case: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make, status, code, words = HOSTILE[case]
    async with identity_provider() as issuer, accepting(issuer, tmp_path) as gateway:
        token = make(issuer)
        answer = await send(gateway, token)
        lines = gateway.access_lines()

    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, code)
    assert words in error["message"]
    assert lines[0].key == ""
    seen = answer.text + gateway.log.getvalue().decode() + caplog.text
    assert all(part not in seen for part in token.split(".") if len(part) > 20)
    assert "mallory" not in seen


async def test_a_refused_token_is_reported_in_each_apis_format(tmp_path: Path) -> None:
    async with identity_provider() as issuer, accepting(issuer, tmp_path) as gateway:
        token = issuer.token(exp=1)
        answers = [
            await send(gateway, token, path, input="hi", max_tokens=5)
            for path in (
                CHAT,
                "/v1/messages",
                "/v1/responses",
                "/serving-endpoints/chat/invocations",
                "/v2/models/chat/generate",
                "/infer_token",
            )
        ]
        async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
            bearer = {"authorization": f"Bearer {token}"}
            answers.append(await client.get("/v1/models", headers=bearer))

    assert [answer.status_code for answer in answers] == [401] * len(answers)
    assert all("claim exp: the token expired at 1970" in answer.text for answer in answers)
    assert answers[1].json()["error"]["type"] == "authentication_error"


RIGHTS = """require: {hd: example.com}
      teams: {"0f1c-group": red, "77aa-group": blue}
      max_priority: 3
      claims: {name: preferred_username, user: email, team: groups,
               models: realm_access.roles, max_priority: "https://example.com/priority"}"""


async def test_claims_decide_the_name_the_team_the_models_and_the_priority(
    tmp_path: Path,
) -> None:
    async with identity_provider() as issuer, accepting(issuer, tmp_path, RIGHTS) as gateway:

        def token(**more: object) -> str:
            claims = {
                "hd": "example.com",
                "preferred_username": "bob",
                "email": "bob@example.com",
                "groups": ["77aa-group", "0f1c-group", "unknown"],
                "realm_access": {"roles": ["offline_access", "ch*", "other"]},
            }
            return issuer.token(more={**claims, **more})

        opened = await send(gateway, token(), model="chat")
        not_the_teams = await send(gateway, token(), model="other")
        not_its_own = await send(gateway, token(), model="spare")
        urgent = await send(gateway, token(), priority=2)
        more_urgent = await send(gateway, token(**{"https://example.com/priority": 1}), priority=2)
        foreign = await send(gateway, token(hd="evil.example"))
        teamless = await send(gateway, token(groups=["unknown"]))
        without_roles = await send(gateway, token(realm_access=None))
        strange = await send(gateway, token(**{"https://example.com/priority": 9}))
        lines = gateway.access_lines()

    assert opened.status_code == 200
    assert (not_the_teams.status_code, not_its_own.status_code) == (404, 404)
    assert urgent.headers["x-gateway-repairs"] == "priority:max_priority"
    assert "x-gateway-repairs" not in more_urgent.headers
    assert foreign.json()["error"]["code"] == "token_not_allowed"
    assert "claim hd" in foreign.text
    assert teamless.json()["error"]["code"] == "team_not_found"
    assert without_roles.status_code == 404
    assert "claim https://example.com/priority" in strange.text
    assert lines[0].key == "corp/bob"


async def test_callers_with_tokens_are_held_to_limits_like_keys(tmp_path: Path) -> None:
    limits = """
limits:
  - {name: per-caller, who: {any: true}, each: key, requests: 2}
  - {name: of-red, who: {team: red}, requests: 3}
  - {name: of-bob, who: {user: bob@example.com}, requests: 1}
"""
    fields = "{team: groups, user: email}"
    async with (
        identity_provider() as issuer,
        accepting(issuer, tmp_path, f"claims: {fields}", limits) as gateway,
    ):
        red = {"groups": "red", "email": "a@example.com"}
        statuses = [
            (await send(gateway, issuer.token(more={**red, **more}))).status_code
            for more in (
                {},
                {},
                {},  # the third of alice
                {"sub": "carol"},
                {"sub": "dave"},  # the fourth of red
                {"sub": "bob", "groups": "blue", "email": "bob@example.com"},
                {"sub": "rob", "groups": "blue", "email": "bob@example.com"},  # the same user
            )
        ]

    assert statuses == [200, 200, 429, 200, 429, 200, 429]


async def test_a_key_of_the_file_that_looks_like_a_token_stays_a_key(tmp_path: Path) -> None:
    async with identity_provider() as issuer:
        token = issuer.token()
        config = CONFIG.format(issuer=issuer.url, fields="", more="")
        async with provider() as remote:
            text = one_model(remote.base_url, config.replace("key-of-the-file", token))
            async with serving(text, tmp_path) as gateway:
                gateway.state.runtime.access.issued.push(KeyList(version=1, keys=()))
                statuses = [(await send(gateway, token)).status_code for _ in range(2)]
                lines = gateway.access_lines()

    assert statuses == [200, 200]
    assert [line.key for line in lines] == ["of-the-file", "of-the-file"]
