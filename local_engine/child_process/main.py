"""The child process: `python -m strowger_gateway.local_engine.child_process.main`, tasks on stdin,
replies on stdout.

It holds tokenizers, but no secrets and no models. It may be killed at any time: by its parent, by
the kernel when a task exceeds its CPU time or memory, and together with its parent.
"""

import ctypes
import os
import resource
import signal
import sys
import threading
from array import array
from typing import TYPE_CHECKING, Protocol, cast

from strowger_gateway.local_engine.child_process import messages

if TYPE_CHECKING:
    from llguidance import LLTokenizer

    from strowger_gateway.local_engine.child_process.text_encoder import Encoding

STACK_BYTES = 256 << 20
"""Address space, not resident memory: the grammar compiler recurses through the client's rules."""

MEMORY_BYTES = 4 << 30
PIECE = 256 * 1024
"""Characters that are encoded at a time while the tokens of a long text are counted."""

SPACE_WITHIN = 1024
"""Characters before the end of a piece within which it ends at a space, so that no word is cut."""

REASON = 400
"""Characters of an exception that are passed on."""

NICE = 5
"""Running answers have priority over compiling and encoding."""

_DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG, see prctl(2)."""


class _Normalizer(Protocol):
    def normalize_str(self, sequence: str) -> str: ...


class _Tokenizer(Protocol):
    """The part of `tokenizers.Tokenizer` that is used."""

    @property
    def normalizer(self) -> _Normalizer | None: ...

    def encode_batch_fast(
        self, input: list[str], *, add_special_tokens: bool
    ) -> "list[Encoding]": ...


class Child:
    """Serves tasks one at a time until stdin ends."""

    def __init__(self) -> None:
        self._sources: dict[str, str] = {}
        self._tokenizers: dict[str, _Tokenizer] = {}
        self._compilers: dict[tuple[str, int, tuple[int, ...]], LLTokenizer] = {}

    def serve(self) -> None:
        tasks, replies = sys.stdin.buffer, sys.stdout.buffer
        while body := messages.read(tasks):
            match messages.decode_message.decode(body):
                case messages.Load(key=key, tokenizer=tokenizer):
                    self._sources[key] = tokenizer
                case messages.CpuLimit(cpu_s=seconds):
                    limit_cpu(seconds)
                case task:
                    messages.write(replies, self._done(task))

    def _done(self, task: messages.Task) -> messages.Reply:
        """Run one task. Panics of Rust code are BaseExceptions, not Exceptions."""
        try:
            return self._encode(task) if isinstance(task, messages.Encode) else self._compile(task)
        except BaseException as exc:  # noqa: BLE001  the parent reports it to the client
            return messages.Broken(reason=f"{type(exc).__name__}: {exc}"[:REASON])

    def _encode(self, task: messages.Encode) -> messages.Encoded:
        tokenizer = self._tokenizers.get(task.key)
        if tokenizer is None:
            import tokenizers

            read = tokenizers.Tokenizer.from_str(self._sources[task.key])  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # tokenizers annotates in part
            read.no_truncation()
            read.no_padding()
            tokenizer = self._tokenizers[task.key] = cast("_Tokenizer", read)
        if task.limit is not None and (count := _beyond(tokenizer, task.text, task.limit)):
            return messages.Encoded(ids=b"", count=count)
        (found,) = tokenizer.encode_batch_fast([task.text], add_special_tokens=task.special)
        ids = found.ids if task.most is None else found.ids[-task.most :]
        return messages.Encoded(ids=array("I", ids).tobytes(), count=len(found))

    def _compile(self, task: messages.Compile) -> messages.Compiled:
        from llguidance import LLTokenizer

        from strowger_gateway.local_engine.child_process.grammar_compiler import compiled

        known = (task.key, task.width, task.ends)
        tokenizer = self._compilers.get(known)
        if tokenizer is None:
            tokenizer = self._compilers[known] = LLTokenizer(
                self._sources[task.key], n_vocab=task.width, eos_token=list(task.ends) or None
            )
        return compiled(tokenizer, task.guide)[1]


def _beyond(tokenizer: "_Tokenizer", text: str, limit: int) -> int:
    """Return more than `limit` if the text certainly has more tokens, and 0 otherwise.

    Encoding takes about 300 bytes of memory per token at once, so a text with too many tokens is
    counted in pieces, up to the limit. A cut may add a token or change those next to it, so an
    eighth more than the limit is required. A token is at least one byte of the normalized text.
    """
    normalizer = tokenizer.normalizer
    normalized = text if normalizer is None else normalizer.normalize_str(text)
    if len(normalized.encode()) <= limit:
        return 0
    most, count, start = limit + limit // 8, 0, 0
    while start < len(text):
        end = start + PIECE
        if end < len(text) and (space := text.rfind(" ", end - SPACE_WITHIN, end)) > 0:
            end = space
        (found,) = tokenizer.encode_batch_fast([text[start:end]], add_special_tokens=False)
        count += len(found)
        if count > most:
            return count
        start = end
    return 0


def limit_cpu(seconds: int) -> None:
    """Let the kernel end this process (SIGXCPU) after `seconds` more of CPU time."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = int(used.ru_utime + used.ru_stime) + 1 + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    os.nice(NICE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    threading.stack_size(STACK_BYTES)
    thread = threading.Thread(target=Child().serve, name="tasks")
    thread.start()
    thread.join()


if __name__ == "__main__":
    main()
