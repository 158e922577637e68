"""The addresses of names, as last looked up: each look-up has its own thread, and never waits.

The event loop's own `getaddrinfo` has a pool of threads for all names (uvloop: two at a time, with
numbers in the same queue), so that one name whose DNS server does not answer stops all others.
"""

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock, Thread
from typing import Final

from strowger_gateway.gateway.platform.names.look_up import (
    ABSENT,
    Found,
    LookUp,
    look_up,
    number,
    with_port,
)

FRESH_S: Final = 5.0
"""Seconds for which an answer is used without another look-up. The system's resolver does not
return times to live; Envoy looks names up every 5 s, too, and vendors' records live 5 to 300 s."""

AHEAD_S: Final = 2.5
"""Age from which a use starts the next look-up, without waiting for it."""

STALE_S: Final = 3600.0
"""Seconds for which the last addresses are used while look-ups fail. RFC 8767: 1 to 3 days."""

DENIED_S: Final = 300.0
"""The same while the DNS denies that there are any: zones have been empty by mistake, for hours."""

GRACE_S: Final = 0.5
"""Seconds to wait for a look-up when there are addresses that are not fresh."""

SLOW_S: Final = 2.0
"""Seconds after which a look-up in flight counts as unanswered, for the log."""

FAILED_S, ABSENT_S = 1.0, 2.0
"""Seconds for which a failure is the answer, and the denial of a DNS server."""

MOST_IN_FLIGHT: Final = 256
"""Look-ups in flight, each with a thread; further ones fail."""

MOST_KEPT: Final = 4096
"""Names that are remembered; those not used for the longest time are forgotten."""

_NEVER = float("-inf")
_log = logging.getLogger("strowger.names")


class _Name:
    """What is known of a name. Times are the clock's.

    found: the last addresses, as of `found_at`. error: of the last look-up, if it failed, as of
    `failed_at`. running: the look-up in flight, since `since`. stale: a warning was logged.
    """

    __slots__ = ("error", "failed_at", "found", "found_at", "running", "since", "stale")

    def __init__(self) -> None:
        self.found: Found = ()
        self.found_at = self.failed_at = self.since = _NEVER
        self.error: OSError | None = None
        self.running: Future[None] | None = None
        self.stale = False


