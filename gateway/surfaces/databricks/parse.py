"""Parse Databricks' bodies into requests, or raise an InvalidRequest that names the field.

The OpenAI dialect with its own rules: a system message must come first, reasoning comes back as
a part of a message's content, a completion has no token limit by default, its prompt is wrapped
in the model's chat template unless `use_raw_prompt` is true (if it is absent, a backend without
templates is accepted), and `suffix` is appended to each answer.
https://docs.databricks.com/en/machine-learning/foundation-model-apis/api-reference.html
"""

from typing import Final

import msgspec
from msgspec import UNSET, DecodeError, Raw, Struct, UnsetType
from msgspec.structs import replace

from strowger_gateway.gateway.surfaces.databricks.extra_params import merge_extra_params
from strowger_gateway.gateway.surfaces.databricks.reasoning import move_reasoning
from strowger_gateway.gateway.surfaces.databricks.wire import (
    DATABRICKS_CHAT_ALLOWED,
    DATABRICKS_COMPLETION_ALLOWED,
    DATABRICKS_EMBEDDINGS_ALLOWED,
    DatabricksChatWire,
    DatabricksCompletionWire,
    DatabricksEmbeddingsWire,
    InvocationWire,
)
from strowger_gateway.gateway.surfaces.decoding import (
    UNREADABLE,
    BodyReader,
    check_utf8,
    invalid_request,
    is_null,
)
from strowger_gateway.gateway.surfaces.openai.parse import (
    MAX_CHOICES,
    parse_chat,
    parse_completion,
    parse_embeddings,
)
from strowger_gateway.gateway.surfaces.openai.wire import (
    CHAT_NUMBERS,
    INPUT_NUMBERS,
    PROMPT_NUMBERS,
    ChatWire,
    CompletionWire,
    EmbeddingsWire,
)
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.fields import Task
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest, CompletionRequest, Request

_chat: Final[BodyReader[ChatWire]] = BodyReader(
    DatabricksChatWire, DATABRICKS_CHAT_ALLOWED, numbers=CHAT_NUMBERS
)
_completion: Final[BodyReader[CompletionWire]] = BodyReader(
    DatabricksCompletionWire, DATABRICKS_COMPLETION_ALLOWED, numbers=PROMPT_NUMBERS
)
_embeddings: Final[BodyReader[EmbeddingsWire]] = BodyReader(
    DatabricksEmbeddingsWire, DATABRICKS_EMBEDDINGS_ALLOWED, numbers=INPUT_NUMBERS
)

TASKS: Final[dict[str, Task]] = {
    "messages": "chat",
    "prompt": "completion",
    "input": "embeddings",
}
"""The field that determines the task of an invocation."""

RECORDS: Final = ("client_request_id", "usage_context")
"""Notes for the service's own tables; backends that ignore them give the same answer."""

_ELSEWHERE: Final = ("dataframe_records", "dataframe_split", "instances", "inputs")
"""Inputs of the service's endpoints for other kinds of models."""


class _Addressed(Struct, frozen=True, kw_only=True):
    tool_call_id: str | None = None


class _RawPrompt(Struct, frozen=True, kw_only=True):
    use_raw_prompt: bool | None = None


_invocation: Final = msgspec.json.Decoder(InvocationWire)
_addressed: Final = msgspec.json.Decoder(_Addressed)
_raw_prompt: Final = msgspec.json.Decoder(_RawPrompt)


def parse_invocation(body: bytes, *, model: str, max_choices: int = MAX_CHOICES) -> Request:
    """`POST /serving-endpoints/{name}/invocations`.

    model:       the endpoint's name, from the path.
    max_choices: maximum number of answers that one request may ask for.
    Raises InvalidRequest.
    """
    wire = _read(body)
    task = _task(wire, model)
    if isinstance(wire.extra_params, Raw) and not is_null(wire.extra_params):
        body = merge_extra_params(body, wire.extra_params)
    return parse_task(task, body, model=model, max_choices=max_choices)


def parse_task(task: Task, body: bytes, *, model: str, max_choices: int = MAX_CHOICES) -> Request:
    """Parse a body with a known task. model: "" if the body must name it. Raises InvalidRequest."""
    match task:
        case "chat":
            request: Request = _read_chat(body, model, max_choices)
        case "completion":
            request = _read_completion(body, model, max_choices)
        case "embeddings":
            request = parse_embeddings(body, model=model, reader=_embeddings)
        case "tokens":
            raise InvalidRequest("this surface accepts text, not tokens")
        case _:
            raise InvalidRequest(f"this surface does not serve {task}")
    records = tuple(name for name in RECORDS if name in request.extra)
    return replace(request, optional=(*request.optional, *records)) if records else request


def _read(body: bytes) -> InvocationWire:
    try:
        if not body.isascii():
            check_utf8(body)
        return _invocation.decode(body)
    except UNREADABLE as exc:
        raise invalid_request(exc, "", DATABRICKS_CHAT_ALLOWED) from exc


def _task(wire: InvocationWire, model: str) -> Task:
    if wire.model is not None and wire.model != model:
        raise InvalidRequest(
            f"model: the path names {model!r}, but the body {wire.model!r}; omit it from the body",
            param="model",
        )
    sent = [name for name in TASKS if _is_sent(getattr(wire, name))]
    if len(sent) == 1:
        return TASKS[sent[0]]
    found = ", ".join(sent) or next((n for n in _ELSEWHERE if _is_sent(getattr(wire, n))), "none")
    raise InvalidRequest(
        "the body must have exactly one of messages (chat), prompt (completion) and input "
        f"(embeddings); it has {found}",
        param=sent[1] if sent else None,
    )


def _is_sent(raw: Raw | UnsetType) -> bool:
    return isinstance(raw, Raw) and not is_null(raw)


def _read_chat(body: bytes, model: str, max_choices: int) -> ChatRequest:
    request = parse_chat(body, model=model, max_choices=max_choices, reader=_chat)
    for place, message in enumerate(request.messages):
        _check_message(message, place)
    messages = tuple(move_reasoning(one, place) for place, one in enumerate(request.messages))
    return replace(request, messages=messages)


def _check_message(message: Message, place: int) -> None:
    if place and message.role in ("system", "developer"):
        raise InvalidRequest(
            f"messages[{place}].role: a {message.role} message can only be the first one",
            param=f"messages[{place}].role",
        )
    if message.role != "tool" and isinstance(message.raw, Raw):
        where = f"messages[{place}].tool_call_id"
        try:
            answers = _addressed.decode(message.raw).tool_call_id
        except (DecodeError, RecursionError) as exc:
            raise invalid_request(exc, f"messages[{place}]", DATABRICKS_CHAT_ALLOWED) from exc
        if answers:
            raise InvalidRequest(f"{where} belongs in a message of role tool", param=where)


def _read_completion(body: bytes, model: str, max_choices: int) -> CompletionRequest:
    request = parse_completion(
        body, model=model, max_choices=max_choices, raw_prompt=False, reader=_completion
    )
    sampling = request.sampling
    if sampling.max_tokens is UNSET:
        sampling = replace(sampling, max_tokens=None)
    silent = request.template and _raw_prompt.decode(body).use_raw_prompt is None
    return replace(
        request,
        sampling=sampling,
        suffix=UNSET,
        append_suffix=request.suffix,
        optional=(*request.optional, "template") if silent else request.optional,
    )
