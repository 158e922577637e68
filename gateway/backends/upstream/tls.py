"""TLS to providers: how their certificates are verified, and our client certificate."""

import ssl

from msgspec.structs import replace

from strowger_gateway.gateway.config.schema.config import Tls
from strowger_gateway.schemas.errors import InvalidConfig


def client_context(tls: Tls | None, *, upstream: str) -> ssl.SSLContext:
    """Return the context for connections to `upstream`. Reads files; raises InvalidConfig."""
    tls = tls or Tls()
    if tls.client_key is not None and tls.client_cert is None:
        raise InvalidConfig((f"{upstream}: tls.client_key requires tls.client_cert.",))
    try:
        context = ssl.create_default_context(cafile=tls.ca_file)
    except (OSError, ssl.SSLError) as exc:
        raise InvalidConfig((_unreadable(upstream, "ca_file", tls.ca_file, exc),)) from exc
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.client_cert is not None:
        try:
            context.load_cert_chain(tls.client_cert, tls.client_key, password=_no_password)
        except (OSError, ssl.SSLError, _PasswordWanted) as exc:
            problem = _unreadable(upstream, "client_cert", tls.client_cert, exc)
            raise InvalidConfig((problem,)) from exc
    return context


class TlsContexts:
    """Contexts of one configuration: providers with the same settings share one.

    A context takes 0.8 MB and 50 ms, because it holds every CA certificate of the machine.
    """

    def __init__(self) -> None:
        self._made: dict[Tls, ssl.SSLContext] = {}

    def http1(self, tls: Tls | None, *, upstream: str) -> ssl.SSLContext:
        """Return a context for HTTP/1.1 only. Raises as `client_context` does."""
        tls = tls or Tls()
        if tls not in self._made:
            self._made[tls] = client_context(tls, upstream=upstream)
            self._made[tls].set_alpn_protocols(["http/1.1"])
        return self._made[tls]


class PinnedContexts(TlsContexts):
    """Contexts for a server that must have a certificate of one file, whatever its name."""

    def __init__(self, file: str) -> None:
        super().__init__()
        self._file = file

    def http1(self, tls: Tls | None, *, upstream: str) -> ssl.SSLContext:
        """Return a context for HTTP/1.1 only. Raises as `client_context` does."""
        context = super().http1(replace(tls or Tls(), ca_file=self._file), upstream=upstream)
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        return context


class _PasswordWanted(Exception):
    """The key is encrypted, and OpenSSL would ask the terminal for its password."""

    def __str__(self) -> str:
        return "the key is encrypted; give it without a password"


def _no_password() -> str:
    raise _PasswordWanted


def _unreadable(upstream: str, field: str, path: str | None, exc: Exception) -> str:
    return f"{upstream}: tls.{field} {path!r} cannot be used: {exc}."
