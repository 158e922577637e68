"""Asyncio interface of the embedding models: one request in, all of its vectors out at once."""

import asyncio
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Protocol

import torch
from msgspec import Struct
from torch import Tensor

from strowger_gateway.local_engine.child_process.fair_gate import Gate
from strowger_gateway.local_engine.child_process.text_encoder import INLINE
from strowger_gateway.local_engine.embeddings.input_queue import Embedded, Inputs
from strowger_gateway.local_engine.embeddings.request_reader import TextReader, TokenRows
from strowger_gateway.local_engine.requests.preparation import preparing, read
from strowger_gateway.local_engine.requests.request_limits import refuse_unfit
from strowger_gateway.local_engine.server.embedding_host import Embedder
from strowger_gateway.local_engine.server.queue_places import QueuePlaces
from strowger_gateway.schemas.errors import (
    DeadlineExceeded,
    InvalidRequest,
    UpstreamFailed,
    UpstreamLost,
)
from strowger_gateway.schemas.holdings import ANONYMOUS, Holder
from strowger_gateway.schemas.requests import EmbeddingsRequest

MAX_WAITING = 65_536
"""Queued inputs per model; further ones are rejected as busy."""


class EmbeddingResult(Struct, frozen=True, kw_only=True, eq=False):
    """values: [inputs, width] float32 on the CPU, in input order. tokens: of all inputs."""

    values: Tensor
    tokens: int


class EngineQueue(Protocol):
    """The engine's queue; call it from any thread."""

    def submit(self, job: Inputs) -> None: ...

    def cancel(self, id: int) -> None: ...


class EmbeddingService:
    """One event loop's requests to all embedding models of an engine."""

    def __init__(
        self, embedders: Mapping[str, Embedder], ids: Iterator[int], name: str, reading: Gate
    ) -> None:
        """ids: unique within the engine. name: of the engine, for error messages.

        reading: limits long requests that are read at a time.
        """
        self._reading = reading
        self._embedders = embedders
        self._engine: EngineQueue | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ids = ids
        self._name = name
        self._pending: dict[int, asyncio.Future[Embedded]] = {}
        self._places = {model: QueuePlaces(MAX_WAITING, "inputs", name) for model in embedders}

    async def embed(
        self, request: EmbeddingsRequest, *, model: str, holder: Holder = ANONYMOUS
    ) -> EmbeddingResult:
        """Embed a request's inputs. Cancelling the task frees them before the next batch.

        model: must be one of the embedders. holder: takes turns with other keys and teams.

        Raises InvalidRequest, Throttled, UpstreamBusy, DeadlineExceeded and UpstreamFailed.
        """
        embedder = self._embedders[model]
        arrival = time.monotonic()
        rows = await self._read(embedder.reader, request, holder)
        ended = await self._ended(model, rows, arrival, holder)
        match ended.outcome:
            case "expired":
                raise DeadlineExceeded(
                    f"the embeddings were not complete within {rows.timeout_s} s (timeout)",
                    param="timeout",
                )
            case "failed":
                raise UpstreamFailed(ended.reason, upstream=self._name)
            case "lost":
                raise UpstreamLost(ended.reason, upstream=self._name)
            case "done":
                assert ended.vectors is not None
                values = shortened(ended.vectors, rows.width, unit=embedder.shape.unit)
                return EmbeddingResult(values=values, tokens=rows.tokens)

    async def _read(
        self, reader: TextReader, request: EmbeddingsRequest, holder: Holder
    ) -> TokenRows:
        size = sum(len(prompt) for prompt in request.inputs)
        if size > INLINE:
            refuse_unfit(request, reader.reach)
        with preparing():
            return await read(
                partial(reader.read, request), size=size, gate=self._reading, holder=holder
            )

    def start(self, engine: EngineQueue) -> None:
        """Call it on the loop that will call `embed`, before the engine's thread runs."""
        self._engine = engine
        self._loop = asyncio.get_running_loop()

    def deliver(self, ended: list[Embedded]) -> None:
        """Called by the engine's thread."""
        if ended and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._resolve, ended)

    def _resolve(self, ended: list[Embedded]) -> None:
        for one in ended:
            future = self._pending.get(one.id)
            if future is not None and not future.done():
                future.set_result(one)

    async def _ended(self, model: str, rows: TokenRows, arrival: float, holder: Holder) -> Embedded:
        assert self._engine is not None, "the service was not started"
        count = len(rows.rows)
        if count > MAX_WAITING:
            raise InvalidRequest(
                f"input: {count} inputs are too many; send at most {MAX_WAITING}", param="input"
            )
        places = self._places[model]
        places.hold(holder, count)
        inputs = Inputs(
            lane=model,
            holder=holder,
            id=next(self._ids),
            rows=rows.rows,
            skip=rows.skip,
            deadline=float("inf") if rows.timeout_s is None else arrival + rows.timeout_s,
        )
        future = self._pending[inputs.id] = asyncio.get_running_loop().create_future()
        self._engine.submit(inputs)
        try:
            return await future
        finally:
            del self._pending[inputs.id]
            places.give_back(holder, count)
            if not future.done() or future.cancelled():
                self._engine.cancel(inputs.id)


def shortened(vectors: Tensor, width: int, *, unit: bool) -> Tensor:
    """Return the first `width` numbers of each vector, renormalised if `unit`.

    vectors: [N, W] float32, W >= width. Returns [N, width] float32.
    """
    if width == vectors.shape[1]:
        return vectors
    vectors = vectors[:, :width]
    return torch.nn.functional.normalize(vectors, dim=-1) if unit else vectors.contiguous()


def little_endian(values: Tensor) -> bytes:
    """[N, W] float32 on the CPU -> the bytes that travel, vector after vector."""
    return values.numpy().astype("<f4", copy=False).tobytes()
