"""Read the PEM files of `server.tls`; their content is what processes send to each other.

Reading is separate from use: a worker that starts later gets the files that are in effect, even if
those on the disk are broken by then.
"""

import re
from pathlib import Path

from msgspec import Struct

from strowger_gateway.gateway.config.schema.listener_tls import ListenerTls
from strowger_gateway.schemas.secret import Secret

LARGEST = 1024 * 1024
"""Bytes of one file. A file with all public authorities has 200 KiB."""

_CERTIFICATE = re.compile(rb"-----BEGIN (TRUSTED |X509 )?CERTIFICATE-----")
_KEY = re.compile(rb"-----BEGIN ([A-Z0-9]+ )*PRIVATE KEY-----")


class TlsFiles(Struct, frozen=True, kw_only=True, tag=True):
    """The content of the files and the settings that go with them. It has the private key.

    key: `None`: in `cert`. client_ca: `None`: clients are not asked for a certificate.
    """

    cert: bytes
    key: bytes | None
    key_password: Secret
    client_ca: bytes | None
    client_required: bool
    min_version: str

    @property
    def encrypted(self) -> bool:
        """Whether the private key needs a password."""
        return b"ENCRYPTED" in (self.cert if self.key is None else self.key)


class TlsFault(Exception):
    """The files cannot be used. field: of `server.tls`. why: the end of a sentence about it."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"server.tls.{field}: {why}")
        self.field = field
        self.why = why


def read_files(settings: ListenerTls) -> TlsFiles:
    """Read every file once. Raises TlsFault if one is missing or has no PEM of its kind."""
    cert = _read(settings.cert, "cert")
    key = None if settings.key is None else _read(settings.key, "key")
    client_ca = None if settings.client_ca is None else _read(settings.client_ca, "client_ca")
    for field, content in (("cert", cert), ("client_ca", client_ca)):
        if content is not None and _CERTIFICATE.search(content) is None:
            raise TlsFault(field, f"{getattr(settings, field)} has no PEM certificate")
    if _KEY.search(cert if key is None else key) is None:
        if key is None:
            raise TlsFault("key", f"is missing, and {settings.cert} has no PEM private key")
        raise TlsFault("key", f"{settings.key} has no PEM private key")
    return TlsFiles(
        cert=cert,
        key=key,
        key_password=settings.key_password,
        client_ca=client_ca,
        client_required=settings.client_certificates == "required",
        min_version=settings.min_version,
    )


def _read(name: str, field: str) -> bytes:
    try:
        path = Path(name)
        if not path.is_file():  # never blocks on a pipe
            if path.exists():
                raise TlsFault(field, f"{name} is not a file")
            raise TlsFault(field, f"no such file or folder: {name}")
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as exc:
        raise TlsFault(field, f"{name} cannot be read: {exc.strerror}") from exc
    if len(content) > LARGEST:
        raise TlsFault(field, f"{name} is larger than {LARGEST // 1024} KiB")
    return content
