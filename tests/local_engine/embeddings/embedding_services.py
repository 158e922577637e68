"""Engines with embedding models, for tests."""

from pathlib import Path
from typing import cast

import msgspec
from msgspec import UNSET, UnsetType

from strowger_gateway.local_engine.config import EngineConfig, ModelConfig
from strowger_gateway.local_engine.embeddings.input_queue import Embedded, Inputs
from strowger_gateway.local_engine.server.embedding_host import Embedder, host_embedders
from strowger_gateway.local_engine.server.embedding_service import EmbeddingResult
from strowger_gateway.local_engine.server.service import Service
from strowger_gateway.schemas.holdings import ANONYMOUS, Holder
from strowger_gateway.schemas.requests import EmbeddingsRequest, Prompt
from tests.local_engine.services import DEVICE, serving

MODEL = "mini"


def embedding_config(folder: Path | str, **changes: object) -> EngineConfig:
    """One embedding model on the CPU, in its checkpoint's dtype."""
    plain = EngineConfig(
        models=(ModelConfig(name=MODEL, path=str(folder), task="embed", token_inputs="accept"),),
        device=DEVICE,
    )
    return msgspec.structs.replace(plain, **changes)


def inputs(
    *prompts: Prompt,
    instruction: str | UnsetType = UNSET,
    dimensions: int | UnsetType = UNSET,
    timeout_s: float | UnsetType = UNSET,
) -> EmbeddingsRequest:
    return EmbeddingsRequest(
        model=MODEL,
        inputs=prompts,
        batch=True,
        instruction=instruction,
        dimensions=dimensions,
        timeout_s=timeout_s,
    )


def request(
    id: int, *lengths: int, deadline: float = float("inf"), holder: Holder = ANONYMOUS
) -> Inputs:
    """Return a request for a lane or queue; its inputs are `id`, repeated."""
    rows = tuple((id,) * length for length in lengths)
    return Inputs(lane="m", id=id, rows=rows, holder=holder, deadline=deadline)


async def embed(
    service: Service, request: EmbeddingsRequest, *, model: str = MODEL
) -> EmbeddingResult:
    return await service.embed(request, model=model)


async def vectors_of(folder: Path | str, request: EmbeddingsRequest) -> list[list[float]]:
    """Return the vectors of an engine that serves only this model."""
    async with serving(embedding_config(folder)) as service:
        return listed(await embed(service, request))


def listed(vectors: EmbeddingResult) -> list[list[float]]:
    return cast("list[list[float]]", vectors.values.tolist())  # pyright: ignore[reportUnknownMemberType]  # torch


def seated(folder: Path, **changes: object) -> Embedder:
    """A model and its lane, without a thread."""
    return host_embedders(embedding_config(folder, **changes), lambda _: None)[MODEL]


def run(embedder: Embedder, *requests: Inputs) -> list[Embedded]:
    """Step until all requests have ended; return them in the order of their ends."""
    for request in requests:
        embedder.lane.add(request)
    ended: list[Embedded] = []
    while embedder.lane.busy:
        ended += embedder.lane.step(0.0)
    return ended
