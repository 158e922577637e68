"""Checks that no client input makes an adapter raise anything but InvalidRequest.

Deeply nested values, numbers of hundreds of digits, and text that is not Unicode: surfaces let them
pass, because only the encoder can detect them.
"""

from collections.abc import Iterator

from msgspec import Raw
from msgspec.structs import replace

from strowger_gateway.adapters.base import Adapter, Supports
from strowger_gateway.adapters.capabilities import offered, unsupported
from strowger_gateway.adapters.conformance.sample_requests import bare_request
from strowger_gateway.adapters.conformance.translation_checks import completed
from strowger_gateway.adapters.unencodable import ENCODE_ERRORS, encoded
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.fields import Task
from strowger_gateway.schemas.messages import (
    FunctionTool,
    Message,
    OpaquePart,
    OpaqueTool,
    ResponseFormat,
    TextPart,
    ToolCall,
)
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    Request,
)
from strowger_gateway.schemas.tasks.classify import ClassifyRequest
from strowger_gateway.schemas.tasks.moderate import ModerateRequest
from strowger_gateway.schemas.tasks.pool import PoolRequest
from strowger_gateway.schemas.tasks.rerank import RerankRequest
from strowger_gateway.schemas.tasks.score import ScoreRequest
from strowger_gateway.schemas.tasks.task import Unsampled

LONE = "\ud800"
"""A lone surrogate, which UTF-8 cannot encode."""
VALUES = (
    Raw(b"[" * 900 + b"]" * 900),
    Raw(b'{"a":' * 900 + b"1" + b"}" * 900),
    Raw(b"9" * 5000),
    Raw(b"1e999"),
    Raw(b'"\\ud800"'),
    Raw(b'["\\ud800",{"\\udc00":null}]'),
)
NUMBERS: tuple[float, ...] = (2**64, -(2**70), 10**400, 1e308)


def check_unencodable(adapter: Adapter, task: Task, model: str) -> None:
    """Check that unencodable values raise InvalidRequest naming the field, if known."""
    supports = adapter.supports
    if offered(supports, task) is None:
        return
    for field, request in _hostile(task, supports):
        refusal = _refusal(adapter, completed(supports, request), model)
        if refusal is None or not isinstance(refusal.__cause__, ENCODE_ERRORS):
            continue
        named = refusal.param is not None or isinstance(refusal.__cause__, RecursionError)
        assert named, f"{task}: {field} is rejected without its name: {refusal}"


def _refusal(adapter: Adapter, request: Request, model: str) -> InvalidRequest | None:
    """Return the rejection, if any. Raises any other exception of the adapter."""
    unsupported(request, adapter.supports)
    try:
        encoded(adapter, request, model)
    except InvalidRequest as exc:
        return exc
    return None


def _hostile(task: Task, supports: Supports) -> Iterator[tuple[str, Request]]:
    bare = bare_request(task)
    for name in (*sorted(supports.extra_fields.get(task, ())), "x_unheard_of"):
        for value in VALUES:
            yield name, replace(bare, extra={name: value})
    if not isinstance(bare, Unsampled):
        for name in ("seed", "max_tokens", "top_k", "temperature", "n"):
            for number in NUMBERS:
                yield name, replace(bare, sampling=replace(bare.sampling, **{name: number}))
        yield "stop", replace(bare, sampling=replace(bare.sampling, stop=(LONE,)))
    match bare:
        case ChatRequest():
            yield from _chats(bare)
        case CompletionRequest():
            yield "prompt", replace(bare, prompts=(LONE,))
        case EmbeddingsRequest():
            yield "input", replace(bare, inputs=(LONE,))
        case RerankRequest():
            yield "query", replace(bare, query=LONE)
            yield "documents", replace(bare, documents=(LONE,))
        case ScoreRequest():
            yield "documents", replace(bare, documents=(LONE,))
        case ClassifyRequest():
            yield "input", replace(bare, inputs=((LONE,),))
        case PoolRequest():
            yield "input", replace(bare, inputs=(LONE,))
        case ModerateRequest():
            yield "input", replace(bare, inputs=((TextPart(text=LONE),),))
        case _:
            pass


def _chats(bare: ChatRequest) -> Iterator[tuple[str, ChatRequest]]:
    yield "messages", replace(bare, messages=(Message(role="user", content=LONE),))
    for value in VALUES:
        yield "metadata", replace(bare, metadata=value)
        yield "tools", replace(bare, tools=(FunctionTool(name="f", parameters=value),))
        opaque = Raw(b'{"type":"x","x":' + bytes(value) + b"}")
        yield "tools", replace(bare, tools=(OpaqueTool(type="x", raw=opaque),))
        form = ResponseFormat(type="json_schema", name="a", schema=value)
        yield "response_format", replace(bare, response_format=form)
        file = OpaquePart(type="file", raw=Raw(b'{"type":"file","file":' + bytes(value) + b"}"))
        yield "messages", replace(bare, messages=(Message(role="user", content=(file,)),))
        text = Raw(b'{"type":"text","text":"x","cache_control":' + bytes(value) + b"}")
        part = TextPart(text="x", raw=text)
        yield "messages", replace(bare, messages=(Message(role="user", content=(part,)),))
        yield "messages", replace(bare, messages=_called_with(bytes(value).decode()))


def _called_with(arguments: str) -> tuple[Message, ...]:
    return (
        Message(role="user", content="hello"),
        Message(role="assistant", tool_calls=(ToolCall(id="1", name="f", arguments=arguments),)),
        Message(role="tool", content="x", tool_call_id="1"),
    )
