"""The places and values of request fields in OpenAI's dialect, or as in schemas/fields.py.

For each field of adapters/conformance/sample_requests.py, the place in a body and the JSON there; a
field that OpenAI's dialect lacks is at the top level under its own name.
https://github.com/openai/openai-openapi
"""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec
from msgspec import Raw

from strowger_gateway.adapters.conformance.sample_requests import VALUES
from strowger_gateway.schemas.fields import Task

IMAGE = "messages[].content[].image_url"

WORDS: Mapping[str, tuple[str, object]] = MappingProxyType(
    {
        "input.images": (
            "input[]",
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
        ),
        "messages": ("messages[]", {"role": "user", "content": "hello"}),
        "conversations": ("input[]", [{"role": "user", "content": "hello"}]),
        "input.pairs": ("inputs", [["hello", "bye"], ["bye"]]),
        "tools": (
            "tools[]",
            {
                "type": "function",
                "function": {
                    "name": "look",
                    "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
                },
            },
        ),
        "tools.opaque": ("tools[]", {"type": "web_search"}),
        "tool_choice": ("tool_choice", "required"),
        "response_format": (
            "response_format",
            {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": {"type": "object"}},
            },
        ),
        "messages.image": (IMAGE, {"url": "data:image/png;base64,iVBORw0KGgo="}),
        "messages.remote_image": (IMAGE, {"url": "https://example.com/cat.png"}),
        "messages.audio": ("messages[].content[].input_audio", {"data": "AAAA", "format": "wav"}),
        "messages.opaque": (
            "messages[].content[].file",
            {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="},
        ),
        "prompt.tokens": ("prompt", [1, 2, 3]),
        "prompt.batch": ("prompt", ["hello", "bye"]),
        "input.tokens": ("input", [1, 2, 3]),
    }
)
"""Fields that are not sent under their own name and with their plain value."""

COUNTED: Mapping[str, tuple[str, object]] = MappingProxyType(
    {"logprobs": ("logprobs", 0), "top_logprobs": ("logprobs", 3)}
)
"""In completions, the number of log probabilities requested."""


def openai_field(task: Task, field: str) -> tuple[str, object]:
    """Return the place and the JSON value of the field's sample."""
    if task == "completion" and field in COUNTED:
        return COUNTED[field]
    if field in WORDS:
        return WORDS[field]
    value = VALUES[field]
    if isinstance(value, Raw):
        return field, msgspec.json.decode(value)
    return field, msgspec.json.decode(msgspec.json.encode(value))
