"""A minimal gateway as a reference: a Litestar route and `httpx.AsyncClient`, nothing else."""

import os
from collections.abc import AsyncIterator

import httpx
import uvicorn
from litestar import Litestar, Request, post
from litestar.datastructures import State
from litestar.response import Response, Stream

WHOLE = os.environ["BENCH_WHOLE"] + "/chat/completions"
STREAM = os.environ["BENCH_STREAM"] + "/chat/completions"
_client = httpx.AsyncClient(limits=httpx.Limits(max_connections=256), timeout=60)
_JSON = {"content-type": "application/json"}


@post("/v1/chat/completions", status_code=200)
async def chat(request: Request[object, object, State]) -> Response[bytes] | Stream:
    body = await request.body()
    if b'"stream":true' in body.replace(b" ", b""):
        return Stream(_stream(body), media_type="text/event-stream")
    answer = await _client.post(WHOLE, content=body, headers=_JSON)
    return Response(answer.content, media_type="application/json")


async def _stream(body: bytes) -> AsyncIterator[bytes]:
    async with _client.stream("POST", STREAM, content=body, headers=_JSON) as answer:
        async for chunk in answer.aiter_raw():
            yield chunk


app = Litestar([chat], openapi_config=None)

if __name__ == "__main__":
    uvicorn.run(
        "benchmarks.gateway.bare:app",
        port=int(os.environ["BENCH_PORT"]),
        workers=int(os.environ["BENCH_WORKERS"]),
        log_level="error",
        access_log=False,
        http="httptools",
        loop="uvloop",
    )
