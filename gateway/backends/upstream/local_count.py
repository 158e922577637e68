"""Count the tokens of a prompt with an engine that reads it.

The engine's own template and tokenizer count, so the count is exact for tools and images as well.
It generates one token, and keeps the prompt in its cache for the request that usually follows.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol

from msgspec.structs import replace

from strowger_gateway.gateway.backends.upstream.base import Call
from strowger_gateway.schemas.errors import UpstreamBroken
from strowger_gateway.schemas.events import Event, Usage
from strowger_gateway.schemas.requests import ChatRequest, GenerateRequest


class Reader(Protocol):
    """An engine. See Upstream."""

    name: str

    def generate(
        self, request: GenerateRequest, call: Call
    ) -> AsyncGenerator[list[Event], None]: ...


class CountsByReading:
    """Adds `Upstream.count_tokens` to an engine."""

    async def count_tokens(self: Reader, request: ChatRequest, call: Call) -> int:
        """See Upstream."""
        asked = replace(request, sampling=replace(request.sampling, max_tokens=1), stream=False)
        async with aclosing(self.generate(asked, call)) as batches:
            counts = [one async for batch in batches for one in batch if isinstance(one, Usage)]
        if not counts or counts[-1].prompt_tokens is None:
            raise UpstreamBroken("did not count the prompt", upstream=self.name)
        return counts[-1].prompt_tokens
