"""The models of the generation that requests begin with now."""

import asyncio

from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.console.models.summary import ModelsAsked, ModelSummaries, summarize
from strowger_gateway.gateway.parts.process_side import ProcessSide
from strowger_gateway.gateway.platform.clock import now


class ModelsSide(ProcessSide[None, None]):
    """Keeps the generation that is in effect."""

    def __init__(self) -> None:
        self._runtime: Runtime | None = None

    def follow(self, generation: Runtime) -> None:
        self._runtime = generation

    async def read(self, asked: ModelsAsked) -> ModelSummaries:
        runtime = self._runtime
        assert runtime is not None  # a request is served by a generation
        return await asyncio.to_thread(summarize, runtime, asked, now())
