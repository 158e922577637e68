"""Text to tokens without holding up others, for the engine and for the gateway's own tokenizers.

What a text costs goes by its length: a short one is encoded where the request is read, a longer
one in a thread, and a long one in a child process, which can be stopped. The tokenizers library
lets other threads run while it encodes a batch, and only then.
"""

import asyncio
from array import array
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Protocol, TypeVar

from local_engine.child_process.fair_gate import Gate
from local_engine.child_process.messages import Encode, Encoded, Reply
from local_engine.child_process.process_pool import Starved, TooMuchWork, pool
from schemas.errors import InvalidRequest, Unavailable

INLINE = 4096
"""Characters, or tokens, that are worked on in the event loop; more go to a thread."""

LONG = 256 * 1024
"""Characters from which on a child process encodes."""

ENCODE_SECONDS = 30
"""CPU time for one text."""

TURNS, WAITING, WAIT_S = 2, 4096, 300.0
"""Long requests that are read at a time; those of one tenant that wait, and how long, seconds."""

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
    """Lets a thread that reads a request wait for child processes, for as long as it is wanted."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """loop: the one that the request came on."""
        self._loop = loop
        self._waits: Future[Reply] | None = None
        self._abandoned = False

    def run(self, task: Encode, tokenizer: str) -> Reply:
        """Blocks. Raises TooMuchWork and Starved, the latter too where nobody waits any more."""
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
        """Called on the loop: the client has left, or the work is done."""
        self._abandoned = True
        if self._waits is not None:
            self._waits.cancel()


async def run_offloaded(work: Callable[[Offload], _Result]) -> _Result:
    """Does it in a thread. Cancelling ends the child process that it waits for."""
    offload = Offload(asyncio.get_running_loop())
    try:
        return await asyncio.to_thread(work, offload)
    finally:
        offload.abandon()


def reading_gate(name: str) -> Gate:
    """For requests of more than INLINE. name: of the engine or provider, for errors."""
    return Gate("reading a long prompt", slots=TURNS, waiting=WAITING, wait_s=WAIT_S, name=name)


class TextEncoder:
    """One tokenizer's way from text to tokens. `encode` may be called from any thread."""

    def __init__(self, backend: BatchEncoder, key: str, source: Callable[[], str]) -> None:
        """key: names the tokenizer in child processes. source: its tokenizer.json, made once."""
        self._backend = backend
        self._key = key
        self._source = source
        self._text = ""

    def encode(
        self, text: str, *, special: bool, most: int | None = None, offload: Offload | None = None
    ) -> tuple[list[int], int]:
        """The tokens, and how many there are: of more than `most` only the last so many are given.

        special: add what the model expects around a text (its begin token).
        errand: where a child process may be waited for; without, all texts are encoded here.
        Raises InvalidRequest for a text that takes too long, and Unavailable.
        """
        if offload is None or len(text) <= LONG:
            (found,) = self._backend.encode_batch_fast([text], add_special_tokens=special)
            count = len(found)
            ids = found.ids if most is None or count <= most else found.ids[-most:]
            return ids, count
        self._text = self._text or self._source()
        task = Encode(key=self._key, text=text, special=special, most=most)
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
