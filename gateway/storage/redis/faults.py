"""Why a connection to Redis failed, for the log.

redis-py passes the errors of TLS on with OpenSSL's words, and uvloop's transports raise
RuntimeError where the server has closed a connection that is written to.
"""

import ssl

_REFUSED = {
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the server requires a client certificate; "
    "append ?ssl_certfile=FILE&ssl_keyfile=FILE to store.redis_url",
    "TLSV1_ALERT_UNKNOWN_CA": "the server does not know the authority of our certificate "
    "(ssl_certfile in store.redis_url)",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "our certificate (ssl_certfile in store.redis_url) has "
    "expired",
    "WRONG_VERSION_NUMBER": "the server does not speak TLS; use redis:// in store.redis_url",
}
_CLOSED = (
    "the server closed the connection; with TLS, it may require a client certificate "
    "(ssl_certfile and ssl_keyfile in store.redis_url), or not accept ours"
)


def reason_of(error: Exception) -> str:
    """Return what happened and, for TLS, what to change."""
    tls = _tls_error(error)
    if isinstance(tls, ssl.SSLCertVerificationError):
        return (
            f"the server's certificate is not accepted: {tls.verify_message} "
            "(ssl_ca_certs in store.redis_url names the authority)"
        )
    if tls is not None and tls.reason in _REFUSED:
        return _REFUSED[tls.reason]
    if isinstance(error, RuntimeError):
        return _CLOSED
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _tls_error(error: BaseException) -> ssl.SSLError | None:
    """Return the error of OpenSSL behind another."""
    found: BaseException | None = error
    while found is not None and not isinstance(found, ssl.SSLError):
        found = found.__cause__ or found.__context__
    return found
