"""Forms of content parts that OpenAI refuses, though it is clear what they say.

A file without a name, a document of Anthropic's with settings of its own, a text as a file, and an
image whose address stands where an object with the address should.
https://platform.openai.com/docs/api-reference/chat/create#chat-create-messages
"""

import binascii
from base64 import b64decode
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import UNSET, DecodeError, Raw, Struct
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rewriting import (
    each_message,
    json_of,
    with_content,
    with_members,
)
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired
from strowger_gateway.schemas.content_facts import IMAGES, OPAQUE
from strowger_gateway.schemas.messages import ImagePart, Message, OpaquePart, Part, TextPart
from strowger_gateway.schemas.requests import ChatRequest, Request

NAMES: Final = {"application/pdf": "document.pdf"}
"""Media type -> the name of a file that has none."""

_OTHER_NAME: Final = "document"
_OF_ANTHROPIC: Final = ("citations", "context")
"""How Anthropic reads a document."""

_STRING: Final = b'"'
_fields: Final = msgspec.json.Decoder(dict[str, Raw])


class _File(Struct):
    file_data: str = ""
    filename: str | None = None


class _Part(Struct):
    file: _File


_file: Final = msgspec.json.Decoder(_Part).decode


def _each_part(change: Callable[[Part], Part]) -> Callable[[Message], Message]:
    def changed(one: Message) -> Message:
        if not isinstance(one.content, tuple):
            return one
        parts = tuple([change(part) for part in one.content])
        if all(new is old for new, old in zip(parts, one.content, strict=True)):
            return one
        return with_content(one, parts)

    return changed


def _formed(part: Part) -> Part:
    """Return a file with a name and without Anthropic's settings; a text as a text."""
    if not isinstance(part, OpaquePart) or part.type != "file" or part.dialect:
        return part
    try:
        file = _file(part.raw).file
    except (DecodeError, RecursionError):
        return part
    head, _, data = file.file_data.partition(",")
    kind = head.lower().removeprefix("data:").partition(";")[0]
    if kind.startswith("text/") and head.lower().endswith(";base64"):
        try:
            text = b64decode(data, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            return part
        return TextPart(text=f"{file.filename or _OTHER_NAME}:\n{text}")
    raw = part.raw
    if not file.filename and file.file_data:
        named = with_members(
            _fields.decode(raw)["file"], {"filename": NAMES.get(kind, _OTHER_NAME)}
        )
        raw = with_members(raw, {"file": named})
    if any(name in _fields.decode(raw) for name in _OF_ANTHROPIC):
        raw = with_members(raw, dict.fromkeys(_OF_ANTHROPIC, UNSET))
    return part if raw is part.raw else replace(part, raw=raw)


_formed_parts: Final = _each_part(_formed)


def _with_formed_files(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest):
        return None
    found = each_message(request, _formed_parts)
    changed = ("messages[].content[].file",)
    return None if found is None else Repaired(request=found, changed=changed)


_OF_TEXT: Final = OpaquePart(
    type="file",
    raw=Raw(b'{"type":"file","file":{"file_data":"data:text/plain;base64,SGk="}}'),
)

FILES: Final = Repair(
    name="file_form",
    about="names a file that has no name, and sends a file of text as text",
    source="https://github.com/openai/openai-agents-python/issues/1513",
    facts=OPAQUE,
    apply=_with_formed_files,
    example=ChatRequest(
        "m",
        (
            Message(
                role="user",
                content=(
                    OpaquePart(
                        type="file",
                        raw=Raw(
                            b'{"type":"file","file":{"file_data":'
                            b'"data:application/pdf;base64,JVBERi0="},"citations":{"enabled":true}}'
                        ),
                    ),
                    _OF_TEXT,
                ),
            ),
        ),
    ),
)

TEXT_FILES: Final = replace(
    FILES,
    about="sends a file of text as text",
    example=ChatRequest("m", (Message(role="user", content=(_OF_TEXT,)),)),
)
"""Of a vendor that reads no other files."""


def _as_object(part: Part) -> Part:
    if not isinstance(part, ImagePart) or not isinstance(part.raw, Raw):
        return part
    address = _fields.decode(part.raw).get("image_url")
    if address is None or bytes(memoryview(address)[:1]) != _STRING:
        return part
    return replace(part, raw=with_members(part.raw, {"image_url": {"url": part.url}}))


_object_parts: Final = _each_part(_as_object)


def _with_objects(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest):
        return None
    found = each_message(request, _object_parts)
    changed = ("messages[].content[].image_url",)
    return None if found is None else Repaired(request=found, changed=changed)


IMAGE_ADDRESS: Final = Repair(
    name="image_address",
    about="puts an image's bare address into an object",
    source="https://github.com/openai/openai-python/issues/2074",
    facts=IMAGES,
    apply=_with_objects,
    example=ChatRequest(
        "m",
        (
            Message(
                role="user",
                content=(
                    ImagePart(
                        url="https://example.org/a.png",
                        raw=json_of(
                            {"type": "image_url", "image_url": "https://example.org/a.png"}
                        ),
                    ),
                ),
            ),
        ),
    ),
)
