"""No change of a genuine token is accepted, wherever it is, and none is an internal error."""

import asyncio
import json
import time
from typing import cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from strowger_gateway.gateway.config.schema.identities import Issuer
from strowger_gateway.gateway.governance.identities.claims import claim_at
from strowger_gateway.gateway.governance.identities.compact_token import decoded
from strowger_gateway.gateway.governance.identities.issuer_keys import KnownIssuers
from strowger_gateway.gateway.governance.identities.key_set import read_key_set
from strowger_gateway.gateway.governance.identities.token_callers import MOST_KNOWN, TokenCallers
from strowger_gateway.schemas.errors import GatewayError
from tests.stand_ins.identity_provider import IdentityProvider, public_jwk, rsa_key
from tests.stand_ins.provider import Provider

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=+/ "
ISSUER = IdentityProvider()
ISSUER.server = Provider(ISSUER.behave)
ISSUER.server.port = 1
TOKEN = ISSUER.token(exp=time.time() + 86_400)  # a long run collects much earlier


def callers() -> TokenCallers:
    """With the issuer's keys, as if they had been fetched."""
    issuers = KnownIssuers((Issuer(name="corp", issuer=ISSUER.url, audience=("strowger",)),))
    issuers.keys[0].current = read_key_set(
        json.dumps({"keys": [public_jwk(rsa_key(), "first")]}).encode()
    )
    return TokenCallers(issuers)


@settings(deadline=None)
@example(place=TOKEN.find("-", TOKEN.rfind(".")), letter="+")
@given(place=st.integers(0, len(TOKEN) - 1), letter=st.sampled_from(ALPHABET))
def test_a_token_with_a_changed_letter_is_refused(place: int, letter: str) -> None:
    changed = TOKEN[:place] + letter + TOKEN[place + 1 :]
    (signed, _, signature), (before, _, own) = changed.rpartition("."), TOKEN.rpartition(".")
    # The text before the signature is signed; of a signature, only its bytes count. "+" and "/"
    # mean "-" and "_", but only in the other base64.
    same = signed == before and _bytes(signature) == _bytes(own) and letter not in "+/"

    try:
        found = asyncio.run(callers().caller(changed.encode())).name
    except GatewayError as refused:  # 503: another key's id, and this issuer cannot be reached
        found = {401: "refused", 403: "refused", 503: "refused"}[refused.status]

    assert found == ("corp/alice" if same else "refused")


def _bytes(part: str) -> bytes:
    try:
        return decoded(part.encode())
    except ValueError:
        return b"unreadable"


@pytest.mark.anyio
async def test_tokens_that_are_remembered_are_bounded_and_the_oldest_goes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "strowger_gateway.gateway.governance.identities.token_callers.MOST_KNOWN", 3
    )
    found = callers()
    tokens = [ISSUER.token(jti=str(n)).encode() for n in range(4)]

    for token in tokens:
        await found.caller(token)

    assert [found.known(token) is not None for token in tokens] == [False, True, True, True]
    assert MOST_KNOWN > 1000


@given(st.recursive(st.text(max_size=3), lambda inner: st.dictionaries(st.text(max_size=3), inner)))
def test_every_claim_of_a_token_can_be_named_by_its_path(claims: object) -> None:
    whole: dict[str, object] = {"top": claims}

    path: list[str] = ["top"]
    value = claims
    while isinstance(value, dict) and value:
        inner = cast("dict[str, object]", value)
        name = min(inner)
        path.append(name)
        value = inner[name]

    found = claim_at(whole, ".".join(path))
    assert found == value or any("." in name or not name for name in path)
