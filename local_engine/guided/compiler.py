"""Compile grammars for one model's tokenizer, and compute their token masks.

A client's grammar is limited in bytes, compiler work and time, compiled first in a child process
that can be stopped, and scheduled in turn by key. Compiled grammars are cached.
"""

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from hashlib import sha256
from queue import SimpleQueue

import numpy
import torch
from llguidance import LLMatcher, LLTokenizer
from msgspec import structs
from torch import Tensor

from strowger_gateway.local_engine.child_process.fair_gate import Gate
from strowger_gateway.local_engine.child_process.grammar_compiler import compiled, reason
from strowger_gateway.local_engine.child_process.messages import Compile, Compiled, Guide
from strowger_gateway.local_engine.child_process.process_pool import Starved, TooMuchWork, pool
from strowger_gateway.schemas.errors import InvalidRequest, Unavailable
from strowger_gateway.schemas.holdings import ANONYMOUS, Holder

MAX_PART_BYTES = 128 * 1024
"""Bytes of one schema, pattern or grammar."""

MAX_BYTES = 512 * 1024
"""Bytes of all grammars of one request."""

NAME = "local engine"

COMPILE_SECONDS = 5
"""CPU time."""

REFUSED_S = 60.0
"""Seconds for which a grammar that took too long is rejected without another try."""

KEPT = 64
"""Cached grammars per model; the same number of rejected ones is remembered."""

SLOTS, WAITING, WAIT_S = 2, 1024, 30.0
"""Grammars that compile at a time; how many of one key may wait, and how long, in seconds."""

_THREADS = 2
_STACK_BYTES = 256 << 20
"""Address space, not memory: the compiler recurses through the client's rules."""


