"""One request for each field that a client can set, for the contract and for documentation."""

from collections.abc import Collection, Mapping
from types import MappingProxyType

from msgspec import UNSET, Raw
from msgspec.json import encode
from msgspec.structs import asdict, replace

from strowger_gateway.schemas.fields import MESSAGES, SAMPLING, Task
from strowger_gateway.schemas.messages import (
    AudioPart,
    FunctionTool,
    ImagePart,
    Message,
    OpaquePart,
    OpaqueTool,
    Part,
    ResponseFormat,
    TextPart,
    Thought,
    ThoughtKind,
    ToolChoice,
)
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    Draft,
    EmbeddingsRequest,
    LoraRequest,
    PromptTable,
    Request,
    TokenRequest,
)
from strowger_gateway.schemas.sampling import Sampling
from strowger_gateway.schemas.tasks.classify import ClassifyRequest
from strowger_gateway.schemas.tasks.moderate import ModerateRequest
from strowger_gateway.schemas.tasks.pool import PoolRequest
from strowger_gateway.schemas.tasks.rerank import RerankRequest
from strowger_gateway.schemas.tasks.score import ScoreRequest
from strowger_gateway.schemas.tasks.task import Unsampled
from strowger_gateway.schemas.tensors import Tensor

_FLOATS = Tensor(dtype="float32", shape=(2,), data=b"\0" * 8)
_TABLE = Tensor(dtype="float16", shape=(1, 2), data=b"\0" * 4)
_TOOL = FunctionTool(
    name="look", parameters=Raw(b'{"type":"object","properties":{"at":{"type":"string"}}}')
)
_OPAQUE_TOOL = OpaqueTool(type="web_search", raw=Raw(b'{"type":"web_search"}'))

VALUES: Mapping[str, object] = MappingProxyType(
    {
        "max_chunks_per_doc": 4,
        "max_tokens_per_doc": 512,
        "raw_scores": True,
        "truncation": True,
        "labels": ("good", "bad"),
        "pooling_task": "token_embed",
        "encoding_format": "base64",
        "embed_dtype": "float16",
        "endianness": "little",
        "use_activation": False,
        "temperature": 0.5,
        "top_p": 0.5,
        "top_k": 5,
        "min_p": 0.05,
        "typical_p": 0.5,
        "do_sample": True,
        "max_tokens": 2048,
        "min_tokens": 3,
        "stop": ("END",),
        "stop_token_ids": (3,),
        "stop_words": ((3, 4),),
        "bad_words": ("no",),
        "bad_word_ids": ((5,),),
        "ignore_eos": True,
        "end_id": 2,
        "pad_id": 0,
        "seed": 42,
        "presence_penalty": 0.5,
        "frequency_penalty": 0.5,
        "repetition_penalty": 1.5,
        "no_repeat_ngram_size": 3,
        "logit_bias": {5: 1.0},
        "embedding_bias": _FLOATS,
        "logprobs": True,
        "top_logprobs": 3,
        "n": 2,
        "best_of": 2,
        "beam_width": 2,
        "length_penalty": 1.5,
        "early_stopping": True,
        "top_p_decay": 0.5,
        "top_p_min": 0.5,
        "top_p_reset_id": 1,
        "watermark": True,
        "tools": (_TOOL,),
        "tool_choice": ToolChoice(mode="required"),
        "parallel_tool_calls": False,
        "response_format": ResponseFormat(
            type="json_schema", name="answer", schema=Raw(b'{"type":"object"}')
        ),
        "reasoning_effort": "low",
        "user": "someone",
        "metadata": Raw(b'{"a":"b"}'),
        "priority": 2,
        "echo": True,
        "suffix": "after",
        "append_suffix": "after",
        "prompt_template": "{{ .Prompt }}",
        "template": True,
        "error_behavior": "truncate",
        "instruction": "Represent this:",
        "dimensions": 64,
        "lora": LoraRequest(task_id=1),
        "prompt_table": PromptTable(table=_TABLE, vocab_size=10),
        "draft": Draft(tokens=(1, 2)),
        "return_context_logits": True,
        "return_generation_logits": True,
    }
)
"""A sample value for each field; none of them is neutral."""

NEEDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "top_logprobs": ("logprobs",),
        "tool_choice": ("tools",),
        "parallel_tool_calls": ("tools",),
        "length_penalty": ("beam_width",),
        "early_stopping": ("beam_width",),
    }
)
"""Fields that have no meaning without others."""

PARTS: Mapping[str, Part] = MappingProxyType(
    {
        "messages.image": ImagePart(url="data:image/png;base64,iVBORw0KGgo="),
        "messages.remote_image": ImagePart(url="https://example.com/cat.png"),
        "messages.audio": AudioPart(data="AAAA", format="wav"),
        "messages.opaque": OpaquePart(
            type="file",
            raw=Raw(
                b'{"type":"file","file":{"filename":"a.pdf",'
                b'"file_data":"data:application/pdf;base64,JVBERi0="}}'
            ),
        ),
    }
)

THOUGHTS: Mapping[ThoughtKind, Thought] = MappingProxyType(
    {
        "text": Thought(text="Hm, well."),
        "signed": Thought(text="Hm, well.", signature="c2lnbmVk"),
        "encrypted": Thought(data="ZW5jcnlwdGVk"),
    }
)

