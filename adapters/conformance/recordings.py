"""Reads recorded exchanges: an adapter's fixtures, one folder each, and matching requests.

`FOLDER/CASE/` contains

request_line            method, path and query
request.json            the body sent, or the part of it that the answer depends on
task                    its name, if neither path nor body determines it
status                  only if it is not 200
headers.json            of the answer, names in lower case, if they matter
error                   of a failure: the class of the error that it must become, and what a refusal
                        refuses, such as `UpstreamRefused account`
response.json, .txt     the body of a complete answer; `.octets` if it is not text
response.sse, .ndjson   the body of a streamed one; `.bin` if it is not text
"""

from collections.abc import Mapping
from pathlib import Path
from typing import get_args

import msgspec
from msgspec import UNSET, Raw, Struct

from strowger_gateway.schemas.fields import Task
from strowger_gateway.schemas.messages import Message, TextPart
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    Request,
    TokenRequest,
)
from strowger_gateway.schemas.sampling import Sampling
from strowger_gateway.schemas.tasks.classify import ClassifyRequest
from strowger_gateway.schemas.tasks.moderate import ModerateRequest
from strowger_gateway.schemas.tasks.pool import PoolRequest
from strowger_gateway.schemas.tasks.rerank import RerankRequest
from strowger_gateway.schemas.tasks.score import ScoreRequest

STREAMED = (".sse", ".ndjson", ".bin")
DOCUMENTS = ("documents", "texts", "sources")
"""Fields in which dialects send the documents to rank."""

INPUTS = ("input", "texts", "text", "inputs")
"""Fields in which dialects send the inputs to embed."""

IN_PATH: Mapping[str, Task] = {
    "rerank": "rerank",
    "/score": "score",
    "/classify": "classify",
    "/predict": "classify",
    "/pooling": "pool",
    "moderation": "moderate",
}
"""Parts of the paths of other requests."""

CONVERSED = ("chat", "generateContent", "streamGenerateContent")
"""Parts of the paths of chat requests."""

_one_or_more: msgspec.json.Decoder[str | list[object]] = msgspec.json.Decoder(str | list[object])


class Recording(Struct, frozen=True, kw_only=True):
    """One recorded exchange.

    name: `FOLDER/CASE`. line: "" if unknown. sent: the fields of the recorded request, {} if
    unknown. task: `None` if no file contains it. error: "" if no file contains it.
    """

    name: str
    line: str
    sent: dict[str, Raw]
    body: bytes
    status: int
    headers: dict[str, str]
    streamed: bool
    task: Task | None = None
    error: str = ""


def recordings(folder: Path) -> list[Recording]:
    """Return every exchange under `folder`, by name; [] if there is no such folder."""
    if not folder.is_dir():
        return []
    found = (_recording(one) for one in sorted(folder.iterdir()) if one.is_dir())
    return [one for one in found if one is not None]


def request_for(recording: Recording) -> Request:
    """Return a request that fits the answer: its task, form, and number of choices."""
    sent = recording.sent
    if recording.task is None and "/v2/models/" in recording.line:
        return _triton_request(recording)
    count = (msgspec.json.decode(sent["n"], type=int | None) if "n" in sent else 1) or 1
    sampling = Sampling(n=count) if count > 1 else Sampling()
    match recording.task or _task(recording):
        case "embeddings":
            given = next((sent[name] for name in INPUTS if name in sent), None)
            return EmbeddingsRequest(model="m", inputs=("x",) * _entries(given))
        case "tokens":
            return TokenRequest(model="m", tokens=(1, 2, 3), stream=recording.streamed)
        case "completion":
            prompts = ("x",) * _entries(sent.get("prompt"))
            return CompletionRequest(
                model="m", prompts=prompts, sampling=sampling, stream=recording.streamed
            )
        case "chat":
            hello = Message(role="user", content="hello")
            return ChatRequest(
                model="m", messages=(hello,), sampling=sampling, stream=recording.streamed
            )
        case "rerank":
            count = _entries(next((sent[one] for one in DOCUMENTS if one in sent), None))
            top = next((sent[one] for one in ("top_n", "top_k") if one in sent), None)
            return RerankRequest(
                model="m",
                query="q",
                documents=("x",) * count,
                top_n=UNSET if top is None else msgspec.json.decode(top, type=int),
            )
        case "score":
            count = _entries(sent.get("text_2", sent.get("documents")))
            return ScoreRequest(model="m", queries=("q",), documents=("x",) * count)
        case "classify":
            count = _entries(next((sent[name] for name in INPUTS if name in sent), None))
            return ClassifyRequest(model="m", inputs=(("x",),) * count)
        case "pool":
            return PoolRequest(model="m", inputs=("x",) * _entries(sent.get("input")))
        case "moderate":
            count = _entries(sent.get("input"))
            return ModerateRequest(model="m", inputs=((TextPart(text="x"),),) * count)


