"""The listener's TLS in a serving process: the context of new connections, and their handshakes."""

import logging
import ssl
from typing import cast

from prometheus_client import CollectorRegistry, Counter

from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.server.tls.context import context_of
from strowger_gateway.gateway.server.tls.files import TlsFiles

_log = logging.getLogger("strowger.tls")

QUIET_S = 60.0
"""Seconds without a second line about failed handshakes with the same reason: anyone who reaches
the port can cause them."""

REASONS = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "no_client_certificate",
    "CERTIFICATE_VERIFY_FAILED": "client_certificate_invalid",
    "NO_SHARED_CIPHER": "no_shared_cipher",
    "UNSUPPORTED_PROTOCOL": "protocol_version",
    "HTTP_REQUEST": "cleartext",
    "WRONG_VERSION_NUMBER": "not_tls",
}
"""The label of a failed handshake by OpenSSL's reason."""

OTHERS = ("client_alert", "disconnected", "timeout", "other")
"""Further labels: the client refused our certificate or something else; it closed; it was slow."""

_TOLD = {
    "cleartext": "the client sent HTTP without TLS",
    "not_tls": "the client does not speak TLS",
    "no_client_certificate": "the client sent no certificate",
}


class ListenerContext:
    """Give each new connection the context of the newest files; established ones keep theirs."""

    def __init__(self, files: TlsFiles, registry: CollectorRegistry) -> None:
        """Raises TlsFault."""
        self.context = context_of(files)
        self._done = Counter(
            "strowger_tls_handshakes",
            "TLS handshakes with clients by outcome: ok, or why they failed.",
            ("outcome",),
            registry=registry,
        )
        for outcome in ("ok", *REASONS.values(), *OTHERS):
            self._done.labels(outcome)
        self._logged: dict[str, float] = {}

    def use(self, files: TlsFiles) -> None:
        """Raises TlsFault, and keeps the context it has."""
        self.context = context_of(files)

    def succeeded(self) -> None:
        self._done.labels("ok").inc()

    def failed(self, error: ssl.SSLError, peer: object) -> None:
        """Count a handshake that OpenSSL ended, and log it at times. peer: the socket's address."""
        reason = error.reason or ""
        outcome = REASONS.get(reason, "client_alert" if "_ALERT_" in reason else "other")
        why = _TOLD.get(outcome) or _text(error)
        self.refused(outcome, why, peer)

    def refused(self, outcome: str, why: str, peer: object) -> None:
        """Count a handshake that ended otherwise. outcome: of OTHERS."""
        self._done.labels(outcome).inc()
        at = now()
        if at - self._logged.get(outcome, at - QUIET_S) >= QUIET_S:
            self._logged[outcome] = at
            message = (
                "TLS handshake with %s failed (%s): %s; more of these are only counted for a while"
            )
            _log.info(message, _shown(peer), outcome, why)


def _text(error: ssl.SSLError) -> str:
    """OpenSSL's error without its place in OpenSSL's source."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is not valid: {error.verify_message}"
    return (error.reason or str(error)).replace("_", " ").lower()


def _shown(peer: object) -> str:
    """The address of a TCP peer."""
    return str(cast("tuple[object, ...]", peer)[0]) if isinstance(peer, tuple) else "a client"
