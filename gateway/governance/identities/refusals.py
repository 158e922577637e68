"""Why a token is refused. Messages name the claim and the remedy, and nothing of the token."""

from strowger_gateway.gateway.governance.access.auth import WrongKey
from strowger_gateway.schemas.errors import Forbidden, Unauthenticated, Unavailable


class WrongToken(WrongKey):
    """The token is not one that this gateway accepts; counted like a wrong key."""

    code = "invalid_token"


class ExpiredToken(Unauthenticated):
    code = "token_expired"


class EarlyToken(Unauthenticated):
    code = "token_not_yet_valid"


class TokenNotAllowed(Forbidden):
    """The token is genuine, and its claims do not admit its caller."""

    code = "token_not_allowed"


class IssuerUnavailable(Unavailable):
    """The keys of the identity provider are not known, or not new enough."""

    code = "identity_provider_unavailable"
