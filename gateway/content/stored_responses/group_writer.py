"""Write the rows of concurrent requests together: one transaction at a time, in one thread.

What arrives while a transaction runs goes into the next one, so that many requests share the wait
for the disk.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.storage.sql.errors import StoreFull, StoreRejected
from strowger_gateway.gateway.storage.sql.response_rows import StoredResponse

MOST_WAITING_BYTES: Final = 64 * 1024 * 1024
"""Of rows in memory; beyond it, responses leave unstored."""

MOST_ROWS: Final = 200
"""Rows of one transaction."""

_Waiting = tuple[StoredResponse, asyncio.Future[bool]]


class GroupWriter:
    """Used on the event loop. A row whose future is cancelled is not written.

    If it is being written at that moment, it is deleted again.
    """

    def __init__(
        self,
        write: Callable[[Sequence[StoredResponse]], Sequence[bool]],
        remove: Callable[[StoredResponse], object],
    ) -> None:
        """write: blocks; returns for each row whether it was stored. remove: deletes one, blocks.

        Both raise StoreUnavailable; write also StoreRejected, and StoreFull.
        """
        self._write = write
        self._remove = remove
        self._thread = ThreadPoolExecutor(1, "response-writer")
        self._waiting: list[_Waiting] = []
        self._unwanted: list[StoredResponse] = []
        self._bytes = 0
        self._began: float | None = None

    @property
    def full(self) -> bool:
        return self._bytes > MOST_WAITING_BYTES

    def hangs(self, patience_s: float) -> bool:
        """Return whether the transaction in progress takes longer than this."""
        return self._began is not None and now() - self._began > patience_s

    def add(self, row: StoredResponse) -> "asyncio.Future[bool]":
        """Write a row. The future is True when it is durable, False if there was no room for it.

        It raises what `write` raises.
        """
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((row, future))
        self._bytes += row.bytes
        if self._began is None:
            self._begin()
        return future

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _begin(self) -> None:
        self._forget([row for row, future in self._waiting if future.cancelled()])
        waiting = [(row, future) for row, future in self._waiting if not future.cancelled()]
        batch, self._waiting = waiting[:MOST_ROWS], waiting[MOST_ROWS:]
        unwanted, self._unwanted = self._unwanted, []
        if not batch and not unwanted:
            return
        self._began = now()
        loop = asyncio.get_running_loop()
        work = partial(self._run, [row for row, _ in batch], unwanted)
        done = loop.run_in_executor(self._thread, work)
        done.add_done_callback(partial(self._end, batch, unwanted))

    def _run(
        self, rows: Sequence[StoredResponse], unwanted: Sequence[StoredResponse]
    ) -> Sequence[bool | StoreRejected | StoreFull]:
        """Write a batch, in the thread; row by row if it is rejected as a whole, or too large."""
        for row in unwanted:
            self._remove(row)
        try:
            return self._write(rows)
        except (StoreRejected, StoreFull) as exc:
            return [exc] if len(rows) == 1 else [self._run([row], ())[0] for row in rows]

    def _end(
        self,
        batch: Sequence[_Waiting],
        unwanted: Sequence[StoredResponse],
        done: "asyncio.Future[Sequence[bool | StoreRejected | StoreFull]]",
    ) -> None:
        self._began = None
        self._forget([row for row, _ in batch])
        failure = asyncio.CancelledError() if done.cancelled() else done.exception()
        results = [False] * len(batch) if failure is not None else done.result()
        if failure is not None:
            self._unwanted += unwanted  # deleted with the next row that is written
        late = [
            row
            for (row, future), result in zip(batch, results, strict=True)
            if future.cancelled() and result is True
        ]
        for (_, future), result in zip(batch, results, strict=True):
            if future.cancelled():
                continue
            if failure is not None or not isinstance(result, bool):
                _fail(future, failure or result)
            else:
                future.set_result(result)
        self._unwanted += late
        if self._waiting or late:
            self._begin()

    def _forget(self, rows: Sequence[StoredResponse]) -> None:
        self._bytes -= sum(row.bytes for row in rows)


def _fail(future: "asyncio.Future[bool]", failure: object) -> None:
    if isinstance(failure, Exception):
        future.set_exception(failure)
        future.exception()  # the client may have left: then asyncio would log it
    else:
        future.cancel()
