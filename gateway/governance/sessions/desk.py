"""Open, find, list and end the sessions of /admin, in each process that serves.

A session is a row in the store, so all workers and gateways know it, and it survives a restart. A
process reads a row at most once per FRESH_S, so a session that is ended anywhere ends everywhere
within that time.

While the store is unreachable, sessions that the process has seen stay valid, and the operator's
key opens sessions without a row, which last UNLISTED_S. Sessions that are ended in that time are
written to the file of `EndedSessions`, and their rows are deleted when the store is back.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from strowger_gateway.gateway.governance.sessions.cookie import session_values
from strowger_gateway.gateway.governance.sessions.principal import KEY_HOLDER, Principal
from strowger_gateway.gateway.governance.sessions.tokens import (
    SessionToken,
    SessionTokens,
    TokenKind,
)
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.storage.sql.session_rows import AdminSession, SessionRows
from strowger_gateway.schemas.errors import InvalidRequest, Unavailable

FRESH_S: Final = 1.0
"""Time for which a row that was read is not read again."""

SEEN_S: Final = 30.0
"""Interval at which the last use of a session is stored."""

UNLISTED_S: Final = 3600
ANSWER_S: Final = 2.0
"""Silence of the store after which it counts as unreachable."""

RETRY_S: Final = 1.0
MOST_EACH: Final = 50
"""Sessions per person, and of all holders of the key together; the oldest ones end."""

_MOST_KNOWN, _MOST_CALLS, _THREADS = 1000, 16, 2
_log = logging.getLogger("strowger.sessions")
_T = TypeVar("_T")


class EndedSessionList(Protocol):
    """Sessions that were ended and may still have a row, or never had one."""

    def has(self, session: bytes) -> bool: ...

    def all(self) -> Iterable[bytes]: ...

    def add(self, session: bytes, until: int) -> None:
        """Raises OSError."""
        ...


class Opened(Struct, frozen=True, kw_only=True):
    """A new session. id: public. value: of its cookie. lasts_s: until it expires."""

    id: str
    value: str
    lasts_s: int


class _Known(Struct, frozen=True):
    """A row as last read, `None` if there is none. at: by the clock, seconds."""

    session: AdminSession | None
    at: float


class AdminSessions:
    """See the module. Without rows, only the operator's key opens sessions.

    clock: Unix seconds.
    """

    def __init__(
        self,
        tokens: Callable[[], SessionTokens],
        lifetime_s: Callable[[], int],
        ended: EndedSessionList,
        rows: SessionRows | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """tokens, lifetime_s: of the current configuration. clock: Unix seconds."""
        self._tokens = tokens
        self._lifetime_s = lifetime_s
        self._ended = ended
        self._rows = rows
        self.clock = clock
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._pending: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._calls = 0
        self._unreachable = False
        self._threads = ThreadPoolExecutor(_THREADS, "admin-sessions")

    def start(self) -> None:
        """Delete the rows of sessions that were ended while the store was away."""
        if self._rows is not None:
            self._end_later(one.hex() for one in self._ended.all())

    async def begin(self, who: Principal, address: str, origin: str = "") -> Opened:
        """Open a session.

        origin: what it is opened with, if that is valid once only. Raises InvalidRequest if it was
        used before, and Unavailable if someone without the key cannot get a session now.
        """
        at, by_key = self.clock(), who.kind == "admin key"
        kind = TokenKind.LISTED_KEY if by_key else TokenKind.LISTED_PROVIDER
        until = int(at) + self._lifetime_s()
        value, id = self._tokens().issue(kind, until)
        session = AdminSession(
            id=id,
            kind=who.kind,
            subject=who.subject,
            name=who.name,
            role=who.role,
            teams=who.teams,
            address=address,
            since=at,
            seen=at,
            expires=until,
        )
        try:
            if not await self._call(
                lambda rows: rows.begin(session, origin=origin, most=MOST_EACH)
            ):
                raise InvalidRequest(
                    "this sign-in was used before; start again", code="sign_in_used"
                )
        except StoreUnavailable as exc:
            if not by_key:
                raise Unavailable(
                    "the store is unreachable, so the identity provider cannot be used to sign in "
                    "now; retry later, or use the operator's key",
                    code=exc.code,
                    retry_after=RETRY_S,
                ) from exc
            until = min(until, int(at) + UNLISTED_S)
            value, id = self._tokens().issue(TokenKind.UNLISTED_KEY, until)
        return Opened(id=id, value=value, lasts_s=until - int(at))

    async def find(
        self, headers: Iterable[tuple[bytes, bytes]], *, secure: bool = False
    ) -> AdminSession | None:
        """Return the session whose cookie a request carries. secure: the browser uses TLS.

        Raises Unavailable if that cannot be known now.
        """
        for value in session_values(headers, secure=secure):
            token = self._valid(value)
            if token is not None:
                session = await self._session(token)
                if session is not None:
                    return session
        return None

    async def all(self) -> list[AdminSession]:
        """Return the sessions in the store, the newest first. Raises StoreUnavailable."""
        at, lifetime = self.clock(), self._lifetime_s()
        found = await self._call(lambda rows: rows.all(at))
        shown = (replace(one, expires=min(one.expires, one.since + lifetime)) for one in found)
        return [one for one in shown if one.expires > at]

    async def end(self, session: AdminSession) -> None:
        """End a session in all processes.

        Raises Unavailable if other gateways, or other processes, still accept it for now.
        """
        self._forget(session.id)
        try:
            await self._call(lambda rows: rows.end((session.id,)))
        except StoreUnavailable as exc:
            self._end_later((session.id,))
            self._end_here(session.id, int(session.expires))
            raise Unavailable(
                "the store is unreachable; the session has ended in this gateway, and ends in its "
                "gateways when the store is back",
                code=exc.code,
            ) from exc

    async def sign_out(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """End every session whose cookie a request carries. Raises Unavailable, as `end`."""
        for value in session_values(headers, secure=False):
            token = self._valid(value)
            if token is None:
                continue
            if token.kind is TokenKind.UNLISTED_KEY:
                self._end_here(token.id, token.until)
            else:
                await self.end(_by_key(token))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _valid(self, value: str) -> SessionToken | None:
        token = self._tokens().read(value)
        if token is None or self.clock() >= token.until or self._ended.has(bytes.fromhex(token.id)):
            return None
        return token

    async def _session(self, token: SessionToken) -> AdminSession | None:
        if token.kind is TokenKind.UNLISTED_KEY:
            return _by_key(token)
        found = await self._row(token.id)
        if found is None:
            return None
        expires = min(found.expires, token.until, found.since + self._lifetime_s())
        if self.clock() >= expires:
            return None
        return replace(found, expires=expires)

    async def _row(self, id: str) -> AdminSession | None:
        known = self._known.get(id)
        if known is not None and now() - known.at < FRESH_S:
            return known.session
        begun = now()
        try:
            found = await self._call(lambda rows: rows.find(id))
        except StoreUnavailable as exc:
            if known is None:
                raise Unavailable(
                    "the store is unreachable, so this session cannot be checked; retry later, or "
                    "send the operator's key as `Authorization: Bearer <key>`",
                    code=exc.code,
                    retry_after=RETRY_S,
                ) from exc
            return known.session
        if id in self._pending:
            found = None
        self._remember(id, _Known(found, begun))
        if found is not None and self.clock() - found.seen >= SEEN_S:
            self._spawn(self._note_seen(id, self.clock()))
        return found

    def _remember(self, id: str, known: _Known) -> None:
        self._known.pop(id, None)
        self._known[id] = known
        while len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)

    def _forget(self, id: str) -> None:
        self._remember(id, _Known(None, now()))

    def _end_here(self, id: str, until: int) -> None:
        """Raises Unavailable."""
        try:
            self._ended.add(bytes.fromhex(id), until)
        except OSError as exc:
            _log.error("ended session not saved, other processes still accept it: %s", exc)
            raise Unavailable(
                "the end of the session could not be saved, so a copy of the cookie may still "
                "work in other processes: change auth.admin_key if one may exist"
            ) from exc

    def _end_later(self, ids: Iterable[str]) -> None:
        begun = bool(self._pending)
        self._pending.update(ids)
        if self._pending and not begun:
            self._spawn(self._retry())

    async def _retry(self) -> None:
        """Delete the rows as soon as the store can be reached."""
        while self._pending:
            ids = tuple(self._pending)
            try:
                await self._call(partial(_end, ids=ids))
                self._pending.difference_update(ids)
            except StoreUnavailable:
                await asyncio.sleep(RETRY_S)

    async def _note_seen(self, id: str, at: float) -> None:
        try:
            await self._call(lambda rows: rows.note_seen(id, at))
        except StoreUnavailable as exc:
            _log.debug("last use of a session not stored: %s", exc)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _call(self, work: Callable[[SessionRows], _T]) -> _T:
        """Run a transaction in a thread. Raises StoreUnavailable."""
        if self._rows is None:
            raise StoreUnavailable("this gateway has no store")
        if self._calls >= _MOST_CALLS:
            raise StoreUnavailable("too many calls wait for the store")
        future = asyncio.get_running_loop().run_in_executor(self._threads, work, self._rows)
        self._calls += 1
        future.add_done_callback(self._called)
        try:
            found = await _answer(future)
        except StoreUnavailable as exc:
            if not self._unreachable:
                _log.error("store unreachable; continuing with the last known sessions: %s", exc)
            self._unreachable = True
            raise
        if self._unreachable:
            _log.warning("store reachable again; sessions are up to date")
        self._unreachable = False
        return found

    def _called(self, future: "asyncio.Future[_T]") -> None:
        self._calls -= 1
        if not future.cancelled():
            future.exception()  # asyncio logs those that nothing has looked at


async def _answer(future: asyncio.Future[_T]) -> _T:
    """Raises StoreUnavailable."""
    await asyncio.wait({future}, timeout=ANSWER_S)
    if not future.done():
        raise StoreUnavailable(f"no answer within {ANSWER_S:g} s")
    return future.result()


def _end(rows: SessionRows, ids: Sequence[str]) -> None:
    rows.end(ids)


def _by_key(token: SessionToken) -> AdminSession:
    """Return a session that has no row, or is about to lose it."""
    return AdminSession(
        id=token.id,
        kind=KEY_HOLDER.kind,
        subject="",
        name=KEY_HOLDER.name,
        role=KEY_HOLDER.role,
        address="",
        since=0.0,
        seen=0.0,
        expires=token.until,
    )
