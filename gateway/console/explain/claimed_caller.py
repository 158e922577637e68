"""Find the caller that a token with certain claims would have."""

import time

import msgspec

from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.governance.access.auth import Caller
from strowger_gateway.gateway.governance.identities.claims import caller_of, check_claims, issuer_of
from strowger_gateway.schemas.errors import InvalidRequest


def claimed_caller(claims: bytes, config: Config) -> Caller:
    """Return the caller of a token with these claims, a JSON object, whose signature is valid.

    Raises InvalidRequest if they are not an object or no tokens are accepted, and what the gateway
    would answer to such a token: Unauthenticated and Forbidden.
    """
    auth = config.auth
    if not auth.jwt or auth.mode == "none":
        raise InvalidRequest(
            "claims: the gateway accepts no tokens; that takes auth.jwt, and auth.mode: keys",
            param="claims",
        )
    try:
        read = msgspec.json.decode(claims, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise InvalidRequest(
            f"claims: expected the JSON object of a token's claims: {exc}", param="claims"
        ) from exc
    issuer = issuer_of(read, {one.issuer: one for one in auth.jwt})
    check_claims(read, issuer, time.time())
    teams = {team.name: team for team in config.teams}
    return caller_of(read, issuer, teams, [plan.name for plan in config.plans])
