"""What a certificate says: its subject, its names and its dates."""

import ssl
from collections.abc import Mapping
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from strowger_gateway.gateway.server.tls.context import context_of
from strowger_gateway.gateway.server.tls.files import TlsFiles

_SHORT = {
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
"""https://www.rfc-editor.org/rfc/rfc4514#section-3"""

_SPECIAL = frozenset('"+,;<>\\')

_NO_CHECK_TIME = 0x200000
"""X509_V_FLAG_NO_CHECK_TIME of OpenSSL: dates are read here, not judged.
https://docs.openssl.org/3.0/man3/X509_VERIFY_PARAM_set_flags/"""


CERTIFICATE = "client_certificate"
"""The name under which a request's state has the client's Certificate, if it has one."""


class Certificate(Struct, frozen=True, kw_only=True):
    """subject: as RFC 4514 writes it, "" for none. names: subject alternative names, without their
    types. not_before, not_after: Unix seconds.
    """

    subject: str
    names: tuple[str, ...]
    not_before: float
    not_after: float

    @property
    def name(self) -> str:
        """Its subject, or its first name if it has no subject, as those of SPIFFE."""
        return self.subject or (self.names[0] if self.names else "")


def certificate_of(found: Mapping[str, object]) -> Certificate:
    """Read what `getpeercert` returns for a verified certificate."""
    subject = cast("tuple[tuple[tuple[str, str], ...], ...]", found.get("subject", ()))
    names = cast("tuple[tuple[str, str], ...]", found.get("subjectAltName", ()))
    return Certificate(
        subject=distinguished_name(subject),
        names=tuple(str(value) for _, value in names),
        not_before=ssl.cert_time_to_seconds(str(found["notBefore"])),
        not_after=ssl.cert_time_to_seconds(str(found["notAfter"])),
    )


def distinguished_name(subject: tuple[tuple[tuple[str, str], ...], ...]) -> str:
    """Write a subject in one line: the most specific part first, special characters escaped."""
    parts = (
        "+".join(f"{_SHORT.get(kind, kind)}={_escaped(value)}" for kind, value in one)
        for one in reversed(subject)
    )
    return ",".join(parts)


def own_certificate(files: TlsFiles) -> Certificate:
    """Read the listener's own certificate, with a handshake in memory.

    Python's module shows a certificate to its peer alone. Raises TlsFault, and ssl.SSLError if no
    client would accept it for a server.
    """
    server = context_of(replace(files, client_ca=None))
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.load_verify_locations(cadata=files.cert.decode("ascii", "replace"))
    client.verify_flags = ssl.VerifyFlags(
        client.verify_flags | ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME
    )
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(to_server, to_client, server_side=True)
    theirs = client.wrap_bio(to_client, to_server)
    for _ in range(3):
        for side in (theirs, ours):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return certificate_of(cast("Mapping[str, object]", theirs.getpeercert()))


def authorities(content: bytes) -> tuple[Certificate, ...]:
    """Return the authorities in a PEM file; certificates that may sign nothing are not among them.

    Raises ssl.SSLError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_verify_locations(cadata=content.decode("ascii", "replace"))
    return tuple(map(certificate_of, context.get_ca_certs()))


def _escaped(value: str) -> str:
    text = "".join(f"\\{one}" if one in _SPECIAL else one for one in value)
    if text[:1] in ("#", " "):
        text = f"\\{text}"
    if value[-1:] == " " and len(value) > 1:
        text = f"{text[:-1]}\\ "
    return "".join(one if one.isprintable() else f"\\{ord(one):02X}" for one in text)
