"""One gateway in front of every vendor, and one server on loopback that plays any of them."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import cast

import httpx
import openai
from msgspec import Struct

from strowger_gateway.gateway.assembly.gateway import Gateway
from tests.gateway.backends.vendors.dialect import Json, ReceivedRequest, Said
from tests.gateway.backends.vendors.rows import VENDORS, Vendor
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Behaviour, Provider, Received, provider

KEY = "secret-of-the-operator-0123456789"
SPARE_SAYS = "I stand in."

OR_SPARE, BUSY, BUSY_OR_SPARE = "{}-or-spare", "{}-busy", "{}-busy-or-spare"
EMBEDS, OVERLOADED = "{}-embeds", "{}-overloaded"

PROVIDER = """
  - name: {name}
    adapter: {adapter}
    base_url: "{url}"
    api_key: {key}
    timeouts: {{connect_s: 20, first_token_s: 20, between_tokens_s: 20, total_s: 30}}
    {more}"""
MODEL = """
  - name: {name}
    policy: in_order
    defaults: {{max_tokens: 50}}
    retry: {{attempts: 2, backoff_s: 0.001, max_backoff_s: 0.005}}
    breaker: {{min_requests: 1000, max_retry_after_s: {longest}}}
    backends: [{backends}]"""


class Answered(Struct, frozen=True, kw_only=True):
    """What OpenAI's client made of an answer. message: as a client keeps it that knows no vendor.

    usages: the counts of prompt and answer, each time they were sent.
    """

    message: Json
    finish: str
    usages: Sequence[tuple[int, int]]

    @property
    def text(self) -> str:
        return str(self.message.get("content") or "")

    @property
    def calls(self) -> list[tuple[str, str, Json]]:
        """Ids, names and arguments."""
        found = cast("list[Json]", self.message.get("tool_calls") or [])
        functions = [(str(one["id"]), cast("Json", one["function"])) for one in found]
        return [(id, str(f["name"]), json.loads(str(f["arguments"]))) for id, f in functions]


class Setting(Struct, frozen=True, kw_only=True, eq=False):
    """spare: another backend, of OpenAI's dialect, that answers where the vendor does not."""

    server: Provider
    spare: Provider
    gateway: Serving
    client: openai.AsyncOpenAI
    web: httpx.AsyncClient

    def plays(self, behaviour: Behaviour) -> None:
        """Set the server's behaviour from now on, and clear its recorded requests."""
        self.server.behaviour = behaviour
        self.server.requests.clear()
        self.spare.requests.clear()

    def received(self, vendor: Vendor) -> ReceivedRequest:
        """The last request that the vendor got."""
        return vendor.dialect.received(self.server.requests[-1].json)

    async def ask(
        self, vendor: Vendor, body: Json | None = None, *, stream: bool, usage: bool = True
    ) -> Answered:
        """Post with OpenAI's client. body: fields besides the model's name; None: a greeting."""
        sent = {**greeting(vendor), **(body or {})}
        if stream and usage:
            sent["stream_options"] = {"include_usage": True}
        if vendor.task == "completion":
            return await self._complete(vendor.name, sent, stream=stream)
        chat = self.client.chat.completions
        if stream:
            chunks = await chat.create(model=vendor.name, messages=[], stream=True, extra_body=sent)
            return joined([chunk.model_dump(exclude_none=True) async for chunk in chunks])
        answer = await chat.create(model=vendor.name, messages=[], extra_body=sent)
        return whole(answer.model_dump(exclude_none=True))

    async def _complete(self, model: str, sent: Json, *, stream: bool) -> Answered:
        create = self.client.completions.create
        if stream:
            chunks = await create(model=model, prompt="", stream=True, extra_body=sent)
            return joined([chunk.model_dump(exclude_none=True) async for chunk in chunks])
        answer = await create(model=model, prompt="", extra_body=sent)
        return whole(answer.model_dump(exclude_none=True))

    async def post(
        self, vendor: Vendor, *, stream: bool, model: str = "{}", body: Json | None = None
    ) -> httpx.Response:
        """The answer as it is on the wire. model: the name of a model, with {} for the vendor's."""
        sent = {"model": model.format(vendor.name), "stream": stream, **greeting(vendor)}
        return await self.web.post(route(vendor), json={**sent, **(body or {})})

    async def leave(self, vendor: Vendor, *, stream: bool, after_content: bool) -> None:
        """Ask, and hang up once the vendor was asked or, if so wanted, content has come."""
        sent = {"model": vendor.name, "stream": stream, **greeting(vendor)}
        if after_content:
            async with self.web.stream("POST", route(vendor), json=sent) as answer:
                await anext(answer.aiter_bytes())
            return
        asking = asyncio.create_task(self.web.post(route(vendor), json=sent))
        await self.server.until(lambda: bool(self.server.requests))
        asking.cancel()
        await asyncio.wait([asking])


def greeting(vendor: Vendor) -> dict[str, object]:
    if vendor.task == "completion":
        return {"prompt": "hi", "max_tokens": 50}
    return {"messages": [{"role": "user", "content": "hi"}]}


def route(vendor: Vendor) -> str:
    return "/v1/completions" if vendor.task == "completion" else "/v1/chat/completions"


def whole(answer: Json) -> Answered:
    (choice,) = cast("list[Json]", answer["choices"])
    said = choice.get("message") or {"content": choice["text"]}
    return Answered(
        message=cast("Json", said),
        finish=str(choice["finish_reason"]),
        usages=[counts(answer["usage"])] if answer.get("usage") else [],
    )


