"""The forms of pooling: vLLM's, and LMDeploy's.

https://docs.vllm.ai/en/latest/models/pooling_models/, the schema in
https://github.com/vllm-project/vllm/blob/main/vllm/entrypoints/pooling/pooling/protocol.py,
https://github.com/InternLM/lmdeploy/blob/main/lmdeploy/serve/openai/protocol.py
"""

from binascii import Error as NotBase64
from binascii import a2b_base64
from typing import Final

import msgspec
from msgspec import Raw, Struct

from strowger_gateway.adapters.json_objects import NULL
from strowger_gateway.adapters.tasks.form import Body, NotAnAnswer, TaskForm, beside, sent
from strowger_gateway.adapters.tasks.loose import text_in, usage_in
from strowger_gateway.schemas.messages import text_of
from strowger_gateway.schemas.tasks.pool import Numbers, Pooled, PoolRequest


class _Result(Struct, frozen=True):
    index: int
    data: Raw


class _Answer(Struct, frozen=True):
    data: tuple[_Result, ...]
    id: Raw = NULL
    model: Raw = NULL
    usage: Raw = NULL


_FIELDS: Final = ("dimensions", "encoding_format", "embed_dtype", "endianness", "use_activation")

_read: Final = msgspec.json.Decoder(_Answer).decode
_numbers: Final[msgspec.json.Decoder[Numbers]] = msgspec.json.Decoder(Numbers)
_text: Final = msgspec.json.Decoder(str).decode


def _vllms(request: PoolRequest, model: str) -> Body:
    body: Body = {"model": model}
    if request.messages:
        body["messages"] = [
            one.raw if isinstance(one.raw, Raw) else {"role": one.role, "content": text_of(one)}
            for one in request.messages
        ]
    if request.inputs:
        body["input"] = request.inputs[0] if len(request.inputs) == 1 else request.inputs
    return body | sent(request, *_FIELDS, "user", pooling_task="task")


def _lmdeploys(request: PoolRequest, model: str) -> Body:
    one = len(request.inputs) == 1
    return {"model": model, "input": request.inputs[0] if one else request.inputs}


def _pooled(request: PoolRequest, body: bytes) -> Pooled:
    answer, count = _read(body), request.items
    found = {one.index: one.data for one in answer.data}
    if len(found) != len(answer.data) or found.keys() != set(range(count)):
        raise NotAnAnswer(f"{len(answer.data)} results for {count} inputs")
    check = _check_base64 if request.encoding_format == "base64" else _numbers.decode
    for data in found.values():
        check(data)
    return Pooled(
        results=tuple([found[place] for place in range(count)]),
        model=text_in(answer.model),
        id=text_in(answer.id),
        usage=usage_in(answer.usage),
    )


def _check_base64(data: Raw) -> None:
    try:
        a2b_base64(_text(data), strict_mode=True)
    except (NotBase64, ValueError) as exc:
        raise NotAnAnswer("a result that is not base64") from exc


VLLM = TaskForm(
    kind=PoolRequest,
    target=beside("/pooling"),
    body=_vllms,
    read=_pooled,
    fields=frozenset({*_FIELDS, "pooling_task", "user", "input.tokens", "messages"}),
    extra=frozenset(
        {
            "add_generation_prompt",
            "add_special_tokens",
            "cache_salt",
            "chat_template",
            "chat_template_kwargs",
            "continue_final_message",
            "media_io_kwargs",
            "mm_processor_kwargs",
            "padding",
            "priority",
            "request_id",
            "truncate_prompt_tokens",
            "truncation_side",
        }
    ),
    renamed={"pooling_task": "task"},
)
LMDEPLOY = TaskForm(
    kind=PoolRequest,
    target=beside("/pooling"),
    body=_lmdeploys,
    read=_pooled,
    fields=frozenset({"input.tokens"}),
)
