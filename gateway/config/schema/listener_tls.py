"""The shape of `server.tls` and `server.cors`: the address where the gateway listens."""

from typing import Literal

from msgspec import Struct

from strowger_gateway.gateway.config.schema.units import Name, Path
from strowger_gateway.schemas.secret import Secret


class CorsConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """allow_origins: origins whose pages may call the gateway; "*" allows every origin."""

    allow_origins: tuple[Name, ...] = ()


class ListenerTls(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """PEM files, which are read again when they change.

    cert:         the certificate, followed by its intermediates.
    key:          its private key; `None`: in the same file. key_password: if it is encrypted.
    client_ca:    authorities of client certificates; `None`: clients have none.
    client_certificates: optional: a client without one may connect, with a wrong one it may not.
    """

    cert: Path
    key: Path | None = None
    key_password: Secret = Secret("")
    client_ca: Path | None = None
    client_certificates: Literal["required", "optional"] = "required"
    min_version: Literal["1.2", "1.3"] = "1.2"
