"""Grammars compiled for one model's tokenizer, by llguidance, within limits.

https://github.com/guidance-ai/llguidance compiles lark grammars, regular expressions and JSON
schemas to token masks. What clients send is compiled on threads of its own, bounded in bytes, in
the compiler's own work and in time; a grammar that was compiled once is kept.
"""

import asyncio
import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue

import msgspec
import numpy
import torch
from llguidance import LLMatcher, LLParserLimits, LLTokenizer
from llguidance.gbnf_to_lark import any_to_lark
from msgspec import Struct
from torch import Tensor

from schemas.errors import InvalidRequest

MAX_PART_BYTES = 128 * 1024
"""Of one schema, pattern or grammar."""

MAX_BYTES = 512 * 1024
"""Of all that one request wants to be matched."""

COMPILE_SECONDS = 10.0
KEPT = 64
"""Compiled grammars a model."""

_THREADS = 2
_STACK_BYTES = 256 << 20
"""Address space, not memory: the compiler recurses through the client's rules."""

_NO_FORCING = '%llguidance {"no_forcing": true}\n'
"""Forced text would be spelt out when the grammar is compiled, and a short grammar can force
gigabytes; without, it is found token by token."""

_REASON = 400
"""Characters of the compiler's own words that are passed on."""

_WHERE = re.compile(r"^at \d+\(\d+\): ")


class Part(Struct, frozen=True, kw_only=True):
    """Something that the client wrote. field: its name in the request. lark: as a grammar."""

    field: str
    lark: str


class Guide(Struct, frozen=True, kw_only=True):
    """What an answer must match, not compiled.

    lark:  the rules, `start` first; `client` may be used as `@client`.
    client: a grammar that the client wrote; gbnf: its syntax is GBNF and not lark's.
    parts: what the client wrote, each by itself, to tell which of them is at fault.
    """

    lark: str
    parts: tuple[Part, ...]
    client: str = ""
    gbnf: bool = False


class MaskedGrammar:
    """The state of one answer; see `local_engine.grammar.Grammar`."""

    def __init__(
        self,
        matcher: LLMatcher,
        *,
        width: int,
        own_ends: tuple[int, ...],
        ends: tuple[int, ...],
    ) -> None:
        """width: tokens that the matcher knows, at least V. own_ends: the model's end tokens.

        ends: tokens that end this answer.
        """
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
        )

    @property
    def over(self) -> bool:
        return self._matcher.is_stopped() and not self._matcher.is_error()

    @property
    def failure(self) -> str:
        if not self._matcher.is_error():
            return ""
        return f"the grammar cannot go on: {_reason(self._matcher.get_error())}"


class Guides:
    """One model's compiler and what it has compiled. Its verbs are called on the event loop."""

    def __init__(
        self,
        tokenizer: str,
        *,
        vocabulary: int,
        known: int,
        ends: frozenset[int],
        seconds: float = COMPILE_SECONDS,
    ) -> None:
        """tokenizer: tokenizer.json's text. vocabulary: V. known: tokens of the tokenizer.

        ends: the model's end tokens. seconds: the longest that a request waits for its grammar.
        A tokenizer that the compiler cannot read is told to the requests that need it.
        """
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
        """A marker of the model's own in lark: its token where it is one, else its text."""
        if token is not None and self._tokenizer and self._tokenizer.is_special_token(token):
            return f"<[{token}]>"
        return quote(marker)

    async def compile(self, guide: Guide, ends: frozenset[int]) -> MaskedGrammar:
        """A fresh state. ends: the tokens that end this answer.

        Raises InvalidRequest naming the field that is too large, wrong, or takes too long.
        """
        matcher = self._compiled.get(guide)
        if matcher is None:
            matcher = await self._compile(guide)
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
        )

    async def _compile(self, guide: Guide) -> LLMatcher:
        field = guide.parts[0].field
        if self._tokenizer is None:
            raise InvalidRequest(
                f"{field}: this model's tokenizer cannot be guided: {self._unreadable}",
                param=field,
            )
        _refuse_large(guide)
        tokenizer = self._tokenizer
        try:
            compiling = _compilers.run(lambda: _compiled(tokenizer, guide))
            return await asyncio.wait_for(asyncio.wrap_future(compiling), self._seconds)
        except TimeoutError as exc:
            raise InvalidRequest(
                f"{field}: not compiled within {self._seconds} s; make it simpler", param=field
            ) from exc


