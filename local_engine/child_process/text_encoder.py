"""Text to tokens without blocking other requests; used by the engine and the gateway.

The cost depends on the length: a short text is encoded where the request is read, a longer one in
a thread, and a long one in a child process, which can be stopped. The tokenizers library releases
the interpreter lock only while it encodes a batch.
"""

import asyncio
from array import array
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Protocol, TypeVar

from strowger_gateway.local_engine.child_process.fair_gate import Gate
from strowger_gateway.local_engine.child_process.messages import Encode, Encoded, Reply
from strowger_gateway.local_engine.child_process.process_pool import Starved, TooMuchWork, pool
from strowger_gateway.schemas.errors import InvalidRequest, Unavailable

INLINE = 4096
"""Characters or tokens that are processed on the event loop; longer requests go to a thread."""

LONG = 256 * 1024
"""Characters above which a child process encodes."""

ENCODE_SECONDS = 30
"""CPU time limit for one text."""

SLOTS, WAITING, WAIT_S = 2, 4096, 300.0
"""Long requests read at a time; how many of one key may wait, and how long, in seconds."""

_Result = TypeVar("_Result")


class Encoding(Protocol):
    ids: list[int]

    def __len__(self) -> int: ...


class BatchEncoder(Protocol):
    """The part of `tokenizers.Tokenizer` that encodes."""

    def encode_batch_fast(
        self, input: list[str], *, add_special_tokens: bool
    ) -> list[Encoding]: ...


class Offload:
    """Lets a thread that reads a request call child processes until the client disconnects."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """loop: the one on which the request arrived."""
        self._loop = loop
        self._waits: Future[Reply] | None = None
        self._abandoned = False

    def run(self, task: Encode, tokenizer: str) -> Reply:
        """Run the task; blocks. Raises TooMuchWork, and Starved, also after `abandon`."""
        if self._abandoned:
            raise Starved
        work = pool.run(task, tokenizer=tokenizer, cpu_s=ENCODE_SECONDS, size=len(task.text))
        self._waits = asyncio.run_coroutine_threadsafe(work, self._loop)
        if self._abandoned:
            self._waits.cancel()
        try:
            return self._waits.result()
        except CancelledError as exc:
            raise Starved from exc

    def abandon(self) -> None:
        """Cancel the running task. Call it on the loop: the client left, or the work is done."""
        self._abandoned = True
        if self._waits is not None:
            self._waits.cancel()


async def run_offloaded(work: Callable[[Offload], _Result]) -> _Result:
    """Run `work` in a thread. Cancelling ends the child process that it waits for."""
    offload = Offload(asyncio.get_running_loop())
    try:
        return await asyncio.to_thread(work, offload)
    finally:
        offload.abandon()


def reading_gate(name: str) -> Gate:
    """Return the gate for requests above INLINE. name: of the engine or provider, for errors."""
    return Gate("reading a long prompt", slots=SLOTS, waiting=WAITING, wait_s=WAIT_S, name=name)


class TextEncoder:
    """Encodes text with one tokenizer. `encode` may be called from any thread."""

    def __init__(self, backend: BatchEncoder, key: str, source: Callable[[], str]) -> None:
        """key: names the tokenizer in child processes. source: returns tokenizer.json, once."""
        self._backend = backend
        self._key = key
        self._source = source
        self._text = ""

    def encode(
        self,
        text: str,
        *,
        special: bool,
        most: int | None = None,
        limit: int | None = None,
        offload: Offload | None = None,
    ) -> tuple[list[int], int]:
        """Return the last `most` tokens (`None`: all) and the count of all tokens.

        limit: the caller refuses a text with more tokens. Of such a text a part may be counted
        and no token returned, so that it takes neither the time nor the memory of all of it.
        special: add the tokens that the model expects around a text (its begin token).
        offload: runs long texts in a child process; without it, every text is encoded here.
        Raises InvalidRequest for a text that takes too long, and Unavailable on a busy machine.
        """
        if offload is None or len(text) <= LONG:
            (found,) = self._backend.encode_batch_fast([text], add_special_tokens=special)
            count = len(found)
            ids = found.ids if most is None or count <= most else found.ids[-most:]
            return ids, count
        self._text = self._text or self._source()
        task = Encode(key=self._key, text=text, special=special, most=most, limit=limit)
        try:
            answer = offload.run(task, self._text)
        except TooMuchWork as exc:
            raise InvalidRequest(
                f"a text of {len(text)} characters takes too much to tokenize: {exc}; shorten it"
            ) from exc
        except Starved as exc:
            raise Unavailable(
                "the machine is too busy to tokenize a long text", retry_after=1.0
            ) from exc
        assert isinstance(answer, Encoded)
        return list(array("I", answer.ids)), answer.count
