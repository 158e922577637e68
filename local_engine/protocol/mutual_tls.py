"""Mutual TLS between gateways and engines: each side verifies the other's certificate.

Only TLS 1.3, because both sides are ours. No torch here: both sides import this module.
"""

import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

from msgspec import Struct

from strowger_gateway.schemas.errors import InvalidConfig


class TlsPaths(Struct, frozen=True, kw_only=True):
    """PEM files of one side. ca: the authorities of the other side's certificates."""

    cert: str
    key: str
    ca: str


class MutualTls:
    """The context of new connections, built again when a file has changed."""

    def __init__(
        self,
        paths: TlsPaths,
        *,
        server: bool,
        report: Callable[[str], None] = lambda _: None,
        kind: type[ssl.SSLContext] = ssl.SSLContext,
    ) -> None:
        """kind: the class of the contexts.

        report: called once for a change that cannot be used; the last good files stay in use.
        Raises InvalidConfig if the files cannot be used.
        """
        self.paths = paths
        self._server, self._kind = server, kind
        self._report = report
        self._seen = _marks(paths)
        self._context = _context(paths, kind, server=server)

    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection. Costs three `stat` calls."""
        found = _marks(self.paths)
        if found != self._seen:
            self._seen = found
            try:
                self._context = _context(self.paths, self._kind, server=self._server)
            except InvalidConfig as exc:
                self._report(f"{exc}; the previous certificate stays in use")
        return self._context


def peer_names(certificate: Mapping[str, object] | None) -> tuple[str, ...]:
    """Return the common name and the alternative names of a verified certificate.

    certificate: as `SSLSocket.getpeercert` returns it.
    """
    found = certificate or {}
    subject = cast("tuple[tuple[tuple[str, str], ...], ...]", found.get("subject", ()))
    names = cast("tuple[tuple[str, str], ...]", found.get("subjectAltName", ()))
    common = [value for part in subject for kind, value in part if kind == "commonName"]
    return tuple(dict.fromkeys([*common, *(str(value) for _, value in names)]))


def _context(paths: TlsPaths, kind: type[ssl.SSLContext], *, server: bool) -> ssl.SSLContext:
    """Raises InvalidConfig."""
    context = kind(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    for field, path in (("cert", paths.cert), ("key", paths.key), ("ca", paths.ca)):
        if not Path(path).is_file():
            raise InvalidConfig((f"tls.{field}: no such file: {path}",))
    try:
        context.load_verify_locations(cafile=paths.ca)
    except (OSError, ssl.SSLError) as exc:
        raise InvalidConfig((f"tls.ca: {paths.ca} has no certificate that can be read",)) from exc
    try:
        context.load_cert_chain(paths.cert, paths.key, password=_no_password)
    except _PasswordWanted as exc:
        why = f"tls.key: {paths.key} is encrypted; give it without a password"
        raise InvalidConfig((why,)) from exc
    except (OSError, ssl.SSLError) as exc:
        reason = exc.reason if isinstance(exc, ssl.SSLError) else None
        if reason == "KEY_VALUES_MISMATCH":
            why = f"tls.key: {paths.key} does not belong to the certificate in {paths.cert}"
        else:
            why = f"tls.cert: {paths.cert} and {paths.key} cannot be used: {exc}"
        raise InvalidConfig((why,)) from exc
    return context


class _PasswordWanted(Exception):
    """The key is encrypted, and OpenSSL would ask the terminal for its password."""


def _no_password() -> str:
    raise _PasswordWanted


_Mark = tuple[int, int, int]


def _marks(paths: TlsPaths) -> tuple[_Mark | None, ...]:
    """Return marks that change with the files; links are followed, as in a mounted secret."""
    return tuple(_mark(Path(path)) for path in (paths.cert, paths.key, paths.ca))


def _mark(path: Path) -> _Mark | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
