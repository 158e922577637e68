"""Watch the files of the operator: the configuration, and the certificates that it names."""

import asyncio

from gateway.background import OnCrash, keep_running
from gateway.listener_tls.watch import TlsWatch
from gateway.processes.reload import Reload


def watching(reload: Reload, tls: TlsWatch, crashed: OnCrash) -> list[asyncio.Task[None]]:
    """Reload when the configuration changes, if it wants that, and use renewed certificates."""
    works = [("certificate watcher", lambda: tls.run(lambda: reload.config.server.tls))]
    if reload.config.server.reload == "auto":
        works.append(("file watcher", reload.watch))
    return [asyncio.create_task(keep_running(name, work, crashed)) for name, work in works]