def quote(text: str) -> str:
    """A lark literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _refuse_large(guide: Guide) -> None:
    for part in guide.parts:
        size = len(part.lark.encode()) + len(guide.client.encode()) * ("@client" in part.lark)
        if size > MAX_PART_BYTES:
            raise InvalidRequest(
                f"{part.field}: {size} bytes are too much to match; {MAX_PART_BYTES} is the most",
                param=part.field,
            )
    total = sum(len(part.lark.encode()) for part in guide.parts)
    if total > MAX_BYTES:
        field = guide.parts[0].field.partition("[")[0]
        raise InvalidRequest(
            f"{field}: {total} bytes together are too much to match; {MAX_BYTES} is the most",
            param=field,
        )


def _compiled(tokenizer: LLTokenizer, guide: Guide) -> LLMatcher:
    """On a compiler's thread. Raises InvalidRequest."""
    client = guide.client
    if guide.gbnf:
        try:
            client = any_to_lark(client)
        except Exception as exc:
            field = guide.parts[0].field
            raise InvalidRequest(f"{field}: {exc}"[:_REASON], param=field) from exc
        client = client.removeprefix("%llguidance {}")
    matcher = _matcher(tokenizer, guide.lark, client)
    if not matcher.is_error():
        return matcher
    field, reason = guide.parts[0].field, matcher.get_error()
    for part in guide.parts if len(guide.parts) > 1 else ():
        alone = _matcher(tokenizer, part.lark, client)
        if alone.is_error():
            field, reason = part.field, alone.get_error()
            break
    raise InvalidRequest(f"{field}: {_reason(reason)}", param=field)


def _matcher(tokenizer: LLTokenizer, lark: str, client: str) -> LLMatcher:
    """In its first state; the mask of that is computed here, because it costs the most."""
    grammars = [_Named(name="main", lark_grammar=_NO_FORCING + lark)]
    if client:
        grammars.append(_Named(name="client", lark_grammar=client))
    source = _encode(_Grammars(grammars=grammars)).decode()
    limits = LLParserLimits(
        max_grammar_size=50_000,
        initial_lexer_fuel=1_000_000,
        max_lexer_states=50_000,
        verbose_errors=False,
    )
    matcher = LLMatcher(tokenizer, source, log_level=0, limits=limits)
    if not matcher.is_error():
        matcher.compute_bitmask()
    return matcher


def _reason(message: str) -> str:
    """The compiler's first line, and the last where that tells what the first only announces."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if not lines:
        return "it cannot be compiled"
    errors = [line for line in lines[1:] if line.startswith("error: ")]
    return " ".join([_WHERE.sub("", lines[0]), *errors[:1]])[:_REASON]


class _Named(Struct, frozen=True, kw_only=True):
    name: str
    lark_grammar: str


class _Grammars(Struct, frozen=True, kw_only=True):
    grammars: list[_Named]


_encode = msgspec.json.Encoder().encode

_Task = Callable[[], LLMatcher]


class _Compilers:
    """Threads with deep stacks, started when they are first needed; they die with the process."""

    def __init__(self) -> None:
        self._work: SimpleQueue[tuple[Future[LLMatcher], _Task]] = SimpleQueue()
        self._started = False

    def run(self, task: _Task) -> "Future[LLMatcher]":
        if not self._started:
            self._started = True
            usual = threading.stack_size(_STACK_BYTES)
            for number in range(_THREADS):
                name = f"grammars-{number}"
                threading.Thread(target=self._serve, name=name, daemon=True).start()
            threading.stack_size(usual)
        future: Future[LLMatcher] = Future()
        self._work.put((future, task))
        return future

    def _serve(self) -> None:
        while True:
            future, task = self._work.get()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(task())
            except BaseException as exc:  # noqa: BLE001  whatever it is, who waits is told
                future.set_exception(exc)


_compilers = _Compilers()
