"""A gateway with the models that public reports name, and a server that plays all their vendors."""

import json
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final, Literal, cast

import httpx
from msgspec import Struct

from tests.gateway.serving import serving
from tests.stand_ins.provider import Answer, Behaviour, Provider, Received, provider

Json = Mapping[str, object]
Surface = Literal["chat", "messages", "responses"]

SURFACES: Final[tuple[Surface, ...]] = ("chat", "messages", "responses")
PATHS: Final = {
    "chat": "/v1/chat/completions",
    "messages": "/v1/messages",
    "responses": "/v1/responses",
}

MODELS: Final[Mapping[str, tuple[str, str, str]]] = {
    "gpt": ("openai", "/v1", "gpt-4o"),
    "openrouter": ("openrouter", "/api/v1", "qwen/qwen3-max"),
    "vllm": ("vllm", "/v1", "up"),
    "llama-cpp": ("llama-cpp", "/v1", "up"),
    "deepseek": ("deepseek", "", "deepseek-v4-pro"),
    "siliconflow": ("siliconflow", "/v1", "deepseek-ai/DeepSeek-V3.2"),
    "cerebras": ("cerebras", "/v1", "gpt-oss-120b"),
    "groq": ("groq", "/v1", "openai/gpt-oss-120b"),
    "mistral": ("mistral", "/v1", "mistral-large-latest"),
    "gpt-responses": ("openai-responses", "/v1", "gpt-5.5"),
    "claude": ("anthropic", "", "claude-sonnet-4-5"),
    "claude-bedrock": ("bedrock", "", "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"),
    "gemini": ("gemini", "/v1beta", "gemini-3.5-flash"),
    "cohere": ("cohere", "", "command-a-03-2025"),
    "ollama": ("ollama", "", "qwen3"),
}
"""Names of models with the adapter, the path after the server's origin, and the vendor's model."""

PROVIDER: Final = """
  - name: {name}
    adapter: {adapter}
    base_url: "{url}"
    api_key: secret-of-the-operator-0123456789
    timeouts: {{connect_s: 20, first_token_s: 20, between_tokens_s: 20, total_s: 30}}"""
MODEL: Final = """
  - name: {name}
    retry: {{attempts: 1}}
    breaker: {{min_requests: 10000}}
    backends: [{{provider: {name}, model: "{model}"}}]"""

USAGE: Final = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


class Reply(Struct, frozen=True, kw_only=True):
    """An answer of the gateway. data: the objects of a stream's frames."""

    surface: Surface
    status: int
    body: str
    headers: Mapping[str, str]

    @property
    def json(self) -> dict[str, object]:
        return cast("dict[str, object]", json.loads(self.body))

    @property
    def data(self) -> list[dict[str, object]]:
        lines = [line[5:].strip() for line in self.body.splitlines() if line.startswith("data:")]
        return [json.loads(line) for line in lines if line.startswith("{")]

    @property
    def failed(self) -> bool:
        """Whether the client sees a failure: a status, or an error inside the stream."""
        if self.status >= 400:
            return True
        return any(
            one.get("type") in {"error", "response.failed"} or "error" in one for one in self.data
        )

    @property
    def text(self) -> str:
        """The text that a client puts together from a stream."""
        return "".join(_text_of(self.surface, one) for one in self.data)

    @property
    def finish(self) -> str:
        """The last reason for the end that a stream gives, in the words of the client's API."""
        found = [_finish_of(self.surface, one) for one in self.data]
        return [one for one in found if one][-1]

    @property
    def calls(self) -> list[tuple[str, object]]:
        """Names and arguments of the calls of a stream, in order."""
        return _calls_of(self.surface, self.data)


def _deltas(one: Json) -> Iterable[Json]:
    for choice in cast("list[Json]", one.get("choices") or []):
        yield cast("Json", choice.get("delta") or {})


