"""Set up the identity provider for /admin; without one, nothing of this room is loaded."""

from typing import TYPE_CHECKING

from strowger_gateway.gateway.config.schema.auth import Auth

if TYPE_CHECKING:
    from strowger_gateway.gateway.governance.sign_in.provider import SignInProvider


def sign_in_provider(auth: Auth, before: "SignInProvider | None") -> "SignInProvider | None":
    """Return the provider of `auth.admin_oidc`, `None` without one. before: as last returned.

    Raises InvalidConfig for certificates that cannot be used.
    """
    settings = auth.admin_oidc
    if settings is None:
        return None
    if before is not None and before.settings == settings:
        return before
    from strowger_gateway.gateway.governance.sign_in.provider import (
        SignInProvider,  # late: 24 MB, needed by few gateways
    )

    return SignInProvider(settings)
