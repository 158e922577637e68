"""Connect to the first of some addresses that answers, as RFC 8305 has it."""

import asyncio
import errno
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from itertools import chain, zip_longest
from typing import Final, TypeVar

from strowger_gateway.gateway.platform.names.look_up import Found, SocketAddress

STAGGER_S: Final = 0.25
"""Seconds after which the next address is tried, alongside those before (RFC 8305, section 5)."""

Made = TypeVar("Made")


async def connect_to(
    found: Found, options: Iterable[tuple[int, int, int]] = (), stagger_s: float = STAGGER_S
) -> socket.socket:
    """Return a socket connected to the first address that answers. Raises OSError.

    options: of the socket, as for setsockopt. Without an answer, the error is the first address's:
    the resolver's order has those last that this machine cannot reach, such as IPv6 without a
    network for it.
    """
    attempts = [partial(_connected, family, address, options) for family, address in found]
    if not attempts:
        raise OSError("the name has no addresses")
    return await first_of(attempts, stagger_s, socket.socket.close)


def interleaved(found: Found, first: SocketAddress | None = None) -> Found:
    """Order addresses: `first` if it is one of them, then the families in turn.

    The family of the first address begins. RFC 8305, section 4.
    """
    ordered = sorted(found, key=lambda one: one[1] != first)
    leading = [one for one in ordered if one[0] == ordered[0][0]]
    others = [one for one in ordered if one[0] != ordered[0][0]]
    return [one for one in chain(*zip_longest(leading, others)) if one is not None]


async def first_of(
    attempts: Sequence[Callable[[], Awaitable[Made]]],
    stagger_s: float,
    discard: Callable[[Made], object],
    *,
    on_failure: bool = True,
) -> Made:
    """Start the attempts in order, and return the result of the first that succeeds.

    The next one starts after `stagger_s` seconds, or, with `on_failure`, once all before have
    failed; without it, that is the end. discard: closes what further attempts made. Raises the
    error of the first attempt.
    """
    if len(attempts) == 1:
        return await attempts[0]()
    running: dict[asyncio.Future[Made], int] = {}
    problems: dict[int, BaseException] = {}
    try:
        for number, attempt in enumerate(attempts, 1):
            running[asyncio.ensure_future(attempt())] = number
            timeout = stagger_s if number < len(attempts) else None
            failed = False
            while running:
                done, _ = await asyncio.wait(
                    running, timeout=timeout, return_when=asyncio.FIRST_COMPLETED
                )
                if not done:
                    break
                one = done.pop()
                place, problem = running.pop(one), one.exception()
                if problem is None:
                    return one.result()
                problems[place], failed = problem, True
            if failed and not running and not (on_failure and timeout is not None):
                raise problems[min(problems)]
        raise OSError("there was nothing to try")
    finally:
        for one in running:
            one.cancel()
            one.add_done_callback(partial(_discarded, discard=discard))


def _discarded(attempt: asyncio.Future[Made], discard: Callable[[Made], object]) -> None:
    if not attempt.cancelled() and attempt.exception() is None:
        discard(attempt.result())


async def _connected(
    family: int, address: SocketAddress, options: Iterable[tuple[int, int, int]]
) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        for option in options:
            sock.setsockopt(*option)
        await _connect(sock, address)
    except BaseException as exc:
        sock.close()
        away = isinstance(exc, OSError) and exc.errno == errno.EADDRNOTAVAIL
        if away and not has_source(family, address):
            raise OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH)) from exc
        raise
    return sock


def has_source(family: int, address: SocketAddress) -> bool:
    """Return whether this machine has an address from which packets to this one could be sent.

    Without one, as without IPv6, Linux returns the error that it has for exhausted local ports.
    """
    with socket.socket(family, socket.SOCK_DGRAM) as sock:  # its connect sends nothing
        try:
            sock.connect(address)
        except OSError:
            return False
    return True


async def _connect(sock: socket.socket, address: SocketAddress) -> None:
    """Connect. uvloop's `sock_connect` would look the number up again, without its scope."""
    loop = asyncio.get_running_loop()
    if sys.platform == "win32":
        await loop.sock_connect(sock, address)
        return
    try:
        sock.connect(address)
    except (BlockingIOError, InterruptedError):
        writable = loop.create_future()
        loop.add_writer(sock, _set, writable)
        try:
            await writable
        finally:
            loop.remove_writer(sock)
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code)) from None


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