def _text_of(surface: Surface, one: Json) -> str:
    if surface == "chat":
        return "".join(str(delta.get("content") or "") for delta in _deltas(one))
    if surface == "responses":
        return str(one["delta"]) if one.get("type") == "response.output_text.delta" else ""
    delta = cast("Json", one.get("delta") or {})
    return str(delta.get("text") or "") if one.get("type") == "content_block_delta" else ""


def _finish_of(surface: Surface, one: Json) -> str:
    if surface == "chat":
        choices = cast("list[Json]", one.get("choices") or [])
        return "".join(str(choice.get("finish_reason") or "") for choice in choices)
    if surface == "messages":
        delta = cast("Json", one.get("delta") or {})
        return str(delta.get("stop_reason") or "") if one.get("type") == "message_delta" else ""
    response = cast("Json", one.get("response") or {})
    return str(response.get("status") or "")


def _calls_of(surface: Surface, data: Sequence[Json]) -> list[tuple[str, object]]:
    if surface == "responses":
        items = [
            cast("Json", one["item"])
            for one in data
            if one.get("type") == "response.output_item.done"
        ]
        calls = [
            (str(one["name"]), str(one["arguments"]))
            for one in items
            if one["type"] == "function_call"
        ]
    elif surface == "messages":
        calls = _blocks(data)
    else:
        calls = _pieces(data)
    return [(name, json.loads(arguments)) for name, arguments in calls]


def _blocks(data: Sequence[Json]) -> list[tuple[str, str]]:
    found: dict[object, tuple[str, str]] = {}
    for one in data:
        block = cast("Json", one.get("content_block") or {})
        if block.get("type") == "tool_use":
            found[one["index"]] = (str(block["name"]), "")
        delta = cast("Json", one.get("delta") or {})
        if delta.get("type") == "input_json_delta":
            name, arguments = found[one["index"]]
            found[one["index"]] = (name, arguments + str(delta["partial_json"]))
    return [(name, arguments or "{}") for name, arguments in found.values()]


def _pieces(data: Sequence[Json]) -> list[tuple[str, str]]:
    found: dict[object, tuple[str, str]] = {}
    for one in data:
        for delta in _deltas(one):
            for piece in cast("list[Json]", delta.get("tool_calls") or []):
                name, arguments = found.get(piece["index"], ("", ""))
                function = cast("Json", piece.get("function") or {})
                name += str(function.get("name") or "")
                found[piece["index"]] = (name, arguments + str(function.get("arguments") or ""))
    return list(found.values())


class Desk(Struct, frozen=True, kw_only=True, eq=False):
    """The gateway in front of the vendors, and what the last of them received."""

    server: Provider
    web: httpx.AsyncClient

    def answers(self, body: object, status: int = 200) -> None:
        """Every vendor gives this whole answer from now on."""

        async def behave(_: Received, answer: Answer) -> None:
            await answer.json(body, status)

        self._plays(behave)

    def streams(self, events: Iterable[object], *, done: bool = True) -> None:
        """Every vendor sends these events from now on. done: `[DONE]` follows."""
        pieces = [b"data: " + json.dumps(one).encode() + b"\n\n" for one in events]

        async def behave(_: Received, answer: Answer) -> None:
            await answer.begin_stream()
            for one in [*pieces, b"data: [DONE]\n\n"] if done else pieces:
                await answer.chunk(one)
            await answer.raw(b"0\r\n\r\n")

        self._plays(behave)

    def answers_as_usual(self) -> None:
        """Every vendor answers with a short text."""
        self._plays(usual)

    def _plays(self, behaviour: Behaviour) -> None:
        self.server.behaviour = behaviour
        self.server.requests.clear()

    async def ask(self, surface: Surface, model: str, body: Json, *, stream: bool = False) -> Reply:
        """Post a request of the client's API; `max_tokens` is added where that is required."""
        required = {"max_tokens": 500} if surface == "messages" else {}
        sent = {"model": model, "stream": stream, **required, **body}
        return await self.post(surface, json.dumps(sent).encode())

    async def post(self, surface: Surface, body: bytes) -> Reply:
        """Post these bytes."""
        headers = {"content-type": "application/json", "anthropic-version": "2023-06-01"}
        answer = await self.web.post(PATHS[surface], content=body, headers=headers)
        return Reply(
            surface=surface, status=answer.status_code, body=answer.text, headers=answer.headers
        )

    @property
    def sent(self) -> dict[str, object]:
        """The body that a vendor got last."""
        return self.server.requests[-1].json

    @property
    def sent_text(self) -> str:
        """The same as text, with a blank after each colon and comma."""
        return json.dumps(self.sent)


