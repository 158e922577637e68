"""Backends and experiments that are planned for and never asked."""

from collections.abc import AsyncGenerator

from strowger_gateway.adapters.base import Supports
from strowger_gateway.gateway.backends.upstream.base import Call
from strowger_gateway.gateway.config.schema.failover import BreakerRule
from strowger_gateway.gateway.routing.planning.enrolment import ExperimentRouter
from strowger_gateway.gateway.routing.planning.route import Backend
from strowger_gateway.gateway.routing.resilience.circuit_breaker import Breaker
from strowger_gateway.gateway.routing.resilience.retry import RetryBudget
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.events import Event
from strowger_gateway.schemas.requests import ChatRequest, EmbeddingsRequest, GenerateRequest


class UnusedUpstream:
    """An upstream without answers."""

    name = "unused"
    supports = Supports()

    async def generate(
        self, request: GenerateRequest, call: Call
    ) -> AsyncGenerator[list[Event], None]:
        yield []

    async def embed(self, request: EmbeddingsRequest, call: Call) -> Embeddings:
        return Embeddings(vectors=())

    async def count_tokens(self, request: ChatRequest, call: Call) -> int:
        return 0

    async def aclose(self) -> None:
        return


class ArmBackends(ExperimentRouter):
    """An experiment with the backends of its arms, which is all that a plan needs of it."""

    def __init__(self, *names: str) -> None:  # pyright: ignore[reportMissingSuperCall]
        self.arm_backends = frozenset(names)


def backend_with(name: str, supports: Supports, model: str = "m") -> Backend:
    return Backend(
        name=name,
        model=model,
        upstream=UnusedUpstream(),
        supports=supports,
        breaker=Breaker(BreakerRule()),
        budget=RetryBudget(),
    )


def backend(name: str, *fields: str) -> Backend:
    """A backend for tokens and completions that supports these fields."""
    known = frozenset(fields)
    return backend_with(name, Supports(tokens=known, completion=known))
