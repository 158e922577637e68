"""Check the files of `server.tls` as a whole, for the operator: `strowger check` and reloads."""

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime

from msgspec import Struct

from strowger_gateway.gateway.server.tls.certificate import (
    Certificate,
    authorities,
    own_certificate,
)
from strowger_gateway.gateway.server.tls.context import context_of
from strowger_gateway.gateway.server.tls.files import TlsFault, TlsFiles

SOON_S = 14 * 86_400
"""Seconds before expiry from which it is worth a warning: certbot renews 30 days before, and
cert-manager after two thirds of the lifetime."""


class Inspection(Struct, frozen=True, kw_only=True):
    """certificates: those that matter, by field of `server.tls`; at least one for each."""

    certificates: dict[str, tuple[Certificate, ...]]

    @property
    def expires(self) -> dict[str, float]:
        """When the first certificate of each file expires, Unix seconds."""
        return {
            field: min(one.not_after for one in many) for field, many in self.certificates.items()
        }

    @property
    def summary(self) -> str:
        """The listener's certificate, for the log."""
        (own,) = self.certificates["cert"]
        return f"{own.name!r}, valid until {instant(own.not_after)}"

    def warnings(self, at: float) -> Iterator[tuple[str, str]]:
        """Yield field and end of a sentence for what can be used and probably should not be.

        at: Unix seconds.
        """
        for field, many in self.certificates.items():
            for one in many:
                if (words := expiry(one.not_after, at)) is not None:
                    yield field, f"{one.name!r} {words}"
                if one.not_before > at:
                    yield field, f"{one.name!r} is not valid before {instant(one.not_before)}"
        if not self.certificates["cert"][0].names:
            yield "cert", "has no subject alternative name, so current clients reject it"


def inspect(files: TlsFiles) -> Inspection:
    """Raises TlsFault if the files cannot be used."""
    context_of(files)
    found: dict[str, tuple[Certificate, ...]] = {}
    try:
        found["cert"] = (own_certificate(files),)
    except ssl.SSLError as exc:
        why = exc.verify_message if isinstance(exc, ssl.SSLCertVerificationError) else str(exc)
        raise TlsFault("cert", f"is not a certificate for a server: {why}") from exc
    if files.client_ca is not None:
        try:
            found["client_ca"] = authorities(files.client_ca)
        except ssl.SSLError as exc:
            raise TlsFault("client_ca", f"has a certificate that cannot be read: {exc}") from exc
        if not found["client_ca"]:
            raise TlsFault("client_ca", "has no certificate of an authority, so no client is valid")
    return Inspection(certificates=found)


def expiry(not_after: float, at: float) -> str | None:
    """The end of a sentence about a certificate that has expired or does so soon. Unix seconds."""
    if not_after - at >= SOON_S:
        return None
    if not_after <= at:
        return f"expired at {instant(not_after)}; its peers reject it"
    days = int((not_after - at) // 86_400)
    return f"expires at {instant(not_after)}, in {days} day{'' if days == 1 else 's'}; renew it"


def instant(at: float) -> str:
    """Format Unix seconds."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
