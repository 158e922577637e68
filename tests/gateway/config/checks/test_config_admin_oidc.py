"""`auth.admin_oidc`: what is refused, with the place and the remedy."""

import pytest

from tests.gateway.config.configs import GOOD, faults, read, warnings

PLACE = "auth.admin_oidc"
FIELDS = {
    "issuer": "https://login.example.com",
    "client_id": "strowger",
    "public_url": "https://gateway.example.com",
    "role_claim": "groups",
    "roles": "{a: admin}",
}


def configured(**changes: str | None) -> str:
    fields = {name: one for name, one in {**FIELDS, **changes}.items() if one is not None}
    row = ", ".join(f"{name}: {one}" for name, one in fields.items())
    return f"{GOOD}auth: {{admin_oidc: {{{row}}}}}\nteams: [{{name: red}}]\n"


def test_it_is_read_with_its_defaults_and_needs_no_admin_key() -> None:
    auth = read(configured()).auth

    assert auth.admin
    assert auth.admin_session_s == 43_200
    assert auth.admin_oidc is not None
    assert auth.admin_oidc.scopes == ("openid", "profile", "email")
    assert auth.admin_oidc.roles == {"a": "admin"}
    assert not auth.admin_oidc.client_secret
    assert warnings(configured()) == []


FAULTS: list[tuple[dict[str, str | None], str]] = [
    ({"issuer": None}, f"{PLACE}.issuer: is missing"),
    ({"issuer": "login.example.com"}, f'{PLACE}.issuer: "login.example.com" is not a URL such as '),
    ({"issuer": "http://login.example.com"},
     f'{PLACE}.issuer: "http://login.example.com" is not https: anyone on the way could let'),
    ({"issuer": "https://a:b@login.example.com"},
     f"{PLACE}.issuer: must not contain a user or a password"),
    ({"public_url": "http://gateway.example.com"},
     f'{PLACE}.public_url: "http://gateway.example.com" is not https: anyone on the way'),
    ({"public_url": "https://gateway.example.com/llm"},
     f'{PLACE}.public_url: "https://gateway.example.com/llm" has a path; give the scheme and the'),
    ({"public_url": '"https://gateway.example.com?a=b"'}, f"{PLACE}.public_url: "),
    ({"scopes": "[profile]"}, f"{PLACE}.scopes: lacks openid"),
    ({"scopes": '["openid profile"]'}, f"{PLACE}.scopes[0]: expected a scope of OAuth 2.0"),
    ({"roles": "{}"}, f"{PLACE}.roles: is empty, and there is no default_role"),
    ({"roles": "{a: root}"}, f"{PLACE}.roles.a: "),
    ({"default_role": "root"}, f"{PLACE}.default_role: "),
    ({"teams": "{x: red}"}, f"{PLACE}.team_claim: is missing; teams needs the claim"),
    ({"team_claim": "t", "teams": "{x: rde}"},
     f'{PLACE}.teams.x: no team is named "rde"; did you mean "red"?'),
    ({"algorithms": "[]"}, f"{PLACE}.algorithms: is empty"),
    ({"algorithms": "[none]"}, f"{PLACE}.algorithms[0]: "),
    ({"algorithms": "[HS256]"}, f"{PLACE}.algorithms[0]: "),
    ({"ca_file": "/nowhere.pem"}, f"{PLACE}.ca_file: "),
    ({"client_secrets": "x"}, f'{PLACE}.client_secrets: unknown key; did you mean "client_'),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "told"), FAULTS)
def test_what_cannot_be_meant_is_refused(changes: dict[str, str | None], told: str) -> None:
    found = faults(configured(**changes))

    assert any(one.startswith(told) for one in found), found


def test_admin_for_everyone_is_a_warning() -> None:
    found = warnings(configured(default_role="admin"))

    assert any("default_role: is admin" in one for one in found)


def test_loopback_needs_no_tls() -> None:
    read(configured(issuer="http://localhost:8080", public_url="http://127.0.0.1:8080"))


@pytest.mark.parametrize("lifetime", ["59", "2592001", "12h"])
def test_a_session_lasts_a_minute_to_a_month(lifetime: str) -> None:
    text = f"{GOOD}auth: {{admin_key: key-of-the-operator, admin_session_s: {lifetime}}}\n"

    (found,) = faults(text)

    assert found.startswith("auth.admin_session_s: expected an integer from 60 to 2592000")
