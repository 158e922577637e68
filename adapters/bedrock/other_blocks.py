"""Blocks of a Converse answer that are neither text, nor reasoning, nor calls for the client.

Tools that AWS runs, their results, images, and future kinds. Images are returned as the message's
`images`, like those of adapters/generated_images.py; all others are in `bedrock_blocks`, in the
format of a complete answer.
https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ContentBlock.html
"""

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Raw, Struct

from strowger_gateway.adapters.generated_images import IMAGES, Image, image_of
from strowger_gateway.adapters.json_objects import NULL, UNREADABLE, read_list, read_object

BLOCKS: Final = "bedrock_blocks"
READ: Final = frozenset({"citationsContent", "reasoningContent", "text"})
"""Kinds of blocks that become events. So does a `toolUse`, unless AWS runs the tool."""


class _Source(Struct, frozen=True, kw_only=True):
    bytes: str = ""


class _Picture(Struct, frozen=True, kw_only=True):
    format: str = ""
    source: _Source | None = None
    error: Raw = NULL


_picture = msgspec.json.Decoder(_Picture).decode
_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode


class OtherBlocks:
    """The other blocks of one answer, by index. Raises one of `UNREADABLE` for invalid JSON."""

    def __init__(self) -> None:
        self._kinds: dict[int, str] = {}
        self._pieces: dict[int, list[Raw]] = {}

    def __len__(self) -> int:
        """Return the number of pieces stored."""
        return sum(map(len, self._pieces.values()))

    def __contains__(self, block: int) -> bool:
        return block in self._kinds

    def add(self, block: int, kind: str, value: Raw) -> None:
        """Add a complete block, its start, or a piece, which may come without a start.

        A block has one kind; pieces of another kind are added to it nevertheless.
        """
        self._kinds.setdefault(block, kind)
        self._pieces.setdefault(block, []).append(value.copy())

    def fields(self) -> dict[str, Raw]:
        """Return the message's fields, none if there were no such blocks."""
        images: list[Image] = []
        others: list[Mapping[str, Raw]] = []
        for block in sorted(self._kinds):
            kind, pieces = self._kinds[block], self._pieces[block]
            image = _image(pieces, len(images)) if kind == "image" else None
            if image is None:
                others.append({kind: _whole(kind, pieces)})
            else:
                images.append(image)
        found: dict[str, Raw] = {}
        if images:
            found[IMAGES] = Raw(_encode(images))
        if others:
            found[BLOCKS] = Raw(_encode(others))
        return found


def _image(pieces: Iterable[Raw], index: int) -> Image | None:
    """Return `None` for an image without bytes: stored in S3, or not generated."""
    form, data = "", list[str]()
    for raw in pieces:
        try:
            piece = _picture(raw)
        except UNREADABLE:
            return None
        if piece.error != NULL:
            return None
        form = piece.format or form
        data += [piece.source.bytes] if piece.source and piece.source.bytes else []
    joined = joined_base64(data)
    return image_of(f"image/{form}", joined, index) if form and joined else None


def joined_base64(pieces: list[str]) -> str:
    """Join pieces that are base64 each; "" if one is not base64."""
    if len(pieces) < 2:
        return "".join(pieces)
    try:
        return b64encode(b"".join([b64decode(piece) for piece in pieces])).decode()
    except NotBase64:
        return ""


def _whole(kind: str, pieces: list[Raw]) -> Raw:
    """Join texts, concatenate lists (a result's pieces are its content), replace others."""
    fields: dict[str, Raw] = {}
    texts: dict[str, list[str]] = {}
    content: list[Raw] = []
    for piece in pieces:
        if bytes(memoryview(piece)[:1]) == b"[":
            content += read_list(piece)
            continue
        if bytes(memoryview(piece)[:1]) != b"{":
            return piece if len(pieces) == 1 else Raw(_encode(pieces))
        for name, raw in read_object(piece).items():
            if bytes(memoryview(raw)[:1]) == b'"':
                texts.setdefault(name, []).append(_text(raw))
            else:
                fields[name] = raw
    whole: dict[str, object] = {name: "".join(each) for name, each in texts.items()}
    whole |= fields
    if content:
        whole["content"] = content
    if kind == "toolUse" and isinstance(whole.get("input"), str):
        whole["input"] = _input(str(whole["input"]))
    return Raw(_encode(whole))


def _input(text: str) -> Raw | str:
    """Return the object of a call's streamed arguments, or the text if it was cut off."""
    try:
        return Raw(_encode(read_object(text or "{}")))
    except UNREADABLE:
        return text
