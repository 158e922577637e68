"""Who uses /admin, and what its role allows."""

from typing import Final, Literal

from msgspec import Struct

from strowger_gateway.gateway.config.schema.admin_oidc import Role

Kind = Literal["admin key", "provider"]
"""How someone got in: with the operator's key, or through the identity provider."""

_RANK: Final[dict[Role, int]] = {"viewer": 0, "operator": 1, "admin": 2}


class Principal(Struct, frozen=True, kw_only=True):
    """subject: the provider's id of the person, "" for the key. name: as shown and logged.

    teams: whose API keys it may manage as an operator; an admin may manage all.
    """

    kind: Kind
    name: str
    role: Role
    subject: str = ""
    teams: tuple[str, ...] = ()

    def may(self, needed: Role) -> bool:
        """Return whether its role includes the one that is needed."""
        return _RANK[self.role] >= _RANK[needed]

    def manages(self, team: str) -> bool:
        """Return whether it may manage the API keys of a team; "" is the keys without a team."""
        return self.may("admin") or (self.may("operator") and team != "" and team in self.teams)


KEY_HOLDER: Final = Principal(kind="admin key", name="admin key", role="admin")


def highest(roles: "list[Role]") -> Role | None:
    """Return the role that includes the others; `None` without any."""
    return max(roles, key=_RANK.__getitem__, default=None)
