"""Requests and answers for the tests of the MindIE adapter."""

from collections.abc import Mapping, Sequence

import msgspec

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.mindie.adapter import MindIEAdapter
from strowger_gateway.adapters.testing import translate
from strowger_gateway.schemas.events import Event
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    GenerateRequest,
    Request,
    TokenRequest,
)
from strowger_gateway.schemas.sampling import Sampling
from strowger_gateway.schemas.secret import Secret

Json = Mapping[str, object]

HELLO = Message(role="user", content="hello")
TOKENS = TokenRequest(model="m", tokens=(5, 6, 7), stream=True)
TEXT = CompletionRequest(model="m", prompts=("x",), stream=True)
CHAT = ChatRequest(model="m", messages=(HELLO,), stream=True)


def mindie(base_url: str = "https://npu.test:1025") -> MindIEAdapter:
    return MindIEAdapter(Endpoint(name="ascend", base_url=base_url, key=Secret("sk-mindie")))


def body(request: Request) -> dict[str, object]:
    return msgspec.json.decode(mindie().encode(request, "m1").body, type=dict[str, object])


def parameters(request: Request) -> dict[str, object]:
    return msgspec.convert(body(request)["parameters"], dict[str, object])


def sampled(request: GenerateRequest, **fields: object) -> GenerateRequest:
    sampling = msgspec.structs.replace(Sampling(), **fields)
    return msgspec.structs.replace(request, sampling=sampling)


def frame(
    ids: int | Sequence[int] = (), text: str | None = "", *, first: bool = False, **more: object
) -> Json:
    """Return a frame of a stream of tokens. more: further fields of the last one."""
    times = {"prefill_time": 45.5, "decode_time": None}
    later = {"prefill_time": None, "decode_time": 16.75}
    return {**(times if first else later), **more, "token": {"id": ids, "text": text}}


def details(word: str = "eos_token", count: int | None = 3, **more: object) -> Json:
    return {"finish_reason": word, "generated_tokens": count, "seed": 42, **more}


def stream(*frames: Json, done: bool = False) -> bytes:
    lines = [b"data: " + msgspec.json.encode(one) + b"\n\n" for one in frames]
    return b"".join([*lines, b"data: [DONE]\n\n"] if done else lines)


def events(raw: bytes, request: GenerateRequest = TOKENS) -> list[Event]:
    return translate(mindie(), request, [raw])


def streamed(*frames: Json, request: GenerateRequest = TOKENS) -> list[Event]:
    return events(stream(*frames), request)


def whole(answer: Json, request: GenerateRequest = TOKENS) -> list[Event]:
    return events(msgspec.json.encode(answer), msgspec.structs.replace(request, stream=False))
