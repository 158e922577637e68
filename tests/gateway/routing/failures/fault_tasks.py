"""Tasks of a client on every surface, and how to distinguish an answer from a failure."""

import json
from collections.abc import Mapping, Sequence
from typing import Literal, cast

import httpx
from msgspec import Struct

from strowger_gateway.gateway.surfaces.anthropic.errors import STATUSES
from tests.gateway.routing.failures.fault_scenarios import Sees

Json = Mapping[str, object]
Surface = Literal["openai", "anthropic", "responses", "databricks", "ollama", "mindie", "kserve"]

CHAT: Json = {"messages": [{"role": "user", "content": "hi"}]}
MESSAGES: Json = {**CHAT, "max_tokens": 20}
RESPONSES: Json = {"input": "hi"}
TOKENS: Json = {"input_id": [5, 6, 7], "parameters": {"details": True}}
TENSORS: Json = {
    "inputs": [
        {"name": "input_ids", "shape": [1, 3], "datatype": "INT32", "data": [5, 6, 7]},
        {"name": "request_output_len", "shape": [1, 1], "datatype": "INT32", "data": [2]},
    ]
}
FLAT: Json = {"input_ids": [5, 6, 7], "max_tokens": 2, "stream": True}
IDS = [11, 12]
"""Every backend says "hello" in two tokens: 11 is "hel", 12 is "lo"."""


class Task(Struct, frozen=True, kw_only=True):
    """path: with `{model}` if the surface has the model in the path, else it is in the body."""

    surface: Surface
    path: str
    body: Json
    stream: bool = False

    @property
    def is_text(self) -> bool:
        """Whether an OpenAI-dialect provider speaks it."""
        return self.surface in ("openai", "anthropic", "responses", "databricks", "ollama")

    async def ask(self, url: str, model: str) -> httpx.Response:
        body = self.body if "{model}" in self.path else {"model": model, **self.body}
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            return await client.post(self.path.format(model=model), json=body, timeout=60)


TASKS: Mapping[str, Task] = {
    "chat": Task(surface="openai", path="/v1/chat/completions", body=CHAT),
    "chat-stream": Task(
        surface="openai", path="/v1/chat/completions", body={**CHAT, "stream": True}, stream=True
    ),
    "messages": Task(surface="anthropic", path="/v1/messages", body=MESSAGES),
    "messages-stream": Task(
        surface="anthropic", path="/v1/messages", body={**MESSAGES, "stream": True}, stream=True
    ),
    "responses": Task(surface="responses", path="/v1/responses", body=RESPONSES),
    "responses-stream": Task(
        surface="responses", path="/v1/responses", body={**RESPONSES, "stream": True}, stream=True
    ),
    "lines": Task(surface="ollama", path="/api/chat", body={**CHAT, "stream": False}),
    "lines-stream": Task(surface="ollama", path="/api/chat", body=CHAT, stream=True),
    "completion": Task(surface="openai", path="/v1/completions", body={"prompt": "hi"}),
    "completion-stream": Task(
        surface="openai", path="/v1/completions", body={"prompt": "hi", "stream": True}, stream=True
    ),
    "embedding": Task(surface="openai", path="/v1/embeddings", body={"input": "hi"}),
    "invocation": Task(
        surface="databricks", path="/serving-endpoints/{model}/invocations", body=CHAT
    ),
    "invocation-stream": Task(
        surface="databricks",
        path="/serving-endpoints/{model}/invocations",
        body={**CHAT, "stream": True},
        stream=True,
    ),
    "tokens": Task(surface="mindie", path="/v1/models/{model}/infer_token", body=TOKENS),
    "tokens-stream": Task(
        surface="mindie",
        path="/v1/models/{model}/infer_token",
        body={**TOKENS, "stream": True},
        stream=True,
    ),
    "tensors": Task(surface="kserve", path="/v2/models/{model}/infer", body=TENSORS),
    "tensors-stream": Task(
        surface="kserve", path="/v2/models/{model}/generate_stream", body=FLAT, stream=True
    ),
}


