"""Pooling: the body of a request, its reader, and the writer of its answer.

A null counts as absent.

https://docs.vllm.ai/en/latest/models/pooling_models/, the schema in
https://github.com/vllm-project/vllm/blob/main/vllm/entrypoints/pooling/pooling/protocol.py
"""

from typing import Annotated, Final, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from strowger_gateway.gateway.surfaces.base import Headers, Inbound
from strowger_gateway.gateway.surfaces.decoding import (
    MODEL_NAME,
    BodyReader,
    check_whole,
    model_name,
)
from strowger_gateway.gateway.surfaces.openai.messages import read_messages
from strowger_gateway.gateway.surfaces.openai.parse import read_prompts
from strowger_gateway.gateway.surfaces.openai.wire import (
    ALLOWED as OPENAIS,
)
from strowger_gateway.gateway.surfaces.openai.wire import (
    INPUT_NUMBERS,
    Count,
    Model,
    PromptItem,
    Seconds,
)
from strowger_gateway.gateway.surfaces.pooling.render import counts_of
from strowger_gateway.gateway.surfaces.pooling.wire import PooledInput, PooledList
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import Prompt
from strowger_gateway.schemas.tasks.pool import Pooled, PoolRequest
from strowger_gateway.schemas.tasks.task import TaskAnswer

MAX_INPUTS: Final = 10_000
"""Texts, or lists of token ids, of one request."""

Word = Annotated[str, Meta(min_length=1, max_length=64)]

_Given = TypeVar("_Given")

_encode = msgspec.json.Encoder().encode


class PoolWire(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """input: texts or token ids. messages: a conversation instead.

    task: embed, classify, token_embed, token_classify, or what else the model has.
    use_activation: named `activation`, `softmax` and `normalize` by earlier versions of vLLM.
    stream: not true, as the answer is always whole.
    """

    model: Model | None = None
    input: str | tuple[PromptItem, ...] | None = None
    messages: list[Raw] | None = None
    task: Word | None = None
    dimensions: Count | None = None
    encoding_format: Literal["float", "base64"] | None = None
    embed_dtype: Word | None = None
    endianness: Literal["native", "big", "little"] | None = None
    use_activation: bool | None = None
    activation: bool | None = None
    softmax: bool | None = None
    normalize: bool | None = None
    stream: bool | None = None
    user: str | None = None
    timeout: Seconds | None = None


_WORD: Final = "a string of 1 to 64 characters"
_FLAG: Final = "true or false"

ALLOWED: Final[dict[str, str]] = {
    **OPENAIS,
    "model": MODEL_NAME,
    "task": _WORD,
    "encoding_format": '"float" or "base64"',
    "embed_dtype": _WORD,
    "endianness": '"native", "big" or "little"',
    **dict.fromkeys(("use_activation", "activation", "softmax", "normalize", "stream"), _FLAG),
    "timeout": "seconds, a number above 0 and up to 3600",
}

READER: Final = BodyReader(
    PoolWire,
    ALLOWED,
    numbers={"input": (str | tuple[PromptItem, ...] | None, INPUT_NUMBERS["input"][1])},
)


def parse_pool(inbound: Inbound) -> PoolRequest:
    """`POST /v1/pooling`. Raises InvalidRequest."""
    wire, extra = READER.read(inbound.body)
    check_whole(wire.stream)
    if wire.task == "plugin":
        raise InvalidRequest(
            "task: plugin is not served, because each plug-in has its own requests and answers; "
            "send embed, classify, token_embed or token_classify, or call the backend directly",
            param="task",
        )
    inputs, messages = _given(wire)
    return PoolRequest(
        model=model_name(wire.model or inbound.model or None, ""),
        inputs=inputs,
        messages=messages,
        pooling_task=_sent(wire.task),
        dimensions=_sent(wire.dimensions),
        encoding_format=_sent(wire.encoding_format),
        embed_dtype=_sent(wire.embed_dtype),
        endianness=_sent(wire.endianness),
        use_activation=_activation(wire),
        user=_sent(wire.user),
        timeout_s=_sent(wire.timeout),
        extra=extra,
    )


def _given(wire: PoolWire) -> tuple[tuple[Prompt, ...], tuple[Message, ...]]:
    if wire.messages is not None:
        if wire.input is not None:
            raise InvalidRequest("messages: send input or messages, not both", param="messages")
        if not wire.messages:
            raise InvalidRequest("messages must have at least one entry", param="messages")
        return (), read_messages(wire.messages)
    if wire.input is None:
        raise InvalidRequest("input is required", param="input")
    inputs, _ = read_prompts(wire.input, "input")
    if len(inputs) > MAX_INPUTS:
        raise InvalidRequest(f"input must have at most {MAX_INPUTS} entries", param="input")
    return inputs, ()


def _activation(wire: PoolWire) -> bool | UnsetType:
    """Return the activation by any of its names. Raises InvalidRequest if two contradict."""
    names = ("use_activation", "activation", "softmax", "normalize")
    given = {name: flag for name in names if (flag := getattr(wire, name)) is not None}
    if len(set(given.values())) > 1:
        one, other, *_ = given
        raise InvalidRequest(
            f"{other}: is an earlier name of use_activation, and contradicts {one}; send one",
            param=other,
        )
    return next(iter(given.values()), UNSET)


def _sent(value: _Given | None) -> _Given | UnsetType:
    return UNSET if value is None else value


class PoolRenderer:
    """See TaskRenderer. id, created: of the answer."""

    def __init__(self, request: PoolRequest, *, id: str, created: int) -> None:
        self._request = request
        self._id = id
        self._created = created

    def headers(self, backend: str) -> Headers:
        return []

    def answer(self, answer: TaskAnswer) -> bytes:
        assert isinstance(answer, Pooled)
        return _encode(
            PooledList(
                id=f"pool-{self._id}",
                created=self._created,
                model=answer.model or self._request.model,
                data=[
                    PooledInput(index=place, data=data) for place, data in enumerate(answer.results)
                ],
                usage=counts_of(answer.usage),
            )
        )
