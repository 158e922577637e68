"""One provider with several keys: a call that one key cannot make is made with another at once.

Nothing was answered then, so the client waits for one more exchange at most per key, and neither
`retry.attempts` nor the backend's circuit is concerned. Only what all keys meet is the backend's.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Final, TypeVar

from strowger_gateway.adapters.base import Supports
from strowger_gateway.gateway.backends.upstream.base import Call, WholeChat
from strowger_gateway.gateway.backends.upstream.http import HttpUpstream
from strowger_gateway.gateway.backends.upstream.key_pool.conversation import conversation_of
from strowger_gateway.gateway.backends.upstream.key_pool.pool import KeyPool
from strowger_gateway.gateway.backends.upstream.key_pool.pooled_key import PooledKey
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.errors import GatewayError, UpstreamBusy, UpstreamRefused
from strowger_gateway.schemas.events import Event, EventSource
from strowger_gateway.schemas.plain_answer import PlainAnswer
from strowger_gateway.schemas.requests import (
    ChatRequest,
    EmbeddingsRequest,
    GenerateRequest,
    Request,
)
from strowger_gateway.schemas.tasks.task import TaskAnswer, TaskRequest

_T = TypeVar("_T")

MOST_UNFIT: Final = 2
"""Keys that are asked for a model that the vendor refuses to each: a client may have named it."""


class _Turn:
    """The keys of one call: those that were tried, and what the vendor said to them."""

    __slots__ = ("_busy", "_call", "_conversation", "_failure", "_pool", "_refused", "tried")

    def __init__(self, pool: KeyPool, request: Request, call: Call) -> None:
        self._pool, self._call = pool, call
        self._conversation = conversation_of(request, call)
        self.tried: list[PooledKey] = []
        self._failure: GatewayError | None = None
        self._busy = self._refused = 0

    def next(self) -> PooledKey:
        """Begin a call with the next key. Raises the failure if there is none left."""
        key = self._pool.choose(self._conversation, self._call.model, self.tried)
        if key is None:
            raise self._worst()
        self.tried.append(key)
        self._call.sending.provider_key = key.name
        key.begin(now())
        return key

    def fail(self, key: PooledKey, error: GatewayError) -> bool:
        """Note why a call with this key failed; return whether another key may make it."""
        if isinstance(error, UpstreamBusy):
            self._pool.limit(key, error.retry_after)
            self._failure = error
            self._busy += 1
            return True
        if not isinstance(error, UpstreamRefused) or error.about in ("request", "address"):
            return False
        if error.about == "account":
            self._pool.refuse(key, error.retry_after)
        else:
            key.unfit(self._call.model, now())
            self._refused += 1
        if not isinstance(self._failure, UpstreamBusy):
            self._failure = error
        return self._refused < MOST_UNFIT

    def _worst(self) -> GatewayError:
        """The failure of all keys: a rate limit if there was one, until the first of them ends."""
        assert self._failure is not None
        error = self._failure
        if isinstance(error, UpstreamBusy) and error.retry_after is not None:
            error.retry_after = self._pool.all_rest(now()).retry_after
        return error


class PooledUpstream:
    """See Upstream. upstreams: by key, alike but for it; they share one transport."""

    def __init__(self, pool: KeyPool, upstreams: Sequence[HttpUpstream]) -> None:
        self.name = pool.name
        self.pool = pool
        self._by_key = dict(zip(pool.keys, upstreams, strict=True))
        self._any = upstreams[0]

    @property
    def supports(self) -> Supports:
        return self._any.supports

    @property
    def whole_chat(self) -> WholeChat | None:
        """See PlainChats."""
        return None if self._any.whole_chat is None else self._whole_chat

    async def generate(self, request: GenerateRequest, call: Call) -> EventSource:
        """See Upstream.generate. Another key is used until the first batch."""
        turn = _Turn(self.pool, request, call)
        while True:
            key = turn.next()
            outcome, begun = "cancelled", False
            try:
                async with aclosing(self._by_key[key].generate(request, call)) as source:
                    batch: list[Event] | None = await anext(source, None)
                    begun = True
                    self.pool.succeed(key, call.model)
                    while batch is not None:
                        sink = yield batch
                        try:
                            batch = await source.asend(sink)
                        except StopAsyncIteration:
                            batch = None
                outcome = "ok"
            except GatewayError as exc:
                outcome = exc.code
                if not turn.fail(key, exc) or begun:
                    raise
            else:
                return
            finally:
                key.end(outcome)

    async def embed(self, request: EmbeddingsRequest, call: Call) -> Embeddings:
        return await self._with_a_key(request, call, lambda one: one.embed(request, call))

    async def perform(self, request: TaskRequest, call: Call) -> TaskAnswer:
        """See TaskUpstream."""
        return await self._with_a_key(request, call, lambda one: one.perform(request, call))

    async def count_tokens(self, request: ChatRequest, call: Call) -> int:
        return await self._with_a_key(request, call, lambda one: one.count_tokens(request, call))

    async def aclose(self) -> None:
        await self._any.aclose()

    async def _whole_chat(self, request: ChatRequest, call: Call) -> PlainAnswer | Sequence[Event]:
        async def ask(one: HttpUpstream) -> PlainAnswer | Sequence[Event]:
            assert one.whole_chat is not None
            return await one.whole_chat(request, call)

        return await self._with_a_key(request, call, ask)

    async def _with_a_key(
        self, request: Request, call: Call, ask: Callable[[HttpUpstream], Awaitable[_T]]
    ) -> _T:
        turn = _Turn(self.pool, request, call)
        while True:
            key = turn.next()
            outcome = "cancelled"
            try:
                answer = await ask(self._by_key[key])
            except GatewayError as exc:
                outcome = exc.code
                if not turn.fail(key, exc):
                    raise
            else:
                outcome = "ok"
                self.pool.succeed(key, call.model)
                return answer
            finally:
                key.end(outcome)