BARE: Mapping[Task, Request] = MappingProxyType(
    {
        "chat": ChatRequest(model="m", messages=(Message(role="user", content="hello"),)),
        "completion": CompletionRequest(model="m", prompts=("hello",)),
        "embeddings": EmbeddingsRequest(model="m", inputs=("hello",)),
        "tokens": TokenRequest(model="m", tokens=(1, 2, 3)),
        "rerank": RerankRequest(model="m", query="hello", documents=("bye", "hi")),
        "score": ScoreRequest(model="m", queries=("hello",), documents=("bye", "hi")),
        "classify": ClassifyRequest(model="m", inputs=(("hello",), ("bye",))),
        "pool": PoolRequest(model="m", inputs=("hello", "bye")),
        "moderate": ModerateRequest(model="m", inputs=((TextPart(text="hello"),),)),
    }
)


def bare_request(task: Task) -> Request:
    """Return a request with only the fields that the task requires."""
    return BARE[task]


def request_with(task: Task, field: str) -> tuple[Request, Request]:
    """Return a request with the field, and the same one without it."""
    without_it = bare_request(task)
    for needed in NEEDS.get(field, ()):
        without_it = with_field(without_it, needed)
    return with_field(without_it, field), without_it


def with_needs(fields: Collection[str]) -> frozenset[str]:
    """Return the fields, and the ones without which they have no meaning."""
    return frozenset(fields).union(*(NEEDS.get(field, ()) for field in fields))


def request_with_all(task: Task, fields: Collection[str]) -> Request:
    """Return a request with all of these fields, the fields they need, and all content kinds."""
    names = sorted(with_needs(fields))
    request = bare_request(task)
    for field in names:
        request = with_field(request, field)
    if isinstance(request, ChatRequest) and not MESSAGES.isdisjoint(names):
        parts = (TextPart(text="hello"), *(PARTS[one] for one in names if one in PARTS))
        request = replace(request, messages=(Message(role="user", content=parts),))
    if isinstance(request, ChatRequest) and {"tools", "tools.opaque"} <= set(names):
        request = replace(request, tools=(_TOOL, _OPAQUE_TOOL))
    if isinstance(request, CompletionRequest) and {"prompt.tokens", "prompt.batch"} <= set(names):
        request = replace(request, prompts=((1, 2, 3), (4, 5)))
    return request


def request_with_extra(task: Task, name: str, value: Raw) -> Request:
    return replace(bare_request(task), extra={name: value})


def request_with_nulls(task: Task) -> Request:
    """Return a request with every nullable field set to null."""
    request = bare_request(task)
    if isinstance(request, Unsampled):
        return request
    nulls = Sampling(top_k=None, max_tokens=None, seed=None)
    return replace(request, sampling=nulls)


def with_field(request: Request, field: str) -> Request:
    """Return the request with the field's sample value."""
    match request:
        case ChatRequest() if field in PARTS:
            message = Message(role="user", content=(PARTS[field],))
            return replace(request, messages=(message,))
        case ChatRequest() if field == "tools.opaque":
            return replace(request, tools=(_OPAQUE_TOOL,))
        case CompletionRequest() if field == "prompt.tokens":
            return replace(request, prompts=((1, 2, 3),))
        case CompletionRequest() if field == "prompt.batch":
            return replace(request, prompts=("hello", "bye"), batch=True)
        case EmbeddingsRequest() if field == "input.tokens":
            return replace(request, inputs=((1, 2, 3),))
        case ClassifyRequest() if field == "input.pairs":
            return replace(request, inputs=(("hello", "bye"), ("bye",)))
        case PoolRequest() if field == "input.tokens":
            return replace(request, inputs=((1, 2, 3),))
        case PoolRequest() if field == "messages":
            return replace(request, messages=(Message(role="user", content="hello"),))
        case ModerateRequest() if field == "input.images":
            image = ImagePart(url="data:image/png;base64,iVBORw0KGgo=")
            return replace(request, inputs=((image,),))
        case ModerateRequest() if field == "conversations":
            said = (Message(role="user", content="hello"),)
            return replace(request, inputs=(), conversations=(said,))
        case ChatRequest() | CompletionRequest() | TokenRequest() if field in SAMPLING:
            sampling = replace(request.sampling, **{field: VALUES[field]})
            return replace(request, sampling=sampling)
        case _:
            return replace(request, **{field: VALUES.get(field, UNSET)})


def chat_with_thought(thought: Thought | None) -> ChatRequest:
    """Return a conversation whose earlier answer has reasoning, as its client sends it back."""
    fields: dict[str, object] = {"role": "assistant", "content": "yes"}
    if thought is not None:
        kind = "reasoning.encrypted" if thought.data else "reasoning.text"
        fields["reasoning_details"] = [{"type": kind, **asdict(thought)}]
    turns = (
        Message(role="user", content="hello"),
        Message(
            role="assistant",
            content="yes",
            thoughts=() if thought is None else (thought,),
            raw=Raw(encode(fields)),
        ),
        Message(role="user", content="and now?"),
    )
    return ChatRequest(model="m", messages=turns)