def joined(chunks: Sequence[Json]) -> Answered:
    """The chunks of a stream put together, as a client does that knows no vendor."""
    message: dict[str, object] = {"role": "assistant", "content": ""}
    calls: dict[object, dict[str, object]] = {}
    details: list[object] = []
    finishes: list[str] = []
    for chunk in chunks:
        for choice in cast("list[Json]", chunk["choices"]):
            delta = cast("Json", choice.get("delta") or {"content": choice.get("text")})
            message["content"] = f"{message['content']}{delta.get('content') or ''}"
            details += cast("list[object]", delta.get("reasoning_details") or [])
            for name in {"reasoning_content", "reasoning"} & delta.keys():
                message[name] = f"{message.get(name, '')}{delta[name]}"
            for piece in cast("list[Json]", delta.get("tool_calls") or []):
                _add(calls, piece)
            finishes += [str(choice["finish_reason"])] if choice.get("finish_reason") else []
    if details:
        message["reasoning_details"] = details
    if calls:
        message["tool_calls"] = list(calls.values())
    (finish,) = finishes
    usages = [counts(chunk["usage"]) for chunk in chunks if chunk.get("usage")]
    return Answered(message=message, finish=finish, usages=usages)


def _add(calls: dict[object, dict[str, object]], piece: Json) -> None:
    """A piece of a call: the first has all its fields, a later one more of the arguments."""
    function = cast("Json", piece.get("function") or {})
    more = str(function.get("arguments") or "")
    known = calls.get(piece["index"])
    if known is None:
        kept = {name: value for name, value in piece.items() if name != "index"}
        calls[piece["index"]] = {**kept, "function": {**function, "arguments": more}}
    else:
        before = cast("dict[str, object]", known["function"])
        before["arguments"] = f"{before['arguments']}{more}"


def counts(usage: object) -> tuple[int, int]:
    found = cast("dict[str, int]", usage)
    return found["prompt_tokens"], found["completion_tokens"]


def is_streamed(request: Received) -> bool:
    """Return whether a request is for a stream, which vendors have in the body or in the URL."""
    if request.path.endswith(("-stream", "_stream", "?alt=sse")):
        return True
    return request.json.get("stream") is True


def answering(vendor: Vendor, said: Said) -> Behaviour:
    async def behave(request: Received, answer: Answer) -> None:
        if is_streamed(request):
            pieces = vendor.dialect.streamed(said)
            await begin(vendor, answer, [*pieces.before, *pieces.content, *pieces.end])
            await answer.raw(b"0\r\n\r\n")
        else:
            await answer.json(vendor.dialect.whole(said))

    return behave


async def begin(vendor: Vendor, answer: Answer, pieces: Sequence[bytes]) -> None:
    """The head of a stream and so many pieces of it, one a chunk."""
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {vendor.dialect.kind}\r\n"
    await answer.raw(f"{head}transfer-encoding: chunked\r\n\r\n".encode())
    for one in pieces:
        await answer.chunk(one)


async def stands_in(request: Received, answer: Answer) -> None:
    if request.path.endswith("/chat/completions"):
        if is_streamed(request):
            await answer.stream(SPARE_SAYS)
        else:
            await answer.chat(SPARE_SAYS)
        return
    choice = {"index": 0, "text": SPARE_SAYS, "finish_reason": "stop", "logprobs": None}
    reported = {"id": "c", "object": "text_completion", "created": 1, "choices": [choice]}
    if is_streamed(request):
        await answer.begin_stream()
        await answer.event(reported)
        await answer.end_stream(finish=None)
    else:
        await answer.json(reported)


def configured(server: Provider, spare: Provider, *, failing: bool) -> str:
    """For each vendor V the models V and, where its own differs, `V-embeds`.

    failing: and `V-or-spare`; `V-busy`, `V-busy-or-spare` and `V-overloaded` for what makes a
             backend rest, which no other model's backends feel. These rest at no refusal.
    """
    providers = PROVIDER.format(
        name="spare", adapter="openai", url=spare.base_url, key="k", more=""
    )
    models = ""
    for one in VENDORS:
        url = server.origin + one.path
        providers += PROVIDER.format(
            name=one.name, adapter=one.name, url=url, key=KEY, more=one.more
        )
        alone = f"{{provider: {one.name}, model: {one.model}}}"
        either = f"{alone}, {{provider: spare, model: s}}"
        served = {one.name: alone}
        if failing:
            served |= {OR_SPARE: either, BUSY: alone, OVERLOADED: alone, BUSY_OR_SPARE: either}
        elif one.embedder:
            served[EMBEDS] = f'{{provider: {one.name}, model: "{one.embedder}"}}'
        for name, backends in served.items():
            longest = 300 if name in (BUSY, OVERLOADED, BUSY_OR_SPARE) else 0
            public = name.format(one.name)
            models += MODEL.format(name=public, backends=backends, longest=longest)
    return f"providers:{providers}\nmodels:{models}\n"


@asynccontextmanager
async def every_vendor(
    run_dir: Path,
    *,
    failing: bool,
    more: str = "",
    equip: Callable[[Gateway], None] | None = None,
) -> AsyncGenerator[Setting, None]:
    """failing: with the models for what goes wrong. more: settings. equip: see `serving`."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(provider())
        spare = await stack.enter_async_context(provider(stands_in))
        config = configured(server, spare, failing=failing) + more
        gateway = await stack.enter_async_context(serving(config, run_dir, equip=equip))
        client = openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="x", max_retries=0)
        await stack.enter_async_context(client)
        web = await stack.enter_async_context(httpx.AsyncClient(base_url=gateway.url, timeout=60))
        yield Setting(server=server, spare=spare, gateway=gateway, client=client, web=web)
