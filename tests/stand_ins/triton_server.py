"""A fake Triton server on loopback, with tensorrtllm_backend's models and their faults.

    async with triton_server() as server:
        ...  # talk to server.base_url; look at server.requests and server.inferences
        server.trouble = Trouble(error_after=2)

Models: `ensemble` (text), `tensorrt_llm_bls` (text; each event has all text so far),
`tensorrt_llm` (tokens; not decoupled: infer, no streams), `tensorrt_llm_streaming` (tokens;
decoupled: generate and generate_stream, no infer) and `llmapi` (text, by the LLM API). Answers come
from `tests.stand_ins.triton_models`: the `continuation` of the prompt's ids, and its `text_of`.
"""

import asyncio
import random
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import cast

import msgspec
from msgspec import Struct

from tests.stand_ins.provider import Answer, Provider, Received
from tests.stand_ins.triton_models import MODELS, Model, Slot, Values
from tests.stand_ins.triton_runs import run
from tests.stand_ins.triton_wire import (
    HEADER_LENGTH,
    Inference,
    Json,
    Refused,
    read_generate,
    read_infer,
    write_generate,
    write_infer,
)

MODEL_PATH = re.compile(r"/v2/models/([^/]+)(?:/versions/(\d+))?(?:/(\w+))?")
SPLIT = 8
"""Bytes of the longest piece of a body that is sent in random pieces."""


class Trouble(Struct, frozen=True, kw_only=True):
    """The fault of the next inferences; by default there is none.

    status, message: refuse with this status and {"error": message}.
    error_after:     events of a stream, after which {"error": message} comes inside the 200.
    cut_after:       bytes of a body, after which the connection is closed.
    pieces:          the seed of random places at which bodies are cut into pieces.
    gap_s:           seconds between the events of a stream.
    """

    status: int = 0
    message: str = "in ensemble, failed to run: out of memory"
    retry_after: int | None = None
    error_after: int | None = None
    cut_after: int | None = None
    pieces: int | None = None
    gap_s: float = 0.0


NONE = Trouble()