class MaskedGrammar:
    """The state of one answer; see `strowger_gateway.local_engine.guided.grammar.Grammar`."""

    def __init__(
        self,
        matcher: LLMatcher,
        *,
        width: int,
        own_ends: tuple[int, ...],
        ends: tuple[int, ...],
        field: str,
    ) -> None:
        """width: tokens that the matcher knows, at least V. own_ends: the model's end tokens.

        ends: tokens that end this answer. field: the request's field with the grammar.
        """
        self.field = field
        self._matcher = matcher
        self._width = width
        self._own_ends = list(own_ends)
        self._ends = list(ends)

    def allow(self, row: Tensor) -> None:
        bits = numpy.zeros(-(-self._width // 32) * 4, dtype=numpy.uint8)
        self._matcher.unsafe_compute_mask_ptr(bits.ctypes.data, bits.size)
        allowed = numpy.unpackbits(bits, count=row.numel(), bitorder="little")
        allowed[self._own_ends] = 0
        if self._matcher.is_accepting():
            allowed[self._ends] = 1
        if not allowed.max():
            allowed[self._own_ends or [0]] = 1
        row.copy_(torch.from_numpy(allowed))  # pyright: ignore[reportUnknownMemberType]  # torch

    def advance(self, token: int) -> None:
        if token not in self._ends and not self._matcher.is_stopped():
            self._matcher.consume_token(token)

    def fork(self) -> "MaskedGrammar":
        return MaskedGrammar(
            self._matcher.deep_copy(),
            width=self._width,
            own_ends=tuple(self._own_ends),
            ends=tuple(self._ends),
            field=self.field,
        )

    @property
    def over(self) -> bool:
        return self._matcher.is_stopped() and not self._matcher.is_error()

    @property
    def failure(self) -> str:
        if not self._matcher.is_error():
            return ""
        return f"the grammar matcher failed: {reason(self._matcher.get_error())}"


class GuideCompiler:
    """One model's compiler and its cache. Call its methods on the event loop."""

    def __init__(
        self,
        tokenizer: str,
        *,
        vocabulary: int,
        known: int,
        ends: frozenset[int],
        seconds: int = COMPILE_SECONDS,
    ) -> None:
        """tokenizer: tokenizer.json's text. vocabulary: V. known: tokens of the tokenizer.

        ends: the model's end tokens. seconds: CPU time that one request's grammar may take.
        A tokenizer that the compiler cannot read fails only the requests that need a grammar.
        """
        self._source = tokenizer
        self._key = sha256(tokenizer.encode()).hexdigest()
        self._refused: OrderedDict[Guide, tuple[float, str]] = OrderedDict()
        self._seconds = seconds
        self._width = max(vocabulary, known)
        self._own_ends = tuple(sorted(end for end in ends if end < vocabulary))
        self._vocabulary = vocabulary
        self._compiled: OrderedDict[Guide, LLMatcher] = OrderedDict()
        self._tokenizer: LLTokenizer | None = None
        self._unreadable = ""
        try:
            self._tokenizer = LLTokenizer(
                tokenizer, n_vocab=self._width, eos_token=list(self._own_ends) or None
            )
        except ValueError as exc:
            self._unreadable = str(exc)

    def spell(self, marker: str, token: int | None) -> str:
        """Return a marker of the model in lark: its token if it is one, else its text."""
        if token is not None and self._tokenizer and self._tokenizer.is_special_token(token):
            return f"<[{token}]>"
        return quote(marker)

    async def compile(
        self, guide: Guide, ends: frozenset[int], holder: Holder = ANONYMOUS
    ) -> MaskedGrammar:
        """Return a fresh state. ends: tokens that end this answer. holder: whose slot this uses.

        Raises InvalidRequest naming the field that is too large, invalid, or takes too long,
        Throttled if too many grammars of this key are waiting, and Unavailable if other
        keys or a busy machine left no time.
        """
        matcher = self._compiled.get(guide)
        if matcher is None:
            matcher = await self._compile(guide, holder)
            self._compiled[guide] = matcher
            if len(self._compiled) > KEPT:
                self._compiled.popitem(last=False)
        else:
            self._compiled.move_to_end(guide)
        return MaskedGrammar(
            matcher.deep_copy(),
            width=self._width,
            own_ends=self._own_ends,
            ends=tuple(end for end in ends if 0 <= end < self._vocabulary),
            field=guide.parts[0].field,
        )

    async def _compile(self, guide: Guide, holder: Holder) -> LLMatcher:
        """Compile in a child process first, which can be stopped; if it works, compile here."""
        field = guide.parts[0].field
        if self._tokenizer is None:
            raise InvalidRequest(
                f"{field}: guided decoding is not supported: {self._unreadable}",
                param=field,
            )
        _refuse_large(guide)
        self._refuse_again(guide)
        tokenizer = self._tokenizer
        async with _gate.slot(holder):
            if (matcher := self._compiled.get(guide)) is not None:
                return matcher
            self._refuse_again(guide)
            checked = await self._compile_in_child(guide)
            if checked.problem:
                raise InvalidRequest(f"{checked.field}: {checked.problem}", param=checked.field)
            known = structs.replace(guide, client=checked.client, gbnf=False)
            compiling = asyncio.wrap_future(_compilers.run(lambda: compiled(tokenizer, known)))
            matcher, result = await asyncio.shield(compiling)
        if matcher is None:
            raise InvalidRequest(f"{result.field}: {result.problem}", param=result.field)
        return matcher

    async def _compile_in_child(self, guide: Guide) -> Compiled:
        """Compile in a child process. Raises InvalidRequest for too much work."""
        task = Compile(key=self._key, guide=guide, width=self._width, ends=self._own_ends)
        field = guide.parts[0].field
        try:
            answer = await pool.run(task, tokenizer=self._source, cpu_s=self._seconds)
        except TooMuchWork as exc:
            problem = (
                f"{field}: not compiled within {self._seconds} s of CPU time: {exc}; simplify it"
            )
            self._refused[guide] = (time.monotonic() + REFUSED_S, problem)
            if len(self._refused) > KEPT:
                self._refused.popitem(last=False)
            raise InvalidRequest(problem, param=field) from exc
        except Starved as exc:
            raise Unavailable(
                f"{NAME}: the machine is too busy to compile a grammar", retry_after=1.0
            ) from exc
        assert isinstance(answer, Compiled)
        return answer

    def _refuse_again(self, guide: Guide) -> None:
        """Raises InvalidRequest for a guide that took too long recently."""
        until, problem = self._refused.get(guide, (0.0, ""))
        if until > time.monotonic():
            raise InvalidRequest(problem, param=guide.parts[0].field)
        self._refused.pop(guide, None)


def quote(text: str) -> str:
    """Return `text` as a lark literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _refuse_large(guide: Guide) -> None:
    for part in guide.parts:
        size = len(part.lark.encode()) + len(guide.client.encode()) * ("@client" in part.lark)
        if size > MAX_PART_BYTES:
            raise InvalidRequest(
                f"{part.field}: {size} bytes are too many; send at most {MAX_PART_BYTES}",
                param=part.field,
            )
    total = sum(len(part.lark.encode()) for part in guide.parts)
    if total > MAX_BYTES:
        field = guide.parts[0].field.partition("[")[0]
        raise InvalidRequest(
            f"{field}: {total} bytes together are too many; send at most {MAX_BYTES}",
            param=field,
        )


_Matched = tuple[LLMatcher | None, Compiled]
_Task = Callable[[], _Matched]


class _Compilers:
    """Daemon threads with deep stacks, started on first use."""

    def __init__(self) -> None:
        self._work: SimpleQueue[tuple[Future[_Matched], _Task]] = SimpleQueue()
        self._started = False

    def run(self, task: _Task) -> "Future[_Matched]":
        if not self._started:
            self._started = True
            usual = threading.stack_size(_STACK_BYTES)
            for number in range(_THREADS):
                name = f"grammars-{number}"
                threading.Thread(target=self._serve, name=name, daemon=True).start()
            threading.stack_size(usual)
        future: Future[_Matched] = Future()
        self._work.put((future, task))
        return future

    def _serve(self) -> None:
        while True:
            future, task = self._work.get()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(task())
            except BaseException as exc:  # noqa: BLE001  passed to the waiting caller
                future.set_exception(exc)


_compilers = _Compilers()

_gate = Gate("compiling a grammar", slots=SLOTS, waiting=WAITING, wait_s=WAIT_S, name=NAME)
