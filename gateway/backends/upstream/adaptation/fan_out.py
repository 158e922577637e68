"""Split a request into one call per prompt or choice, for backends without batches or `n`.

The calls run in parallel, a few at a time; their events form one answer, in which `index` is
prompt x n + choice. The first failure ends all calls, and so does a client disconnect.
"""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec
from msgspec import UNSET, Struct, UnsetType

from strowger_gateway.adapters.base import Supports
from strowger_gateway.adapters.capabilities import offered
from strowger_gateway.gateway.backends.upstream.base import Call, ChatPath, Upstream
from strowger_gateway.gateway.backends.upstream.sending import PartSending, add_up, is_unread
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.events import Event, Started, Usage
from strowger_gateway.schemas.fields import Task, task_of
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    GenerateRequest,
)

MAX_PARALLEL_CALLS = 8
"""Maximum number of parallel calls per request."""

WAITING = 64
"""Maximum number of batches buffered for a client that reads slowly."""

BATCH = "prompt.batch"
SEEDS = 1 << 31
"""Seeds of choices stay below this; every backend accepts them."""

GENERATING: tuple[Task, ...] = ("chat", "completion", "tokens")


class _Part(Struct, frozen=True, kw_only=True):
    """One call. first: index of its first choice. counts: include its prompt in the usage.

    share: of the prompts of the client's request.
    """

    request: GenerateRequest
    first: int
    counts: bool
    share: float = 1.0
    sending: PartSending = msgspec.field(default_factory=PartSending)


class FanOut:
    """An upstream that supports several prompts and several choices. See Upstream."""

    def __init__(self, inner: Upstream, *, choices: bool) -> None:
        """choices: also add `n` if the backend does not support it."""
        self.name = inner.name
        self._inner = inner
        self._own = inner.supports
        self.supports = extend_capabilities(self._own, choices=choices)

    def generate(self, request: GenerateRequest, call: Call) -> AsyncGenerator[list[Event], None]:
        """See Upstream.generate."""
        parts = self._parts(request)
        if len(parts) == 1:
            return self._inner.generate(parts[0].request, call)
        return self._merged(parts, msgspec.structs.replace(call, begun=now()))

    @property
    def chats(self) -> ChatPath:
        """See Adapting."""
        return ChatPath(self._inner, ("n",))

    async def embed(self, request: EmbeddingsRequest, call: Call) -> Embeddings:
        return await self._inner.embed(request, call)

    async def count_tokens(self, request: ChatRequest, call: Call) -> int:
        return await self._inner.count_tokens(request, call)

    async def aclose(self) -> None:
        await self._inner.aclose()

    def _parts(self, request: GenerateRequest) -> list[_Part]:
        fields = offered(self._own, task_of(request)) or frozenset()
        n = request.sampling.n or 1
        requests: list[tuple[GenerateRequest, float]] = [(request, 1.0)]
        if isinstance(request, CompletionRequest) and BATCH not in fields:
            whole = max(1, sum(map(len, request.prompts)))
            requests = [
                (
                    msgspec.structs.replace(request, prompts=(prompt,), batch=False),
                    len(prompt) / whole,
                )
                for prompt in request.prompts
            ]
        if n == 1 or "n" in fields or _beams(request):
            return [
                _Part(request=one, first=place * n, counts=True, share=share)
                for place, (one, share) in enumerate(requests)
            ]
        seeds = _seeds(request, n, known="seed" in fields)
        return [
            _Part(
                request=_single(one, seed),
                first=place * n + choice,
                counts=choice == 0,
                share=share,
            )
            for place, (one, share) in enumerate(requests)
            for choice, seed in enumerate(seeds)
        ]

    async def _merged(self, parts: list[_Part], call: Call) -> AsyncGenerator[list[Event], None]:
        """Yield the parts' events as they arrive; an error of a part is raised here."""
        arrived: asyncio.Queue[list[Event] | asyncio.Task[None]] = asyncio.Queue()
        room, turn = asyncio.Semaphore(WAITING), asyncio.Semaphore(MAX_PARALLEL_CALLS)
        merge = _Merge()

        async def run(part: _Part) -> None:
            own = msgspec.structs.replace(call, sending=part.sending)
            try:
                async with turn, aclosing(self._inner.generate(part.request, own)) as source:
                    async for batch in source:
                        if events := merge.take(part, batch):
                            await room.acquire()
                            arrived.put_nowait(events)
            except GatewayError as exc:
                part.sending.unread |= is_unread(exc)
                raise

        tasks = [asyncio.create_task(run(part)) for part in parts]
        for task in tasks:
            task.add_done_callback(arrived.put_nowait)
        failure: GatewayError | None = None
        try:
            left = len(tasks)
            while left:
                one = await arrived.get()
                if isinstance(one, asyncio.Task):
                    one.result()
                    left -= 1
                else:
                    room.release()
                    yield one
            if usage := merge.usage():
                yield [usage]
        except GatewayError as exc:
            failure = exc
            raise
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            add_up(call.sending, [(part.sending, part.share) for part in parts], failure)


