"""The open files of a process: their limit, and the connections of clients that it allows.

Each connection takes a file descriptor, of a client or to a backend, and so does each log file and
the store. What is above the limit fails wherever it happens to be opened, so connections of clients
take at most half of them: each request in flight finds one for its backend.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from strowger_gateway.gateway.config.schema.config import Config

MOST_RAISED: Final = 1 << 20
"""Linux' own default for the highest limit (fs.nr_open)."""

_RESERVED, _MOST_RESERVED, _SHARE = 64, 1024, 8
"""Descriptors that connections of clients never take: an eighth of the limit, in these bounds."""

_UNLIMITED: Final = 1 << 30
"""Where the system has no such limit."""


def open_files_limit() -> int:
    """Return how many files this process may have open."""
    if sys.platform == "win32":
        return _UNLIMITED
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _UNLIMITED if soft == resource.RLIM_INFINITY else soft


def most_open_files() -> int:
    """Return the limit that `raise_limit` would set."""
    if sys.platform == "win32":
        return _UNLIMITED
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = MOST_RAISED if hard == resource.RLIM_INFINITY else min(hard, MOST_RAISED)
    return _UNLIMITED if soft == resource.RLIM_INFINITY else max(soft, allowed)


def raise_limit() -> int:
    """Allow this process, and those that it starts, as many files as the system lets it.

    Returns the limit. The usual soft limit of 1,024 exists for programs that use select(2), which
    the gateway does not. https://0pointer.net/blog/file-descriptor-limits.html
    """
    if sys.platform != "win32":
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY and soft < (wanted := most_open_files()):
            with suppress(OSError, ValueError):  # a sandbox may forbid it
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return open_files_limit()


def open_files() -> int:
    """Return how many files this process has open; 0 where the system does not say."""
    for folder in ("/proc/self/fd", "/dev/fd"):
        try:
            return len(os.listdir(folder)) - 1  # without the one that lists them
        except OSError:
            continue
    return 0


def reserved(limit: int) -> int:
    """Return how many of so many descriptors are kept from clients."""
    return min(max(limit // _SHARE, _RESERVED), _MOST_RESERVED, limit // 2)


def client_room(limit: int) -> int:
    """Return how many connections of clients so many descriptors allow."""
    return max((limit - reserved(limit)) // 2, 1)


def files_wanted(config: Config) -> int:
    """Return how many files one process may need at full load.

    A client's connection and a backend's for each request in flight, and what pools keep.
    """
    server = config.server
    pools = sum(provider.connections_of(server.workers) for provider in config.providers)
    clients = 0 if server.max_connections == "auto" else server.max_connections
    return max(2 * server.max_in_flight, server.max_in_flight + clients) + min(
        pools, server.max_in_flight
    )


def file_warnings(config: Config, limit: int) -> Iterator[str]:
    """Yield what the operator should know about a limit. limit: of open files of a process."""
    wanted = files_wanted(config)
    if limit < wanted:
        most = client_room(limit)
        yield (
            f"this process may open {limit:,} files (ulimit -n), but server.max_in_flight "
            f"{config.server.max_in_flight:,} may need {wanted:,}: it takes at most {most:,} "
            "connections of clients; raise the limit (systemd: LimitNOFILE; Docker: --ulimit "
            "nofile) or lower server.max_in_flight"
        )
