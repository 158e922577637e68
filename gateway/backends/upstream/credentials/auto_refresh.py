"""Cache a credential, and replace it before it expires, with one fetch at a time.

While it is valid, no caller waits: it is replaced in the background, and a failed fetch is logged
and retried. A caller waits only if there is no valid credential, and fails immediately while a
failed fetch is in its pause. A credential that was not used since it was fetched may expire.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from msgspec import Struct

from strowger_gateway.gateway.backends.upstream.credentials.refresh_schedule import (
    expires_at,
    pause,
    refresh_at,
)
from strowger_gateway.gateway.backends.upstream.own_limits import closing
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.schemas.errors import UpstreamError, UpstreamTimeout

_log = logging.getLogger("strowger.credentials")

T = TypeVar("T")


class ExpiringValue(Struct, Generic[T], frozen=True, kw_only=True):
    """lifetime_s: from the moment of the request for it."""

    value: T
    lifetime_s: float


class _Held(Struct, Generic[T], frozen=True, kw_only=True):
    """requested, expires: readings of the clock."""

    value: T
    requested: float
    expires: float


class _Failure(Struct, frozen=True, kw_only=True):
    """The last fetch's error, kept as text: an exception would keep frames, and secrets.

    message: for clients. detail: for the log.
    """

    kind: type[UpstreamError]
    message: str
    detail: str
    until: float


class AutoRefresh(Generic[T]):
    """fetch: raises UpstreamError, whose text is logged; it must have its own time limit.

    clock, draw: for tests; see gateway/backends/upstream/credentials/refresh_schedule.py.
    """

    def __init__(
        self,
        fetch: Callable[[], Awaitable[ExpiringValue[T]]],
        *,
        upstream: str,
        clock: Callable[[], float] = now,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._fetch = fetch
        self._upstream = upstream
        self._clock = clock
        self._draw = draw
        # The mutable state: the value and its failures, the one fetch and the one timer.
        self._held: _Held[T] | None = None
        self._used = False
        self._failures = 0
        self._failure: _Failure | None = None
        self._replaced = 0
        self._fetching: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    async def get(self, by: float) -> T:
        """Return a valid value; wait until `by`, loop time. Raises UpstreamError without one."""
        held = self._held
        if held is not None and self._clock() < held.expires:
            self._used = True
            if self._timer is None and self._fetching is None and not self._closed:
                self._begin()  # it came due while unused
            return held.value
        while True:
            if self._fetching is None:
                self._raise_if_too_soon()
                self._begin()
            await self._fetched(by)
            if self._held is not None and self._held is not held:
                self._used = True
                return self._held.value

    def reject(self, value: T) -> bool:
        """Handle a `value` that the provider rejects before it expires; true: get another one.

        The first rejected value is replaced immediately, consecutive ones after the pauses of
        failing fetches.
        """
        held = self._held
        if held is None or held.value != value:
            return True
        age = self._clock() - held.requested
        if self._replaced and age < pause(self._replaced, 1.0):
            return False
        self._replaced += 1
        self._held = None
        self._stop_timer()
        _log.warning("%s: credential rejected before it expired", self._upstream)
        return True

    async def aclose(self) -> None:
        self._closed = True
        self._stop_timer()
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.wait({self._fetching})

    def _raise_if_too_soon(self) -> None:
        if self._closed:
            raise closing(self._upstream)
        failure = self._failure
        left = failure.until - self._clock() if failure is not None else 0.0
        if failure is not None and left > 0:
            raise failure.kind(
                failure.message, upstream=self._upstream, retry_after=left, detail=failure.detail
            )

    def _begin(self) -> None:
        self._stop_timer()
        self._fetching = asyncio.get_running_loop().create_task(self._replace())

    async def _fetched(self, by: float) -> None:
        """Wait until the one fetch is over; a caller's timeout does not cancel it for others."""
        fetching = self._fetching
        if fetching is None:
            return
        left = by - asyncio.get_running_loop().time()
        done, _ = await asyncio.wait({fetching}, timeout=max(0.0, left))
        if not done:
            raise UpstreamTimeout("no credentials in time", upstream=self._upstream)
        if not fetching.cancelled():
            fetching.result()

    async def _replace(self) -> None:
        """Run the one fetch. Never raises UpstreamError: waiting callers check its outcome."""
        requested = self._clock()
        try:
            lease = await self._fetch()
        except UpstreamError as exc:
            self._failed(exc)
        else:
            self._succeeded(lease, requested)
        finally:
            self._fetching = None

    def _succeeded(self, lease: ExpiringValue[T], requested: float) -> None:
        if self._failures:
            _log.info("%s: credential renewed after failures", self._upstream)
        self._failures, self._failure = 0, None
        self._held = _Held(
            value=lease.value, requested=requested, expires=expires_at(requested, lease.lifetime_s)
        )
        self._used = False
        self._wake_at(refresh_at(requested, lease.lifetime_s, self._draw()))

    def _failed(self, exc: UpstreamError) -> None:
        self._failures += 1
        at = self._clock()
        wait = max(pause(self._failures, self._draw()), exc.retry_after or 0.0)
        message, detail = (
            text.removeprefix(f"{exc.upstream}: ") for text in (exc.message, exc.logged)
        )
        self._failure = _Failure(kind=type(exc), message=message, detail=detail, until=at + wait)
        left = self._held.expires - at if self._held is not None else 0.0
        _log.warning(
            "%s: %s; next try in %.1f s%s",
            self._upstream,
            detail,
            wait,
            f", the current credential is valid for {left:.0f} s" if left > 0 else "",
        )
        if left > 0:
            self._wake_at(at + wait)

    def _wake_at(self, at: float) -> None:
        if self._closed:
            return
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(0.0, at - self._clock()), self._wake)

    def _wake(self) -> None:
        """Replace it while it is valid, if it was used."""
        self._timer = None
        if self._used and self._fetching is None:
            self._replaced = 0
            self._begin()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
