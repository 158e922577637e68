"""What routing calls: a backend that generates or embeds, remote or local alike."""

from collections.abc import AsyncGenerator
from typing import Protocol

from msgspec import Struct

from adapters.base import Supports
from schemas.answers import Embeddings
from schemas.events import Event
from schemas.requests import EmbeddingsRequest, GenerateRequest


class Call(Struct, frozen=True, kw_only=True, gc=False):
    """What an attempt needs to know beside the request.

    model:      the provider's own name for the model.
    deadline:   loop time at which the whole request is over, whatever the attempt does.
    request_id: the gateway's id, for logs and for the engine.
    tenant:     the key's name, "" without keys; salts the local prefix cache.
    begun:      loop time at which the attempt began, where it needs several calls; else `None`.
    large:      the request's body is; it is encoded in a thread, and the event loop goes on.
    """

    model: str
    deadline: float
    request_id: str
    tenant: str = ""
    begun: float | None = None
    large: bool = False


class Upstream(Protocol):
    """One provider, reached by whatever means. Safe for concurrent use."""

    name: str

    @property
    def supports(self) -> Supports:
        """The request fields that it honours."""
        ...

    def generate(self, request: GenerateRequest, call: Call) -> AsyncGenerator[list[Event], None]:
        """Batches of events, one a read. Closing the generator early closes the connection.

        Raises UpstreamError or UpstreamRejected, before or between batches; an answer whose
        end mark is missing raises UpstreamBroken instead of ending.
        """
        ...

    async def embed(self, request: EmbeddingsRequest, call: Call) -> Embeddings: ...

    async def aclose(self) -> None: ...
