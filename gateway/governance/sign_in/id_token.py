"""Check an ID token: its signature, and that it proves this sign-in at this gateway.

https://openid.net/specs/openid-connect-core-1_0.html#IDTokenValidation
"""

import hmac
from typing import cast

from strowger_gateway.gateway.config.schema.identities import Issuer
from strowger_gateway.gateway.governance.identities.claims import Claims, check_claims
from strowger_gateway.gateway.governance.identities.compact_token import read_token
from strowger_gateway.gateway.governance.identities.issuer_keys import IssuerKeys
from strowger_gateway.gateway.governance.identities.key_set import signed
from strowger_gateway.gateway.governance.sign_in.refusals import RefusedToken
from strowger_gateway.schemas.errors import Forbidden, Unauthenticated


async def verified_claims(
    token: bytes, keys: IssuerKeys, issuer: Issuer, nonce: str, at: float
) -> Claims:
    """Return the claims. issuer: its `audience` is the client. at: Unix seconds.

    Raises RefusedToken, and IssuerUnavailable if the provider's keys cannot be fetched.
    """
    try:
        read = read_token(token)
        claims, header = read.claims, read.header
        if claims.get("iss") != issuer.issuer:
            raise RefusedToken("claim iss: the token is of another issuer")
        if header.alg not in issuer.algorithms:
            raise RefusedToken(
                "header alg: the gateway does not accept this algorithm; allowed: "
                + ", ".join(issuer.algorithms)
            )
        key = await keys.find_fresh(header.kid, header.alg)
        if not signed(token, key, header.alg):
            raise RefusedToken("its signature is not valid")
        check_claims(claims, issuer, at)
    except (Unauthenticated, Forbidden) as exc:
        raise RefusedToken(f"the provider's ID token was refused: {exc.message}") from exc
    _check_party(claims, issuer.audience[0])
    sent = claims.get("nonce")
    if not isinstance(sent, str) or not hmac.compare_digest(sent.encode(), nonce.encode()):
        raise RefusedToken(
            "the provider's ID token was refused: claim nonce: is not of this sign-in"
        )
    return claims


def _check_party(claims: Claims, client_id: str) -> None:
    """A token for several audiences has to say that it was issued to this client."""
    party, audience = claims.get("azp"), claims.get("aud")
    several = isinstance(audience, list) and len(cast("list[object]", audience)) > 1
    if party != client_id and (party is not None or several):
        raise RefusedToken(
            "the provider's ID token was refused: claim azp: it was issued to another client"
        )
