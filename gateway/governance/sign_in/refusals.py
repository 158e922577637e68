"""Why a sign-in with the identity provider fails. Messages hold no code, no token, no secret."""

from strowger_gateway.schemas.errors import Forbidden, InvalidRequest, Unauthenticated, Unavailable


class WrongAttempt(InvalidRequest):
    """The answer does not belong to a sign-in that this browser has begun."""

    code = "sign_in_state_invalid"


class RefusedByProvider(Unauthenticated):
    """The identity provider did not let the person in, or did not accept the code."""

    code = "sign_in_refused"


class RefusedToken(Unauthenticated):
    """The ID token is not one that proves this sign-in."""

    code = "sign_in_token_invalid"


class NoRole(Forbidden):
    """The person is known to the provider, and has no role here."""

    code = "role_not_found"


class ProviderUnavailable(Unavailable):
    code = "identity_provider_unavailable"


def error_code(sent: str) -> str:
    """Return a provider's error code if it is one, to be shown; else "".

    https://www.rfc-editor.org/rfc/rfc6749#section-4.1.2.1
    """
    plain = len(sent) <= 64 and sent.isascii() and sent.replace("_", "").isalnum()
    return sent if plain else ""
