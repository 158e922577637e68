"""Interface that routing calls: a backend that generates or embeds, remote or local."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

from strowger_gateway.adapters.base import Supports
from strowger_gateway.gateway.backends.upstream.drawn_tokens import DrawnTokens
from strowger_gateway.gateway.backends.upstream.sending import UNWATCHED, Sending
from strowger_gateway.gateway.platform.room import Room
from strowger_gateway.gateway.platform.trace_context import AttemptTrace
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.events import Event
from strowger_gateway.schemas.holdings import ANONYMOUS, LEVEL, Holder
from strowger_gateway.schemas.plain_answer import PlainAnswer
from strowger_gateway.schemas.requests import ChatRequest, EmbeddingsRequest, GenerateRequest
from strowger_gateway.schemas.tasks.task import TaskAnswer, TaskRequest


class Call(Struct, frozen=True, kw_only=True, gc=False):
    """What an attempt needs besides the request.

    model:      the provider's own name for the model.
    deadline:   loop time at which the whole request ends, whatever the attempt does.
    request_id: the gateway's id, for logs and for the engine.
    tenant:     the key's name, "" without keys; salts the local prefix cache.
    holder:     the key and its team, as what is scarce is shared out between them.
    level:      1 (most urgent) to 5, for queues; AT_ONCE does not wait for a connection.
    begun:      loop time at which the attempt began, if it needs several calls; else `None`.
    large:      the request has a large body: encode it in a thread, not on the event loop.
    longest_prompt: a prompt of more tokens certainly exceeds the model; `None` if unknown. For
                upstreams that count the tokens exactly.
    trace:      the attempt's span, if requests are traced.
    drawn:      collects the tokens of a local engine; `None` if no attempt resumes the answer.
    reasons:    the model reasons, so that it may be silent for longer.
    sending:    is marked when the request is sent.
    room:       for a large answer; `None`: unlimited.
    pool:       header lines for the backend's endpoint picker, each with CRLF; b"" without one.
    """

    model: str
    deadline: float
    request_id: str
    tenant: str = ""
    holder: Holder = ANONYMOUS
    level: int = LEVEL
    begun: float | None = None
    large: bool = False
    longest_prompt: int | None = None
    trace: AttemptTrace | None = None
    drawn: DrawnTokens | None = None
    reasons: bool = False
    pool: bytes = b""
    sending: Sending = UNWATCHED
    room: Room | None = None


WholeChat = Callable[[ChatRequest, Call], Awaitable[PlainAnswer | Sequence[Event]]]
"""Asks for a chat that is not streamed: a plain answer as such, any other as all of its events.

Raises as `Upstream.generate`.
"""


class Upstream(Protocol):
    """One provider, remote or local. Safe for concurrent use."""

    name: str

    @property
    def supports(self) -> Supports:
        """Return the request fields that the backend honours."""
        ...

    def generate(self, request: GenerateRequest, call: Call) -> AsyncGenerator[list[Event], None]:
        """Yield a batch of events per read. Closing the generator early closes the connection.

        An implementation may be an EventSource. Those that are not, and generators that change the
        events of others, need to know nothing of sinks.

        Raises UpstreamError or UpstreamRejected, before or between batches; an answer without
        its end mark raises UpstreamBroken instead of ending.
        """
        ...

    async def embed(self, request: EmbeddingsRequest, call: Call) -> Embeddings: ...

    async def count_tokens(self, request: ChatRequest, call: Call) -> int:
        """Return the exact number of tokens of the prompt that the backend would read.

        Raises Uncountable if neither the vendor nor a tokenizer counts.
        """
        ...

    async def aclose(self) -> None: ...


class ChatPath(Struct, frozen=True):
    """The upstream for chats that no adaptation has to change: those with none of `fields`.

    fields: of a request's sampling.
    """

    upstream: Upstream
    fields: tuple[str, ...] = ()


@runtime_checkable
class Adapting(Protocol):
    """An upstream that changes some requests of another, or their answers."""

    @property
    def chats(self) -> ChatPath:
        """The other upstream, which answers all further chats by itself."""
        ...


def chat_path_of(upstream: Upstream) -> ChatPath | None:
    """Return the path of most chats, past all adaptations; `None` if there are none to pass."""
    inner, fields = upstream, dict[str, None]()
    while isinstance(inner, Adapting):
        path = inner.chats
        inner, fields = path.upstream, fields | dict.fromkeys(path.fields)
    return None if inner is upstream else ChatPath(inner, tuple(fields))


@runtime_checkable
class TaskUpstream(Protocol):
    """An upstream whose backend may offer tasks of `schemas/tasks`."""

    async def perform(self, request: TaskRequest, call: Call) -> TaskAnswer:
        """Return the whole answer. Raises as `Upstream.generate`."""
        ...


@runtime_checkable
class Wrapping(Protocol):
    """An upstream that changes requests or answers of another, and none of tasks."""

    @property
    def wrapped(self) -> Upstream: ...


def task_upstream_of(upstream: Upstream) -> TaskUpstream | None:
    """Return what performs tasks, past all adaptations, which concern none; `None` if nothing."""
    while not isinstance(upstream, TaskUpstream):
        if isinstance(upstream, Wrapping):
            upstream = upstream.wrapped
        elif isinstance(upstream, Adapting):
            upstream = upstream.chats.upstream
        else:
            return None
    return upstream


@runtime_checkable
class PlainChats(Protocol):
    """An upstream that has plain answers to chats without events.

    One that changes requests or events of others has none, unless it knows when it changes none.
    """

    @property
    def whole_chat(self) -> WholeChat | None:
        """`None`: its backend's answers are never plain."""
        ...


def whole_chat_of(upstream: Upstream) -> WholeChat | None:
    """Return what asks for whole chats; `None` if only `generate` does."""
    return upstream.whole_chat if isinstance(upstream, PlainChats) else None