class TritonServer:
    """The server as seen by a test. inferences: the decoded requests, as tensors.

    logits: the datatype of logits, FP32 or FP16. ready: what the health routes say.
    """

    def __init__(self) -> None:
        self.provider = Provider(self._answer)
        self.inferences: list[Inference] = []
        self.trouble = NONE
        self.logits = "FP32"
        self.ready = True

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.provider.port}"

    @property
    def requests(self) -> list[Received]:
        return self.provider.requests

    async def _answer(self, request: Received, answer: Answer) -> None:
        try:
            await self._route(request, answer)
        except Refused as exc:
            await answer.json({"error": str(exc)}, exc.status)

    async def _route(self, request: Received, answer: Answer) -> None:
        if request.path in ("/v2/health/live", "/v2/health/ready"):
            live = self.ready or request.path.endswith("live")
            await answer.body(b"", "text/plain", 200 if live else 400)
            return
        if request.path == "/v2":
            extensions = ["generate", "binary_tensor_data"]
            await answer.json({"name": "triton", "version": "2.59.0", "extensions": extensions})
            return
        found = MODEL_PATH.fullmatch(request.path)
        if found is None:
            raise Refused("Not Found", 404)
        name, version, door = found.groups()
        model = MODELS.get(name)
        if model is None or version not in (None, "1"):
            raise Refused(f"Request for unknown model: '{name}' is not found", 404)
        if request.method == "GET":
            await self._describe(model, door or "", answer)
        elif door in ("generate", "generate_stream", "infer"):
            await self._infer(model, door, request, answer)
        else:
            raise Refused("Method Not Allowed", 405)

    async def _describe(self, model: Model, door: str, answer: Answer) -> None:
        match door:
            case "ready":
                await answer.body(b"", "text/plain", 200 if self.ready else 400)
            case "config":
                policy = {"decoupled": model.decoupled}
                await answer.json({"name": model.name, "model_transaction_policy": policy})
            case "":
                await answer.json(
                    {
                        "name": model.name,
                        "versions": ["1"],
                        "platform": "tensorrtllm",
                        "inputs": [_slot(name, slot) for name, slot in model.inputs.items()],
                        "outputs": [_slot(name, slot) for name, slot in model.outputs.items()],
                    }
                )
            case _:
                raise Refused("Not Found", 404)

    async def _infer(self, model: Model, door: str, request: Received, answer: Answer) -> None:
        trouble = self.trouble
        if trouble.status:
            wait = trouble.retry_after
            headers = {} if wait is None else {"retry-after": str(wait)}
            await answer.json({"error": trouble.message}, trouble.status, headers)
            return
        if door == "infer":
            asked = read_infer(model, request.body, request.headers.get(HEADER_LENGTH))
        else:
            asked = read_generate(model, door, request.body)
        self.inferences.append(asked)
        try:
            responses = [self._with_logits(one) for one in run(model, asked.tensors)]
        except ValueError as exc:
            raise Refused(str(exc), 500) from exc
        if door == "infer":
            await self._whole(model, asked, responses, answer)
        elif door == "generate":
            await self._generated(model, responses, answer)
        else:
            await self._streamed(model, responses, answer)

    async def _whole(
        self, model: Model, asked: Inference, responses: list[dict[str, Values]], answer: Answer
    ) -> None:
        if len(responses) != 1:
            raise Refused("expected a single response", 500)
        body, header = write_infer(model, asked, responses[0])
        kind = "application/json" if header is None else "application/octet-stream"
        named = {} if header is None else {HEADER_LENGTH: str(header)}
        if self.trouble.cut_after is not None:
            lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
            head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n"
            await answer.raw(f"{head}{lines}\r\n".encode() + body[: self.trouble.cut_after])
            answer.close()
            return
        await answer.body(body, kind, headers=named)

    async def _generated(
        self, model: Model, responses: list[dict[str, Values]], answer: Answer
    ) -> None:
        """Send the answer; the status is sent before the responses are counted."""
        body = b'{"error":"generate expects model to produce exactly 1 response"}'
        if len(responses) == 1:
            body = write_generate(model, responses[0])
        await self._chunks("application/json", [body], answer)

    async def _streamed(
        self, model: Model, responses: list[dict[str, Values]], answer: Answer
    ) -> None:
        trouble = self.trouble
        events = [write_generate(model, one) for one in responses]
        if trouble.error_after is not None:
            failure = msgspec.json.encode({"error": trouble.message})
            events = [*events[: trouble.error_after], failure]
        frames = [b"data: " + event + b"\n\n" for event in events]
        await self._chunks("text/event-stream; charset=utf-8", frames, answer)

    async def _chunks(self, kind: str, frames: list[bytes], answer: Answer) -> None:
        """Send chunks; there is no end mark, the chunked body ends."""
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n"
        await answer.raw(head.encode())
        left = self.trouble.cut_after
        for place, frame in enumerate(frames):
            await asyncio.sleep(self.trouble.gap_s if place else 0.0)
            part = frame if left is None else frame[:left]
            for piece in self._pieces(part):
                await answer.chunk(piece)
            if left is not None:
                left -= len(part)
                if left <= 0:
                    answer.close()
                    return
        await answer.raw(b"0\r\n\r\n")

    def _pieces(self, body: bytes) -> list[bytes]:
        if self.trouble.pieces is None or len(body) < 2:
            return [body] if body else []
        places = random.Random(self.trouble.pieces)
        cuts = [0]
        while cuts[-1] < len(body):
            cuts.append(min(len(body), cuts[-1] + places.randint(1, SPLIT)))
        return [body[start:end] for start, end in pairwise(cuts)]

    def _with_logits(self, response: dict[str, Values]) -> dict[str, Values]:
        return {
            name: msgspec.structs.replace(values, datatype=self.logits)
            if name.endswith("_logits")
            else values
            for name, values in response.items()
        }


@asynccontextmanager
async def triton_server(trouble: Trouble = NONE) -> AsyncGenerator[TritonServer, None]:
    """Run a server with this fault until the block ends."""
    server = TritonServer()
    server.trouble = trouble
    await server.provider.start()
    try:
        yield server
    finally:
        await server.provider.stop()


def _slot(name: str, slot: Slot) -> Json:
    return cast("Json", {"name": name, "datatype": slot.datatype, "shape": list(slot.dims)})
