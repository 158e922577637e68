"""What an answer passes between its backend and its client: whole, streamed, or as vectors.

A filter wraps what collects the answer, so it may change it, keep it, refuse it, or answer itself
without asking a backend. `AnswerFilter` passes everything; a filter overrides what it is about.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from strowger_gateway.gateway.routing.planning.plan import Plan
from strowger_gateway.schemas.answers import Answer, Embeddings
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.events import EventSource
from strowger_gateway.schemas.plain_answer import PlainAnswer
from strowger_gateway.schemas.tasks.task import TaskAnswer

T = TypeVar("T")

Collect = Callable[[], Awaitable[T]]
"""Asks the backends, or the filters nearer to them, and returns the complete answer."""


class AnswerFilter:
    """Of one request.

    plainly: plain answers pass as they are, so a chat may be answered without events.
    examines: it holds what a model writes to guardrails, so it also passes what no client sees.
    """

    __slots__ = ()

    plainly = True
    examines = False

    async def chat(
        self, plan: Plan, collect: Collect[Answer | PlainAnswer]
    ) -> Answer | PlainAnswer:
        """Return a whole answer to a chat, if all filters of the request are `plainly`."""
        return await collect()

    async def answer(self, plan: Plan, collect: Collect[Answer]) -> Answer:
        """Return the complete answer as the client may receive it. Raises ContentBlocked."""
        return await collect()

    async def vectors(self, plan: Plan, collect: Collect[Embeddings]) -> Embeddings:
        """The same for embeddings."""
        return await collect()

    async def task(self, plan: Plan, collect: Collect[TaskAnswer]) -> TaskAnswer:
        """The same for tasks of `schemas/tasks`."""
        return await collect()

    def events(self, source: EventSource, plan: Plan) -> EventSource:
        """Return the events as the client may receive them. Closing it closes the source.

        source: has not begun, because a filter may answer without it.
        """
        return source

    async def error(self, error: GatewayError) -> None:
        """Change what an error quotes of a backend's answer, which the client would read."""