class _Merge:
    """Merge the calls' events: one Started event, and summed usage."""

    def __init__(self) -> None:
        self._started = False
        self._usage: dict[int, tuple[Usage, bool]] = {}

    def take(self, part: _Part, batch: list[Event]) -> list[Event]:
        events: list[Event] = []
        for event in batch:
            match event:
                case Usage():
                    self._usage[part.first] = (event, part.counts)
                case Started():
                    if not self._started:
                        self._started = True
                        events.append(event)
                case _:
                    index = part.first + event.index
                    events.append(
                        msgspec.structs.replace(event, index=index) if part.first else event
                    )
        return events

    def usage(self) -> Usage | None:
        """Return `None` if no call counted. A prompt sent several times is counted once."""
        if not self._usage:
            return None
        everything = [usage for usage, _ in self._usage.values()]
        prompts = [usage for usage, counts in self._usage.values() if counts]
        prompt = _total([one.prompt_tokens for one in prompts])
        completion = _total([one.completion_tokens for one in everything])
        return Usage(
            prompt_tokens=prompt,
            completion_tokens=completion,
            total_tokens=_total([prompt, completion]),
            cached_tokens=_total([one.cached_tokens for one in prompts]),
            cache_write_tokens=_total([one.cache_write_tokens for one in prompts]),
            cache_write_1h_tokens=_total([one.cache_write_1h_tokens for one in prompts]),
            reasoning_tokens=_total([one.reasoning_tokens for one in everything]),
        )


def extend_capabilities(supports: Supports, *, choices: bool) -> Supports:
    """Return `supports` with several prompts per completion and, with `choices`, `n` everywhere."""
    more: dict[Task, frozenset[str]] = {}
    for task in GENERATING:
        fields = offered(supports, task)
        if fields is not None:
            more[task] = fields | ({"n"} if choices else frozenset())
    if "completion" in more:
        more["completion"] |= {BATCH}
    return msgspec.structs.replace(supports, **more)


def with_fan_out(inner: Upstream, *, choices: bool) -> Upstream:
    """Wrap `inner`, or return it unchanged if it lacks nothing."""
    if extend_capabilities(inner.supports, choices=choices) == inner.supports:
        return inner
    return FanOut(inner, choices=choices)


def _beams(request: GenerateRequest) -> bool:
    """Return whether to use beam search, where one call returns all answers: separate calls would
    each return the best one."""
    return (
        not isinstance(request.sampling.beam_width, UnsetType) and request.sampling.beam_width > 1
    )


def _single(request: GenerateRequest, seed: int | None) -> GenerateRequest:
    sampling = msgspec.structs.replace(
        request.sampling, n=UNSET, seed=UNSET if seed is None else seed
    )
    return msgspec.structs.replace(request, sampling=sampling)


def _seeds(request: GenerateRequest, n: int, *, known: bool) -> list[int | None]:
    """Return one seed per choice: the client's own for the first, derived ones for the rest.

    Without a seed, a random one is used, because some backends have a constant default.
    """
    if not known:
        return [None] * n
    seed = request.sampling.seed
    first = random.randrange(1, SEEDS) if seed is UNSET or seed is None else seed
    return [first, *(1 + (first + choice) % (SEEDS - 1) for choice in range(1, n))]


def _total(counts: list[int | None]) -> int | None:
    """Return the sum, or `None` if a call did not count: that is not 0."""
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None
