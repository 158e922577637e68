"""Build the TLS context of the listener from the content of its files."""

import os
import ssl
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from strowger_gateway.gateway.server.tls.files import TlsFault, TlsFiles

CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Of TLS 1.2: forward secrecy and authenticated encryption, as Mozilla's intermediate profile
without its DHE suites. TLS 1.3 has only such. https://wiki.mozilla.org/Security/Server_Side_TLS"""

_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_IN_MEMORY = Path("/proc/self/fd")


def context_of(files: TlsFiles) -> ssl.SSLContext:
    """Return a context for the server's side. Raises TlsFault if the files cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[files.min_version]
    context.set_ciphers(CIPHERS)
    context.set_alpn_protocols(["http/1.1"])
    # A client could make the server compute again and again; compression reveals secrets.
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    _load_certificate(context, files)
    if files.client_ca is not None:
        try:
            context.load_verify_locations(cadata=files.client_ca.decode("ascii", "replace"))
        except ssl.SSLError as exc:
            raise TlsFault("client_ca", f"has a certificate that cannot be read: {exc}") from exc
        context.verify_mode = ssl.CERT_REQUIRED if files.client_required else ssl.CERT_OPTIONAL
    return context


def _load_certificate(context: ssl.SSLContext, files: TlsFiles) -> None:
    wanted = False

    def password() -> bytes:
        nonlocal wanted
        wanted = True
        return files.key_password.reveal().encode()

    key = files.cert if files.key is None else files.key
    try:
        with _as_file(files.cert) as cert_file, _as_file(key) as key_file:
            context.load_cert_chain(cert_file, key_file, password=password)
    except (ssl.SSLError, ValueError) as exc:
        raise _fault(exc, files, encrypted=wanted) from exc


def _fault(exc: Exception, files: TlsFiles, *, encrypted: bool) -> TlsFault:
    """Say which file is wrong: OpenSSL reports both alike."""
    reason = exc.reason if isinstance(exc, ssl.SSLError) else str(exc)
    if reason in ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH"):
        return TlsFault("key", "does not belong to the certificate in server.tls.cert")
    if encrypted and not files.key_password.reveal():
        return TlsFault("key", "is encrypted; set server.tls.key_password")
    if encrypted:
        return TlsFault("key_password", "does not decrypt the key in server.tls.key")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(
            cadata=files.cert.decode("ascii", "replace")
        )
    except ssl.SSLError as exc:
        return TlsFault("cert", f"has a certificate that cannot be read: {exc}")
    if reason in ("EE_KEY_TOO_SMALL", "CA_MD_TOO_WEAK", "EE_MD_TOO_WEAK"):
        return TlsFault("cert", f"is too weak: {str(reason).replace('_', ' ').lower()}")
    return TlsFault("key", f"cannot be used: {exc}")


@contextmanager
def _as_file(content: bytes) -> Generator[str, None, None]:
    """Give OpenSSL a file, which Python's module requires; in memory where that is possible."""
    if hasattr(os, "memfd_create") and _IN_MEMORY.exists():
        number = os.memfd_create("tls")
        try:
            with os.fdopen(os.dup(number), "wb") as file:
                file.write(content)
            yield str(_IN_MEMORY / str(number))
        finally:
            os.close(number)
        return
    with tempfile.TemporaryDirectory(prefix="strowger-") as folder:  # readable by us alone
        path = Path(folder) / "tls.pem"
        path.write_bytes(content)
        yield str(path)