def client_sees(task: Task, answer: httpx.Response, sees: Sees) -> None:
    """Asserts that it is so."""
    assert answer.status_code == status(task, sees), answer.text
    if sees.status != 200:
        assert failure(task, answer.json(), sees.error)
    elif not task.stream:
        assert said(task, answer.json())
    else:
        frames = [data_of(frame) for frame in frames_of(task, answer.text)]
        if sees.error:
            assert failure(task, json.loads(frames[-1]), sees.error)
            assert not ended(task, frames[:-1], answer.text)
        else:
            assert ended(task, frames, answer.text)
            assert streamed(task, [json.loads(one) for one in frames if one != "[DONE]"])


def frames_of(task: Task, body: str) -> list[str]:
    """Without comments, as clients read them."""
    if task.surface == "ollama":
        return body.splitlines()
    return [frame for frame in body.split("\n\n") if frame and not frame.startswith(":")]


def status(task: Task, sees: Sees) -> int:
    """The status by which the surface's clients know the failure."""
    return STATUSES.get(sees.status, sees.status) if task.surface == "anthropic" else sees.status


def data_of(frame: str) -> str:
    """The data of a frame, which has an `event:` line before it in some dialects."""
    return frame.rpartition("\n")[2].removeprefix("data: ")


def failure(task: Task, body: Json, code: str) -> bool:
    """Whether this is the surface's error; our own code stands where OpenAI's clients look."""
    match task.surface:
        case "openai" | "responses":
            return cast("Json", body["error"])["code"] == code
        case "anthropic":
            error = cast("Json", body["error"])
            return (body["type"], error["code"]) == ("error", code) and bool(body["request_id"])
        case "databricks":
            beside = cast("Json", body.get("error", {"code": code}))
            return bool(body["error_code"]) and beside["code"] == code
        case "ollama":
            return list(body) == ["error"] and bool(body["error"])
        case "mindie":
            return bool(body["error"]) and bool(body["error_type"])
        case "kserve":
            return bool(body["error"])


def said(task: Task, body: Json) -> bool:
    """Whether a whole answer has all that the backend said."""
    match task.surface:
        case "openai" | "anthropic" | "responses" | "databricks" | "ollama":
            return '"hello"' in json.dumps(body) or "[0.5" in json.dumps(body)
        case "mindie":
            return cast("Json", body["details"])["generated_token_ids"] == IDS
        case "kserve":
            outputs = cast("Sequence[Json]", body["outputs"])
            return [one["data"] for one in outputs if one["name"] == "output_ids"] == [IDS]


def streamed(task: Task, frames: Sequence[Json]) -> bool:
    """Likewise, of the frames of a stream."""
    match task.surface:
        case "openai" | "databricks":
            choices = [one for frame in frames for one in cast("Sequence[Json]", frame["choices"])]
            return "".join(map(_piece, choices)) == "hello"
        case "anthropic":
            deltas = [cast("Json", frame.get("delta", {})) for frame in frames]
            return "".join(str(delta.get("text", "")) for delta in deltas) == "hello"
        case "responses":
            deltas = [frame["delta"] for frame in frames if "delta" in frame]
            return "".join(map(str, deltas)) == "hello"
        case "ollama":
            turns = [cast("Json", frame["message"]) for frame in frames]
            return "".join(str(turn["content"]) for turn in turns) == "hello"
        case "mindie":
            return [cast("Json", frame["token"])["id"] for frame in frames] == IDS
        case "kserve":
            return [frame["output_ids"] for frame in frames if "output_ids" in frame] == IDS


def ended(task: Task, frames: Sequence[str], text: str) -> bool:
    """Whether a stream says that it is complete, as far as the dialect can."""
    match task.surface:
        case "openai" | "databricks":
            return "[DONE]" in frames or '"finish_reason":"stop"' in text
        case "anthropic":
            return '"message_delta"' in text or '"message_stop"' in text
        case "responses":
            return "[DONE]" in frames or '"type":"response.completed"' in text
        case "ollama":
            return '"done":true' in text
        case "mindie":
            return '"generated_text"' in text
        case "kserve":
            return streamed(task, [json.loads(one) for one in frames])


def _piece(choice: Json) -> str:
    delta = cast("Json", choice.get("delta", {}))
    return str(choice.get("text") or delta.get("content") or "")
