"""One embedding model in the engine loop: a batch of waiting inputs per step."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import torch
from torch import Tensor

from strowger_gateway.local_engine.embeddings.input_queue import Embedded, InputQueue, Inputs, Pick
from strowger_gateway.local_engine.protocol.stats import Stats
from strowger_gateway.local_engine.scheduling.request_metrics import Tally

NO_NUMBERS: Final = (
    "its vectors are not numbers: values overflow, or weights are broken; where engine.dtype is "
    "float16, set bfloat16 or float32"
)
"""The reason of a request that failed for its vectors."""


class Embeds(Protocol):
    """The encoder interface of a lane: [B][T of each] token ids, [B] skips -> [B, width]."""

    def embed(self, rows: Sequence[Sequence[int]], skips: Sequence[int]) -> Tensor: ...


class EmbeddingLane:
    """Only `stats` and `waiting` may be called from other threads than the engine's."""

    def __init__(
        self,
        encoder: Embeds,
        *,
        max_step_tokens: int,
        weights_bytes: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """max_step_tokens: per forward pass, padding included. weights_bytes: for `stats`."""
        self._encoder = encoder
        self._weights_bytes = weights_bytes
        self._loaded_since = time.time()
        self._clock = clock
        self._step_time = Tally()
        self._finished: Counter[str] = Counter()
        self._budget = max_step_tokens
        self._queue = InputQueue()
        self._found: dict[int, list[Tensor | None]] = {}
        self._left: dict[int, int] = {}
        self._steps = self._computed = 0

    @property
    def busy(self) -> bool:
        return bool(self._left)

    @property
    def waiting(self) -> int:
        """Number of waiting inputs."""
        return self._queue.count

    def add(self, inputs: Inputs) -> None:
        self._queue.add(inputs)
        self._found[inputs.id] = [None] * len(inputs.rows)
        self._left[inputs.id] = len(inputs.rows)

    def drop(self, id: int, outcome: str = "cancelled") -> None:
        """Free a request's inputs at once; ignore a request that has ended."""
        self._queue.drop(id)
        self._found.pop(id, None)
        if self._left.pop(id, None) is not None:
            self._finished[outcome] += 1

    def drop_all(self) -> list[int]:
        ids = list(self._left)
        for id in ids:
            self.drop(id)
        return ids

    def step(self, now: float) -> list[Embedded]:
        """End requests past their deadline, then run one batch."""
        ended: list[Embedded] = []
        for inputs in self._queue.late(now):
            self.drop(inputs.id, "expired")
            ended.append(Embedded(id=inputs.id, outcome="expired"))
        batch = self._queue.take(self._budget)
        if not batch:
            return ended
        began = self._clock()
        try:
            vectors = self._encoder.embed(
                [pick.row for pick in batch], [pick.inputs.skip for pick in batch]
            )
        except torch.OutOfMemoryError as exc:
            if len(batch) == 1:
                return ended + self._failed(batch, exc)
            self._queue.put_back(batch)
            self._budget = max(1, self._budget // 2)
            return ended
        except RuntimeError as exc:
            return ended + self._failed(batch, exc)
        self._step_time.add(self._clock() - began)
        self._steps += 1
        self._computed += sum(len(pick.row) for pick in batch)
        return ended + self._collect(batch, vectors)

    def stats(self) -> Stats:
        """Return the statistics: `waiting` counts inputs, `finished` requests; no cache."""
        return Stats(
            waiting=self._queue.count,
            running=sum(self._left.copy().values()) - self._queue.count,
            weights_bytes=self._weights_bytes,
            loaded_since=self._loaded_since,
            steps=self._steps,
            computed_tokens=self._computed,
            num_input_tokens=self._computed,
            finished=dict(self._finished),
            step_time=self._step_time.histogram(),
        )

    def _collect(self, batch: list[Pick], vectors: Tensor) -> list[Embedded]:
        done: list[Embedded] = []
        broken = set(map(int, (~vectors.isfinite().all(-1)).nonzero().flatten()))
        wrong = {batch[place].inputs.id for place in broken}
        for id in wrong:
            self.drop(id, "failed")
            done.append(Embedded(id=id, outcome="failed", reason=NO_NUMBERS))
        for pick, vector in zip(batch, vectors.unbind(), strict=True):
            id = pick.inputs.id
            if id in wrong:
                continue
            self._found[id][pick.place] = vector
            self._left[id] -= 1
            if self._left[id] == 0:
                found = [vector for vector in self._found[id] if vector is not None]
                done.append(Embedded(id=id, outcome="done", vectors=torch.stack(found)))
                self.drop(id, "done")
        return done

    def _failed(self, batch: list[Pick], exc: RuntimeError) -> list[Embedded]:
        """Fail the requests of a batch that the device cannot compute; others continue."""
        failed: list[Embedded] = []
        for id in dict.fromkeys(pick.inputs.id for pick in batch):
            self.drop(id, "failed")
            failed.append(Embedded(id=id, outcome="failed", reason=str(exc)))
        return failed
