"""Certificates of an authority of the test, in files as an operator has them."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme
from msgspec import Struct


class Issued(Struct, frozen=True, kw_only=True):
    """A certificate and its key. ca: the file with the authority's certificate."""

    cert: Path
    key: Path
    ca: Path

    @classmethod
    def to(
        cls,
        folder: Path,
        *names: str,
        authority: trustme.CA | None = None,
        stem: str = "server",
        subject: str | None = None,
        days: float = 90.0,
    ) -> "Issued":
        """Issue one for these names. days: until it expires; negative: so long ago."""
        authority = trustme.CA() if authority is None else authority
        until = datetime.now(UTC) + timedelta(days=days)
        issued = authority.issue_cert(
            *names,
            common_name=subject,
            not_before=until - timedelta(days=365),
            not_after=until,
        )
        made = cls(cert=folder / f"{stem}.pem", key=folder / f"{stem}.key", ca=folder / "ca.pem")
        made.cert.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(made.key)
        authority.cert_pem.write_to_path(made.ca)
        return made

    def client_context(self, own: "Issued | None" = None) -> ssl.SSLContext:
        """Of a client that trusts the authority. own: the client's certificate."""
        context = ssl.create_default_context(cafile=self.ca)
        if own is not None:
            context.load_cert_chain(own.cert, own.key)
        return context
