"""Whether an agent accepts a gateway's certificate.

The command itself takes more: the certificate in config.yaml whatever its name, and one of an
authority that is not a root.
"""

import socket
import ssl
from typing import Final
from urllib.parse import urlsplit

HANDSHAKE_S: Final = 5.0
LENIENT: Final = ssl.VERIFY_X509_PARTIAL_CHAIN | ssl.VERIFY_X509_STRICT
"""Flags that Python sets and the TLS libraries of agents do not."""


def refusal(url: str, ca_file: str | None) -> str:
    """Return why the certificate is refused; "" if it is accepted, or nothing answers.

    ca_file: PEM file of authorities; `None`: those of the system.
    """
    parts = urlsplit(url)
    if parts.scheme != "https" or parts.hostname is None:
        return ""
    try:
        context = ssl.create_default_context(cafile=ca_file)
        context.verify_flags &= ~LENIENT
        with (
            socket.create_connection((parts.hostname, parts.port or 443), HANDSHAKE_S) as raw,
            context.wrap_socket(raw, server_hostname=parts.hostname),
        ):
            return ""
    except ssl.SSLCertVerificationError as exc:
        return exc.verify_message.rstrip(".")
    except OSError:
        return ""  # the request through the gateway says what is wrong