def _task(recording: Recording) -> Task:
    """Infer the task from the path and the request."""
    if "/responses" in recording.line:
        return "chat"
    for word, task in IN_PATH.items():
        if word in recording.line:
            return task
    if "embed" in recording.line or (
        "input" in recording.sent and "messages" not in recording.sent
    ):
        return "embeddings"
    if "input_id" in recording.sent or "infer_token" in recording.line:
        return "tokens"
    if "messages" in recording.sent or "contents" in recording.sent:
        return "chat"
    chats = "prompt" not in recording.sent and any(word in recording.line for word in CONVERSED)
    return "chat" if chats else "completion"


def _triton_request(recording: Recording) -> CompletionRequest | TokenRequest:
    """Return a request for a text model, or a tensor model (JSON keys, or a list of tensors)."""
    limit = recording.sent.get("max_tokens", recording.sent.get("request_output_len", Raw(b"20")))
    bounded = Sampling(max_tokens=msgspec.json.decode(limit, type=int))
    if "input_ids" in recording.sent or "inputs" in recording.sent:
        return TokenRequest(
            model="m", tokens=(1, 2, 3), sampling=bounded, stream="streaming" in recording.sent
        )
    return CompletionRequest(
        model="m", prompts=("x",), sampling=bounded, stream="generate_stream" in recording.line
    )


def _recording(folder: Path) -> Recording | None:
    answers = [one for one in folder.iterdir() if one.name.startswith("response.")]
    if not answers:
        return None
    sent, headers, status, line, task, error = (
        folder / name
        for name in ("request.json", "headers.json", "status", "request_line", "task", "error")
    )
    return Recording(
        name=f"{folder.parent.name}/{folder.name}",
        line=line.read_text() if line.is_file() else "",
        sent=_object(sent),
        body=answers[0].read_bytes(),
        status=int(status.read_text()) if status.is_file() else 200,
        headers=msgspec.json.decode(headers.read_bytes(), type=dict[str, str])
        if headers.is_file()
        else {},
        streamed=answers[0].suffix in STREAMED,
        task=_word(task),
        error=error.read_text().strip() if error.is_file() else "",
    )


def _word(file: Path) -> Task | None:
    if not file.is_file():
        return None
    word = file.read_text().strip()
    for task in get_args(Task):
        if word == task:
            return task
    raise ValueError(f"{file}: {word!r} is none of {', '.join(get_args(Task))}")


def _object(file: Path) -> dict[str, Raw]:
    if not file.is_file():
        return {}
    return msgspec.json.decode(file.read_bytes(), type=dict[str, Raw])


def _entries(raw: Raw | None) -> int:
    """Count prompts or inputs: each entry of a list of strings or lists, else one."""
    if raw is None:
        return 1
    value = _one_or_more.decode(raw)
    return len(value) if isinstance(value, list) and not isinstance(value[0], int) else 1
