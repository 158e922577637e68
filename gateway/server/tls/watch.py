"""Read the files of `server.tls` again when they change, in the leader.

What cannot be used is rejected, and the files before it stay in effect in all processes.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from strowger_gateway.gateway.config.schema.listener_tls import ListenerTls
from strowger_gateway.gateway.server.tls.files import LARGEST, TlsFault, TlsFiles, read_files
from strowger_gateway.schemas.errors import InvalidConfig

if TYPE_CHECKING:
    from strowger_gateway.gateway.server.tls.inspection import Inspection

_log = logging.getLogger("strowger.tls")

POLL_S = 1.0
"""Interval between checks of the files. A change counts when two checks in a row agree: tools
replace certificate and key one after the other."""

REMIND_S = 86_400.0
"""Interval between warnings about a certificate that expires soon."""


class TlsWatch(Collector):
    """The files in effect, and their metrics. send: called with newer ones; set it before `run`."""

    def __init__(self, settings: ListenerTls | None) -> None:
        """settings: `None` serves cleartext. Raises InvalidConfig if the files cannot be used."""
        self.send: Callable[[TlsFiles], None] = _ignore
        self.files: TlsFiles | None = None
        self._found: Inspection | None = None
        self._rejected = False
        self._used: _Sight | None = None
        self._reminded: float | None = None
        if settings is not None:
            sight = _look(settings)
            try:
                self.files, self._found = _usable(settings)
            except TlsFault as exc:
                raise InvalidConfig((str(exc),)) from exc
            self._used = sight

    async def run(self, current: Callable[[], ListenerTls | None]) -> None:
        """Watch until cancelled. current: the settings in effect, which a reload changes."""
        seen = self._used
        while self.files is not None and (settings := current()) is not None:
            self._remind()
            await asyncio.sleep(POLL_S)
            before, seen = seen, await asyncio.to_thread(_look, settings)
            if seen != self._used and seen == before:
                self._used = seen
                await self._replace(settings)

    def collect(self) -> Iterable[Metric]:
        if self._found is None:
            return
        family = GaugeMetricFamily(
            "strowger_tls_certificate_expiry_timestamp_seconds",
            "When the certificates of server.tls expire, Unix seconds; the first of each file.",
            labels=("file",),
        )
        for name, at in self._found.expires.items():
            family.add_metric((name,), at)
        yield family
        yield GaugeMetricFamily(
            "strowger_tls_files_refused",
            "1 while the files of server.tls cannot be used and earlier ones are in effect.",
            value=self._rejected,
        )

    async def _replace(self, settings: ListenerTls) -> None:
        try:
            files, found = await asyncio.to_thread(_usable, settings)
        except TlsFault as exc:
            self._rejected = True
            _log.error("the files of server.tls are rejected, keeping the previous ones: %s", exc)
            return
        self._rejected = False
        if files == self.files:
            return
        self.files, self._found, self._reminded = files, found, None
        self.send(files)
        words = "the files of server.tls have changed; new connections use the certificate %s"
        _log.info(words, found.summary)

    def _remind(self) -> None:
        at = time.time()
        if self._reminded is not None and 0 <= at - self._reminded < REMIND_S:
            return
        self._reminded = at
        for field, words in () if self._found is None else self._found.warnings(at):
            _log.warning("server.tls.%s: %s", field, words)


_Sight = tuple[ListenerTls, tuple[bytes | None, ...]]
"""Settings, and the content of each file; `None` for one that cannot be read. Content and not
times: certificates are replaced through symbolic links, and the content is small."""


def _look(settings: ListenerTls) -> _Sight:
    names = (settings.cert, settings.key, settings.client_ca)
    return settings, tuple(_content(name) for name in names)


def _content(name: str | None) -> bytes | None:
    if name is None:
        return None
    try:
        path = Path(name)
        if not path.is_file():
            return None
        with path.open("rb") as file:
            return file.read(LARGEST + 1)
    except OSError:
        return None


def _usable(settings: ListenerTls) -> "tuple[TlsFiles, Inspection]":
    """Read the files and prove that they can be used. Raises TlsFault."""
    from strowger_gateway.gateway.server.tls.inspection import (
        inspect,  # late: OpenSSL, only if it is needed
    )

    files = read_files(settings)
    return files, inspect(files)


def _ignore(files: TlsFiles) -> None:
    """The default of `send`."""
