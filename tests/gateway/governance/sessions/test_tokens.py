"""The value of a session's cookie: only the gateway that issued it accepts it, unchanged."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from strowger_gateway.gateway.config.schema.admin_oidc import AdminOidc
from strowger_gateway.gateway.config.schema.auth import Auth
from strowger_gateway.gateway.governance.sessions.tokens import SessionTokens, TokenKind
from strowger_gateway.schemas.secret import Secret

OIDC = AdminOidc(
    issuer="https://login.example.com",
    client_id="strowger",
    client_secret=Secret("of the client"),
    public_url="https://gateway.example.com",
    role_claim="groups",
    roles={"a": "admin", "b": "viewer"},
)
AUTH = Auth(admin_key=Secret("key-of-the-operator"), admin_oidc=OIDC)
TOKENS = SessionTokens(AUTH)
KINDS = st.sampled_from(TokenKind)


@given(kind=KINDS, until=st.integers(0, 2**40))
def test_a_value_is_read_as_it_was_issued(kind: TokenKind, until: int) -> None:
    value, id = TOKENS.issue(kind, until)

    token = SessionTokens(AUTH).read(value)

    assert token is not None
    assert (token.kind, token.id, token.until) == (kind, id, until)
    assert id not in value


@given(kind=KINDS, place=st.integers(0, 56), bit=st.integers(0, 7))
def test_a_value_with_any_bit_turned_is_refused(kind: TokenKind, place: int, bit: int) -> None:
    value, _ = TOKENS.issue(kind, 1_000_000)
    data = bytearray(base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)))
    data[place] ^= 1 << bit

    assert TOKENS.read(base64.urlsafe_b64encode(data).decode()) is None


@given(value=st.text(max_size=120))
def test_any_other_value_is_refused_and_breaks_nothing(value: str) -> None:
    assert TOKENS.read(value) is None


@pytest.mark.parametrize("kind", TokenKind)
def test_another_admin_key_ends_every_session(kind: TokenKind) -> None:
    value, _ = TOKENS.issue(kind, 1_000_000)

    assert SessionTokens(replace(AUTH, admin_key=Secret("another-key"))).read(value) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"issuer": "https://elsewhere.example.com"},
        {"client_id": "another"},
        {"roles": {"a": "viewer"}},
        {"role_claim": "roles"},
        {"default_role": "viewer"},
        {"team_claim": "teams"},
        {"require": {"hd": "example.com"}},
    ],
)
def test_a_change_of_who_may_do_what_ends_the_sessions_of_the_provider(
    changed: dict[str, object],
) -> None:
    by_key, _ = TOKENS.issue(TokenKind.LISTED_KEY, 1_000_000)
    by_provider, _ = TOKENS.issue(TokenKind.LISTED_PROVIDER, 1_000_000)
    after = SessionTokens(replace(AUTH, admin_oidc=replace(OIDC, **changed)))

    assert after.read(by_provider) is None
    assert after.read(by_key) is not None


def test_another_timeout_or_button_ends_no_session() -> None:
    value, _ = TOKENS.issue(TokenKind.LISTED_PROVIDER, 1_000_000)
    after = SessionTokens(replace(AUTH, admin_oidc=replace(OIDC, name="Corp", timeout_s=3.0)))

    assert after.read(value) is not None


def test_without_a_way_in_its_sessions_are_refused() -> None:
    by_key, _ = TOKENS.issue(TokenKind.LISTED_KEY, 1_000_000)
    by_provider, _ = TOKENS.issue(TokenKind.LISTED_PROVIDER, 1_000_000)

    assert SessionTokens(replace(AUTH, admin_key=Secret(""))).read(by_key) is None
    assert SessionTokens(replace(AUTH, admin_oidc=None)).read(by_provider) is None
