"""Set up the identity providers of a configuration; without any, nothing of this room is loaded."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from strowger_gateway.gateway.config.schema.auth import Auth, CallerPlan, Team
from strowger_gateway.gateway.governance.access.auth import Tokens

if TYPE_CHECKING:
    from strowger_gateway.gateway.governance.identities.issuer_keys import KnownIssuers


def known_issuers(auth: Auth, before: "KnownIssuers | None") -> "KnownIssuers | None":
    """Return the issuers of `auth.jwt`, `None` without any. before: of the previous generation.

    Raises InvalidConfig for certificates that cannot be used.
    """
    if not auth.jwt or auth.mode == "none":
        return None
    from strowger_gateway.gateway.governance.identities.issuer_keys import (
        KnownIssuers,  # late: 24 MB, needed by few gateways
    )

    return KnownIssuers(auth.jwt, before)


def token_callers(
    issuers: "KnownIssuers | None", teams: Sequence[Team], plans: Sequence[CallerPlan]
) -> Tokens | None:
    """issuers: as `known_issuers` returned them."""
    if issuers is None:
        return None
    from strowger_gateway.gateway.governance.identities.token_callers import (
        TokenCallers,  # late: as above
    )

    return TokenCallers(issuers, teams, plans)