class Names:
    """Addresses of names. For use from any event loop and thread.

    Users of a name that was never found wait for its look-up. Others wait for GRACE_S at most after
    a look-up began, not at all if one has just failed, and then use the last addresses.
    """

    def __init__(
        self,
        look_up: LookUp = look_up,
        *,
        clock: Callable[[], float] = time.monotonic,
        most_in_flight: int = MOST_IN_FLIGHT,
        most_kept: int = MOST_KEPT,
    ) -> None:
        self._look_up = look_up
        self._clock = clock
        self._most_in_flight = most_in_flight
        self._most_kept = most_kept
        self._names: dict[str, _Name] = {}
        self._in_flight = 0
        self._lock = Lock()

    @property
    def in_flight(self) -> int:
        """Return the number of look-ups in flight."""
        return self._in_flight

    async def addresses(self, host: str, port: int) -> Found:
        """Return the addresses of a host, with a port. A number is its own address.

        Raises socket.gaierror if the name has no address, or cannot be looked up. Cancelling leaves
        the look-up running, for others.
        """
        numeric = number(host)
        if numeric is not None:
            return with_port(numeric, port)
        key = host.lower()
        with self._lock:
            name, running, wait_s = self._visit(key)
        if running is not None and wait_s != 0.0:
            await _ended(running, wait_s)
        return with_port(self._answer(key, name), port)

    def doubt(self, host: str) -> None:
        """Make the next use of a name wait for a look-up: its addresses did not answer."""
        with self._lock:
            name = self._names.get(host.lower())
            if name is not None and self._clock() - name.found_at > FAILED_S:
                name.found_at = min(name.found_at, self._clock() - FRESH_S)

    def _visit(self, key: str) -> tuple[_Name, Future[None] | None, float | None]:
        """Start a look-up if one is due. Returns the one to wait for, and for how long.

        `None`: until it ends; 0: not at all.
        """
        now = self._clock()
        name = self._names.pop(key, None) or _Name()
        self._names[key] = name  # the last one used is the last one forgotten
        known = _usable(name, now)
        if known and now - name.found_at < AHEAD_S:
            return name, None, 0.0
        failed_s = ABSENT_S if _absent(name.error) else FAILED_S
        if name.running is None and (name.error is None or now - name.failed_at >= failed_s):
            self._start(key, name, now)
        running = name.running
        if running is None:
            return name, None, 0.0
        if not known:
            return name, running, None
        failing = name.error is not None and now - name.failed_at < FRESH_S
        if failing or now - name.found_at < FRESH_S:
            return name, running, 0.0
        return name, running, max(0.0, GRACE_S - (now - name.since))

    def _start(self, key: str, name: _Name, now: float) -> None:
        """Look up in a thread of its own, which does not keep the process from ending."""
        if len(self._names) > self._most_kept:
            self._forget()
        if self._in_flight >= self._most_in_flight:
            name.error, name.failed_at = _too_many(self._in_flight), now
            return
        running: Future[None] = Future()
        running.set_running_or_notify_cancel()  # so that a cancelled waiter does not cancel it
        thread = Thread(
            target=self._run, args=(key, name, running), name=f"dns {key[:64]}", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as exc:  # the system has no thread left
            name.error, name.failed_at = socket.gaierror(socket.EAI_AGAIN, str(exc)), now
            return
        self._in_flight += 1
        name.running, name.since = running, now

    def _run(self, key: str, name: _Name, running: Future[None]) -> None:
        found: Found = ()
        try:
            found = self._look_up(key)
            error = None if found else socket.gaierror(socket.EAI_NONAME, "no addresses")
        except OSError as exc:
            error = exc.with_traceback(None)  # it is kept, and would keep its frames
        except Exception as exc:  # noqa: BLE001  waiters must never wait for ever
            error = socket.gaierror(socket.EAI_FAIL, f"{type(exc).__name__}: {exc}")
        with self._lock:
            now = self._clock()
            self._in_flight -= 1
            name.running, name.error = None, error
            if error is None:
                name.found, name.found_at = found, now
                back, name.stale = name.stale, False
            else:
                # What this machine lacks, it may have again: nothing is known of the name.
                name.failed_at, back = now if isinstance(error, socket.gaierror) else _NEVER, False
        if back:
            _log.info("DNS: %s is resolved again", key)
        running.set_result(None)

    def _answer(self, key: str, name: _Name) -> Found:
        """Return what is known now. Raises the OSError of the last look-up."""
        now = self._clock()
        if _usable(name, now):
            if now - name.found_at >= FRESH_S and not name.stale:
                self._warn(key, name, now)
            return name.found
        error = name.error or socket.gaierror(socket.EAI_AGAIN, "the DNS does not answer")
        # A new one per caller: a raised exception collects the frames of those who raise it.
        raise type(error)(*error.args)

    def _warn(self, key: str, name: _Name, now: float) -> None:
        """Log once per outage that old addresses are used, and why."""
        if name.error is not None:
            why = name.error.strerror or str(name.error)
        elif name.running is not None and now - name.since >= SLOW_S:
            why = f"no answer for {now - name.since:.0f} s"
        else:
            return
        name.stale = True
        _log.warning(
            "DNS: no address for %s: %s; addresses of %.0f s ago are used, for up to %.0f s",
            *(key, why, now - name.found_at, _kept_s(name)),
        )

    def _forget(self) -> None:
        """Forget names that are not being looked up, until there is room."""
        for key in list(self._names)[:-1]:
            if len(self._names) <= self._most_kept:
                return
            if self._names[key].running is None:
                del self._names[key]


NAMES: Final = Names()
"""Names of the configuration: all of the process share what is known of them."""


async def _ended(running: Future[None], wait_s: float | None) -> None:
    """Wait for a look-up. Its end is not its success."""
    waited = asyncio.wrap_future(running)
    try:
        await asyncio.wait([waited], timeout=wait_s)
    finally:
        waited.cancel()  # or its callback would outlive the event loop


def _usable(name: _Name, now: float) -> bool:
    return bool(name.found) and now - name.found_at < _kept_s(name)


def _kept_s(name: _Name) -> float:
    return DENIED_S if _absent(name.error) else STALE_S


def _absent(error: OSError | None) -> bool:
    return isinstance(error, socket.gaierror) and error.errno in ABSENT


def _too_many(in_flight: int) -> socket.gaierror:
    return socket.gaierror(socket.EAI_AGAIN, f"{in_flight} other names are being looked up")
