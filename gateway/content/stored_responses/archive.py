"""The stored responses of one process: within a time limit, and without ever failing an answer."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, Literal, TypeVar

from strowger_gateway.gateway.config.schema.responses import ResponsesConfig
from strowger_gateway.gateway.content.stored_responses.group_writer import GroupWriter
from strowger_gateway.gateway.content.stored_responses.room import ResponseRoom, RoomBounds
from strowger_gateway.gateway.platform.eventloop.inline_task import in_task
from strowger_gateway.gateway.platform.fair_threads import FairThreads
from strowger_gateway.gateway.storage.sql.base import Store
from strowger_gateway.gateway.storage.sql.errors import StoreFull, StoreRejected, StoreUnavailable
from strowger_gateway.gateway.storage.sql.response_rows import (
    MOST_FOUND,
    MOST_ROWS,
    ResponseRows,
    StoredResponse,
)
from strowger_gateway.gateway.surfaces.responses.item_pages import ItemPage, item_page
from strowger_gateway.gateway.surfaces.responses.stored_conversation import (
    is_response_id,
    joined_items,
    known_items,
    response_of,
    whole_resource,
)
from strowger_gateway.gateway.surfaces.stored_items import EarlierItems, EarlierItemsNeeded
from strowger_gateway.schemas.errors import InvalidRequest, ResponseNotFound
from strowger_gateway.schemas.holdings import Holder

_log = logging.getLogger("strowger.responses")

Outcome = Literal["stored", "timeout", "unavailable", "rejected", "too_large", "full", "overload"]
OUTCOMES: Final[tuple[Outcome, ...]] = (
    "stored",
    "timeout",
    "unavailable",
    "rejected",
    "too_large",
    "full",
    "overload",
)

SWEEP_S: Final = 3600.0
"""Interval at which one process of all deletes what is too old."""

_LOOK_S: Final = 60.0
_READERS: Final = 3
_DELETERS: Final = 1
"""More would only compete for the lock of SQLite, also with the answers that are being stored."""

_SHOWN: Final = 80
_DAY_S: Final = 86_400.0
_UNREADABLE: Final = "stored responses cannot be read at the moment"
_PREVIOUS: Final = "previous_response_id"

_T = TypeVar("_T")


class ResponseArchive:
    """Use it on the event loop. counts: how storing ended, by outcome.

    No call occupies the store longer than `timeout_s` of the settings. Reading raises
    StoreUnavailable then; storing returns an outcome, and logs the first of several failures.

    Calls that read or delete take turns by team and key. What waits for its turn longer than the
    others of its key allow is Throttled.
    """

    def __init__(
        self,
        store: Store,
        rows: ResponseRows,
        settings: Callable[[], ResponsesConfig],
        spare: Callable[[], int] = int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """settings: returns those of the configuration in force. clock: Unix seconds.

        spare: returns the bytes of the disk that responses leave to others.
        """
        self.counts: Counter[Outcome] = Counter()
        self._store = store
        self._rows = rows
        self._settings = settings
        self._clock = clock
        self._room = ResponseRoom(
            rows, lambda: RoomBounds(most=settings().max_total_bytes, spare=spare())
        )
        self._writer = GroupWriter(self._write, lambda row: rows.remove(row.key, [row.id]))
        self._readers = FairThreads(_READERS, "response-reader")
        self._deleters = FairThreads(_DELETERS, "response-deleter")
        self._sweeper = ThreadPoolExecutor(1, "response-sweeper")
        self._failing = False

    @property
    def on(self) -> bool:
        """Whether answers are stored."""
        return self._settings().store == "on"

    def close(self) -> None:
        """Without waiting: what is being written is decided by the store's own `close`."""
        self._writer.close()
        self._readers.close()
        self._deleters.close()
        self._sweeper.shutdown(wait=False, cancel_futures=True)

    async def add(self, row: StoredResponse) -> Outcome:
        """Store a response; return when it is durable, or cannot be in time."""
        outcome, why = await self._add(row)
        self.counts[outcome] += 1
        broken = outcome not in ("stored", "too_large")
        if broken and not self._failing:
            _log.error("responses are answered and not stored (%s): %s", outcome, why)
        elif self._failing and outcome == "stored":
            _log.warning("responses are stored again")
        if outcome != "too_large":
            self._failing = broken
        return outcome

    async def _add(self, row: StoredResponse) -> tuple[Outcome, str]:
        settings = self._settings()
        if row.bytes > min(settings.max_bytes_per_key, settings.max_total_bytes):
            return "too_large", ""
        if self._writer.full:
            return "overload", "too many of them wait for the database"
        late = f"the database took longer than responses.timeout_s ({settings.timeout_s:g} s)"
        if self._writer.hangs(settings.timeout_s):
            return "timeout", late
        await in_task()
        written = self._writer.add(row)
        await asyncio.wait({written}, timeout=settings.timeout_s)
        if not written.done():
            written.cancel()
            return "timeout", late
        if written.cancelled():
            return "unavailable", "the process is closing"
        try:
            return ("stored" if written.result() else "too_large"), ""
        except StoreRejected as exc:
            return "rejected", str(exc)
        except StoreFull as exc:
            return "full", str(exc)
        except StoreUnavailable as exc:
            return "unavailable", str(exc)

    async def earlier(
        self, key: str, holder: Holder, needed: EarlierItemsNeeded, most_bytes: int
    ) -> EarlierItems:
        """Return what a request needs. most_bytes: of all its items, its own included.

        Raises ResponseNotFound, InvalidRequest if it is too long, StoreUnavailable, Throttled.
        """
        room = most_bytes - needed.size
        ids = [id for id, _ in needed.references]
        work = partial(self._earlier, key, needed.previous, ids, room)
        return await self._call(self._readers, holder, work)

    async def resource(self, key: str, holder: Holder, id: str) -> bytes:
        """Return a response as JSON. Raises ResponseNotFound, StoreUnavailable, Throttled."""
        return await self._found(holder, id, partial(self._resource, key, id))

    async def check(self, key: str, holder: Holder, id: str) -> None:
        """Raises ResponseNotFound unless it is stored; StoreUnavailable, Throttled."""
        await self._found(holder, id, partial(self._exists, key, id))

    async def items(
        self, key: str, holder: Holder, id: str, page: ItemPage, most_bytes: int
    ) -> bytes:
        """Return a page of what led to a response, as JSON.

        most_bytes: see `item_page`. Raises ResponseNotFound, InvalidRequest if it is too long or
        has no such item, StoreUnavailable, Throttled.
        """
        return await self._found(holder, id, partial(self._items, key, id, page, most_bytes))

    async def remove(self, key: str, holder: Holder, id: str) -> None:
        """Raises ResponseNotFound, StoreUnavailable, Throttled."""
        work = partial(self._rows.remove, key, [id])
        if not is_response_id(id) or not await self._call(self._deleters, holder, work):
            raise _not_found(id)

    async def sweep(self) -> None:
        """Delete what is too old, for ever; of all processes on a database, one at a time does."""
        while True:
            await asyncio.sleep(_LOOK_S)
            try:
                loop = asyncio.get_running_loop()
                await loop.run_in_executor(self._sweeper, self.sweep_once)
            except StoreUnavailable as exc:
                _log.debug("old responses are deleted later: %s", exc)

    def sweep_once(self) -> int:
        """Delete what is too old unless another process has; return how many. Blocks."""
        at = self._clock()
        if not self._store.claim("stored responses", SWEEP_S, at):
            return 0
        removed = self._rows.remove_before(at - self._settings().keep_days * _DAY_S)
        self._rows.forget_keys()
        if removed:
            _log.info("deleted %d responses that are older than responses.keep_days", removed)
        return removed

    def _write(self, rows: Sequence[StoredResponse]) -> Sequence[bool]:
        self._room.make(rows)
        return self._rows.add(rows, self._settings().max_bytes_per_key)

    async def _found(self, holder: Holder, id: str, work: Callable[[], _T | None]) -> _T:
        """Run `work` in a thread, which returns `None` if there is no response of this id."""
        found = await self._call(self._readers, holder, work) if is_response_id(id) else None
        if found is None:
            raise _not_found(id)
        return found

    async def _call(self, threads: FairThreads, holder: Holder, work: Callable[[], _T]) -> _T:
        """Run `work` in a thread. Raises StoreUnavailable, without addresses in its message."""
        try:
            return await threads.run(holder, work, self._settings().timeout_s)
        except (StoreUnavailable, TimeoutError) as exc:
            failure = StoreUnavailable(_UNREADABLE, retry_after=1)
            failure.logged = f"{_UNREADABLE}: {exc or 'timeout'}"
            raise failure from exc

    def _resource(self, key: str, id: str) -> bytes | None:
        found = self._rows.resource(key, id)
        return None if found is None else whole_resource(*found)

    def _exists(self, key: str, id: str) -> bool | None:
        return self._rows.exists(key, id) or None

    def _items(self, key: str, id: str, page: ItemPage, most_bytes: int) -> bytes | None:
        with self._rows.chain(key, id) as chain:
            if chain is None:
                return None
            if not chain.ids:
                raise InvalidRequest(
                    f"the conversation has more than {MOST_ROWS} responses; list an earlier one"
                )
            return item_page(chain, page, most_bytes)

    def _earlier(
        self, key: str, previous: str, references: Sequence[str], room: int
    ) -> EarlierItems:
        items, root = b"", ""
        if previous:
            found = None
            if is_response_id(previous):
                found = self._rows.conversation(key, previous, room)
            if found is None:
                raise _no_previous(previous)
            if found.too_long:
                raise InvalidRequest(_too_long(_PREVIOUS, room), param=_PREVIOUS)
            if found.missing:
                raise ResponseNotFound(
                    f"{_PREVIOUS}: the response {found.missing} of this conversation is not stored "
                    "any more; send the whole conversation in input",
                    param=_PREVIOUS,
                    code="previous_response_not_found",
                )
            items = joined_items((turn.input, turn.output) for turn in found.turns)
            root, room = found.root, room - len(items)
        if not references:
            return EarlierItems(items=items, root=root)
        places = {response_of(id) for id in references} - {""}
        if len(places) > MOST_FOUND:
            told = f"input: the references are to items of more than {MOST_FOUND} responses"
            raise InvalidRequest(told, param="input")
        turns = self._rows.turns(key, sorted(places), room) if places else ()
        if turns is None:
            raise InvalidRequest(_too_long("input: the references", room), param="input")
        known = known_items((turn.id, turn.input, turn.output) for turn in turns)
        for id in references:
            if id not in known:
                raise ResponseNotFound(f"Item with id '{_shown(id)}' not found.", param="input")
        if sum(len(bytes(known[id])) for id in references) > room:  # one may be there many times
            raise InvalidRequest(_too_long("input: the references", room), param="input")
        return EarlierItems(items=items, root=root, found={id: known[id] for id in references})


def _not_found(id: str) -> ResponseNotFound:
    return ResponseNotFound(f"Response with id '{_shown(id)}' not found.")


def _no_previous(id: str) -> ResponseNotFound:
    return ResponseNotFound(
        f"Previous response with id '{_shown(id)}' not found.",
        param=_PREVIOUS,
        code="previous_response_not_found",
    )


def _too_long(what: str, most_bytes: int) -> str:
    return (
        f"{what}: the stored items are of more than {MOST_ROWS} responses, or of more than the "
        f"{max(most_bytes, 0)} bytes that server.max_body_bytes leaves; "
        "send what the model needs in input"
    )


def _shown(id: str) -> str:
    return id if len(id) <= _SHOWN else id[:_SHOWN] + "…"