def openai_answer(message: Json, finish: str = "stop", **more: object) -> Json:
    """A whole answer of OpenAI's dialect. message: its members besides the role."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "up"}
    return {**head, "choices": [choice], "usage": USAGE, **more}


def chunk(delta: object = None, finish: str | None = None, **more: object) -> Json:
    """A chunk of OpenAI's dialect with one choice."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "up"}
    return {**head, "choices": [choice], **more}


COUNTED: Final[Json] = {**chunk(), "choices": [], "usage": USAGE}
"""The chunk with the counts, without choices."""


def claude_answer(*blocks: Json, stop: str = "end_turn") -> Json:
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude"}
    usage = {"input_tokens": 3, "output_tokens": 2}
    return {**head, "content": blocks, "stop_reason": stop, "stop_sequence": None, "usage": usage}


def gemini_answer(*parts: Json, finish: str = "STOP") -> Json:
    content = {"role": "model", "parts": parts}
    usage = {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5}
    candidate = {"content": content, "finishReason": finish, "index": 0}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini"}


def bedrock_answer(*blocks: Json, stop: str = "end_turn") -> Json:
    message = {"role": "assistant", "content": blocks}
    usage = {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5}
    return {"output": {"message": message}, "stopReason": stop, "usage": usage}


def cohere_answer(text: str, finish: str = "COMPLETE") -> Json:
    message = {"role": "assistant", "content": [{"type": "text", "text": text}]}
    return {"id": "1", "finish_reason": finish, "message": message}


def response_answer(*items: Json, **more: object) -> Json:
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    head = {"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt"}
    return {**head, "status": "completed", "output": items, "usage": usage, **more}


async def usual(request: Received, answer: Answer) -> None:
    """Answer "ok" in the dialect of the path."""
    text: Json = {"type": "text", "text": "ok"}
    said: Json = {"role": "assistant", "content": [text]}
    item: Json = {"type": "message", "id": "msg_1", "status": "completed", **said}
    response = response_answer({**item, "content": [{"type": "output_text", "text": "ok"}]})
    by_path: dict[str, Json] = {
        "/v1/messages": claude_answer(text),
        ":generateContent": gemini_answer({"text": "ok"}),
        "/converse": bedrock_answer({"text": "ok"}),
        "/responses": response,
        "/api/chat": {"model": "m", "message": {**said, "content": "ok"}, "done": True},
        "/v2/chat": {"id": "1", "finish_reason": "COMPLETE", "message": said},
    }
    found = [body for path, body in by_path.items() if path in request.path]
    await answer.json(found[0] if found else openai_answer({"content": "ok"}))


@asynccontextmanager
async def desk(run_dir: Path) -> AsyncGenerator[Desk, None]:
    """Run the gateway and its vendors until the block ends."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(provider(usual))
        config = "providers:" + "".join(
            PROVIDER.format(name=name, adapter=adapter, url=server.origin + path)
            for name, (adapter, path, _) in MODELS.items()
        )
        config += "\nmodels:" + "".join(
            MODEL.format(name=name, model=model) for name, (_, _, model) in MODELS.items()
        )
        gateway = await stack.enter_async_context(serving(config, run_dir))
        web = await stack.enter_async_context(httpx.AsyncClient(base_url=gateway.url, timeout=60))
        yield Desk(server=server, web=web)
