"""The certificate with which a client opened its connection, and the keys that are bound to one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from strowger_gateway.gateway.server.tls.certificate import CERTIFICATE, Certificate
from strowger_gateway.schemas.errors import Forbidden

if TYPE_CHECKING:
    from litestar.types import Scope


def certificate_name(scope: "Scope") -> str:
    """Return the subject of the client's certificate, or a name of it; "" without one."""
    found = cast("Certificate | None", scope["state"].get(CERTIFICATE))
    return "" if found is None else found.name


def check_certificate(name: str, bound: Sequence[str], scope: "Scope") -> None:
    """Raise Forbidden unless the client's certificate is one of those. name: of the key.

    bound: subjects, or subject alternative names, one of which it must have.
    """
    found = cast("Certificate | None", scope["state"].get(CERTIFICATE))
    if found is not None and (found.subject in bound or any(one in bound for one in found.names)):
        return
    error = Forbidden(
        f"the API key {name!r} may not be used with this client certificate"
        if found is not None
        else f"the API key {name!r} may be used with its client certificate only",
        code="certificate_not_allowed",
    )
    error.logged = f"{error.message} ({found.name if found is not None else 'none'})"
    raise error
