"""Output items as JSON: messages with their parts, reasoning, and calls of tools."""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import DecodeError, Struct

from strowger_gateway.gateway.surfaces.openai.envelope import chat_logprobs, encode
from strowger_gateway.gateway.surfaces.responses.namespaces import OwnTool
from strowger_gateway.schemas.events import TokenLogprob
from strowger_gateway.schemas.measured_json import kind_of_json

COMPLETED: Final = b"completed"
INCOMPLETE: Final = b"incomplete"
IN_PROGRESS: Final = b"in_progress"


class _Custom(Struct):
    """The arguments of the function that stands for a custom tool: `INPUT`."""

    input: str


_custom: Final = msgspec.json.Decoder(_Custom)


def logprobs_json(logprobs: Sequence[TokenLogprob]) -> bytes:
    return encode(chat_logprobs(logprobs)) if logprobs else b"[]"


def text_part(text: bytes, logprobs: bytes = b"[]", cited: Sequence[bytes] = ()) -> bytes:
    """text, logprobs, and each annotation in cited: JSON."""
    annotations = b",".join(cited)
    return b'{"type":"output_text","text":%b,"annotations":[%b],"logprobs":%b}' % (
        text,
        annotations,
        logprobs,
    )


def refusal_part(text: bytes) -> bytes:
    """text: JSON."""
    return b'{"type":"refusal","refusal":%b}' % text


def message(id: bytes, parts: Sequence[bytes], status: bytes) -> bytes:
    return b'{"id":"%b","type":"message","status":"%b","role":"assistant","content":[%b]}' % (
        id,
        status,
        b",".join(parts),
    )


def thinking_part(text: bytes, *, summarised: bool) -> bytes:
    """text: JSON."""
    kind = b"summary_text" if summarised else b"reasoning_text"
    return b'{"type":"%b","text":%b}' % (kind, text)


def reasoning(id: bytes, text: str, encrypted: str, *, summarised: bool, status: bytes) -> bytes:
    """summarised: the text goes where clients look for summaries."""
    part = thinking_part(encode(text), summarised=summarised) if text else b""
    return b"".join(
        (
            b'{"id":"%b","type":"reasoning","status":"%b","summary":[' % (id, status),
            part if summarised else b"",
            b"]" if summarised or not part else b'],"content":[%b]' % part,
            b',"encrypted_content":' + encode(encrypted) if encrypted else b"",
            b"}",
        )
    )


def function_call(id: bytes, call_id: str, tool: OwnTool, arguments: bytes, status: bytes) -> bytes:
    """arguments: a JSON string that holds JSON."""
    return (
        b'{"id":"%b","type":"function_call","status":"%b","call_id":%b,"name":%b,"arguments":%b}'
    ) % (id, status, encode(call_id), _named(tool), arguments)


def custom_call(id: bytes, call_id: str, tool: OwnTool, given: bytes, status: bytes) -> bytes:
    """given: the tool's input, a JSON string."""
    return (
        b'{"id":"%b","type":"custom_tool_call","status":"%b","call_id":%b,"name":%b,"input":%b}'
    ) % (id, status, encode(call_id), _named(tool), given)


def _named(tool: OwnTool) -> bytes:
    """Return the value of `name`, and the member `namespace` if there is one."""
    if not tool.namespace:
        return encode(tool.name)
    return b'%b,"namespace":%b' % (encode(tool.name), encode(tool.namespace))


def custom_input(arguments: str) -> str:
    """Return the text in the arguments of the function that stands for a custom tool.

    Arguments of another form are the input themselves: the model did not keep to the function.
    """
    if not is_complete(arguments):
        return arguments
    try:
        return _custom.decode(arguments).input
    except (DecodeError, RecursionError):
        return arguments


def is_complete(arguments: str) -> bool:
    """Return whether the arguments are a whole object."""
    return kind_of_json(arguments) == "{"
