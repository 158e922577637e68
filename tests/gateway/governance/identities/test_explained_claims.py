"""`strowger explain --claims` and /admin/explain say what a gateway answers to a genuine token."""

import base64
import json
from pathlib import Path

import httpx
import msgspec
import pytest

from strowger_gateway.gateway.console.explain.explanation import Explanation
from tests.gateway.cli.command_line import run
from tests.gateway.governance.identities.test_tokens import HELLO, accepting, send
from tests.stand_ins.identity_provider import identity_provider

OPERATOR = "key-of-the-operator"
FIELDS = f"""require: {{hd: example.com}}
      claims: {{team: groups, plan: tier}}
  admin_key: {OPERATOR}"""
PLANS = """
plans: [{name: gold, limits: [{requests: 3, tokens: 90}]}, {name: tiny, limits: [{tokens: 1}]}]
"""
GOLD: dict[str, object] = {"hd": "example.com", "groups": ["red"], "tier": "gold"}
CLAIMS: dict[str, dict[str, object]] = {
    "a caller with a plan": GOLD,
    "too small a plan": {**GOLD, "tier": "tiny"},
    "another issuer": {**GOLD, "iss": "https://evil"},
    "another audience": {**GOLD, "aud": "somebody-else"},
    "expired": {**GOLD, "exp": 1},
    "not yet valid": {**GOLD, "nbf": 2e9},
    "a required claim": {**GOLD, "hd": "example.org"},
    "no team": {**GOLD, "groups": ["green"]},
    "no plan": {**GOLD, "tier": None},
    "an unknown plan": {**GOLD, "tier": "platinum"},
}


def claims_of(token: str) -> bytes:
    body = token.split(".")[1]
    return base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))


@pytest.mark.anyio
@pytest.mark.parametrize("case", CLAIMS)
async def test_claims_are_explained_as_a_token_with_them_is_answered(
    case: str, tmp_path: Path
) -> None:
    async with (
        identity_provider() as issuer,
        accepting(issuer, tmp_path, FIELDS, PLANS) as gateway,
    ):
        token = issuer.token(more=CLAIMS[case])
        headers = {"authorization": f"Bearer {OPERATOR}"}
        async with httpx.AsyncClient(base_url=gateway.url, headers=headers, timeout=60) as operator:
            told = await operator.post(
                "/admin/explain", json=HELLO, params={"claims": claims_of(token).decode()}
            )
        answer = await send(gateway, token)
        line = gateway.access_lines()[-1]

    found = msgspec.json.decode(told.content, type=Explanation)
    assert told.status_code == 200
    if answer.status_code == 200:
        assert found.refused is None
        assert (found.key, found.team, found.plan) == (line.key, line.team, "gold")
        assert [one.name for one in found.limits] == ["plan:gold/minute"] * 2
        assert found.candidates[0].backend == answer.headers["x-gateway-backend"]
    else:
        error = answer.json()["error"]
        assert found.refused is not None
        assert (found.refused.status, found.refused.code) == (answer.status_code, error["code"])
        assert found.refused.message == error["message"]


CONFIG = """
providers: [{name: one, adapter: openai, api_key: k}]
models: [{name: chat, backends: [{provider: one, model: m}]}]
teams: [{name: red, models: [chat], limits: [{requests: 5}]}]
"""
JWT = """
auth:
  mode: keys
  keys: [{name: anne, key: k1}]
  jwt: [{name: corp, issuer: "https://id.test", audience: [strowger], team: red}]
"""
ALICE = {"iss": "https://id.test", "aud": "strowger", "sub": "alice", "exp": 4e9}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.yaml").write_text(CONFIG + JWT)
    (tmp_path / "claims.json").write_text(json.dumps(ALICE))
    return tmp_path


def explained(folder: Path, *words: str, claims: str = "claims.json") -> tuple[int, str]:
    """Return the exit status and what is printed."""
    given = ("--config", str(folder / "config.yaml"), "--claims", str(folder / claims))
    result = run("explain", "-", *given, *words, typed=json.dumps(HELLO))
    return result.exit_code, result.output


def test_the_command_shows_whom_claims_stand_for(folder: Path) -> None:
    status, text = explained(folder)

    assert status == 0
    assert [line.split() for line in text.splitlines()[2:4]] == [
        ["key", "corp/alice"],
        ["team", "red"],
    ]
    assert "team:red/minute" in text


@pytest.mark.parametrize(
    ("claims", "words", "printed"),
    [
        ('{"iss": "https://id.test", "aud": "strowger", "exp": 4e9}', (), "claim sub: is missing"),
        ("[]", (), "claims: expected the JSON object of a token's claims"),
        ("", (), "claims: expected the JSON object of a token's claims"),
        (json.dumps(ALICE), ("--key", "anne"), "key, claims: a caller has one of them"),
    ],
)
def test_the_command_names_what_is_wrong_with_claims(
    folder: Path, claims: str, words: tuple[str, ...], printed: str
) -> None:
    (folder / "claims.json").write_text(claims)

    status, text = explained(folder, *words)

    assert status == 1
    assert printed in text
    assert "Traceback" not in text


def test_claims_need_a_configuration_that_accepts_tokens(folder: Path) -> None:
    (folder / "config.yaml").write_text(CONFIG)

    assert explained(folder) == (
        1,
        "400: claims: the gateway accepts no tokens; that takes auth.jwt, and auth.mode: keys\n",
    )
    assert "cannot read" in explained(folder, claims="nowhere.json")[1]
