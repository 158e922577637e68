"""Why a connection to an engine on another machine failed, in words that name the remedy."""

import socket
import ssl

from msgspec import Struct


class Fault(Struct, frozen=True):
    """state: in a word or two, for clients. detail: for the log; may contain paths."""

    state: str
    detail: str


_ALERTS = {
    "TLSV1_ALERT_UNKNOWN_CA": "its authority is not in the engine's --tls-ca",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it has expired",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the engine cannot verify it",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "it is revoked",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the engine cannot verify it",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": "it is not for TLS clients (extended key usage)",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "none was sent",
    "TLSV1_ALERT_DECRYPT_ERROR": "its key does not belong to it",
}
"""The engine's verdict on our certificate, by OpenSSL's reason."""


def fault_of(
    error: Exception | None, why: str, *, address: str, name: str, cert: str | None
) -> Fault:
    """Describe a failed connection.

    why: what the engine sent, or "". name: which its certificate must have. cert: the file of our
    certificate; `None` without TLS.
    """
    if why:
        refused = "refused" in why
        return Fault("certificate refused" if refused else "incompatible", f"{address}: {why}")
    if isinstance(error, ssl.SSLCertVerificationError):
        detail = (
            f"{address}: the engine's certificate is not accepted: {error.verify_message} "
            f"(tls.ca, tls.server_name; expected name {name!r})"
        )
        return Fault("certificate not accepted", detail)
    if isinstance(error, ssl.SSLError):
        return _of_tls(error, address, cert)
    if isinstance(error, socket.gaierror):
        return Fault("unreachable", f"{address}: the host cannot be resolved: {error.strerror}")
    if isinstance(error, ConnectionRefusedError):
        return Fault("unreachable", f"{address}: no engine listens there")
    if isinstance(error, OSError) and error.errno is not None:
        return Fault("unreachable", f"{address}: {error.strerror or error}")
    if cert is None:
        hint = "it may expect TLS: set `engines.tls`"
    else:
        hint = f"it may have refused our certificate {cert}"
    return Fault("unreachable", f"{address}: closed before the engine's first frame; {hint}")


def _of_tls(error: ssl.SSLError, address: str, cert: str | None) -> Fault:
    reason = error.reason or ""
    if reason in _ALERTS:
        detail = f"{address}: the engine refused our certificate {cert}: {_ALERTS[reason]}"
        return Fault("certificate refused", detail)
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
        detail = f"{address}: it does not speak TLS; was the engine started without --tls-cert?"
        return Fault("unreachable", detail)
    words = reason.replace("_", " ").lower() or str(error)
    return Fault("unreachable", f"{address}: the TLS handshake failed: {words}")
