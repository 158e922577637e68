"""Turn content parts of items into the parts of our messages.

Images, files and audio become parts in OpenAI's chat forms, which every backend that reads such
content understands.
"""

from typing import Final, assert_never

from msgspec import UNSET, Raw

from strowger_gateway.gateway.surfaces.marked_objects import Marks, TypedReader, with_marks
from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.gateway.surfaces.responses.wire import (
    ALLOWED,
    CONTENTS,
    Content,
    InputAudio,
    InputFile,
    InputImage,
    InputText,
    OutputText,
    RefusalText,
)
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import AudioPart, ImagePart, OpaquePart, Part, TextPart

DIALECT: Final = "openai-responses"

_SCHEMES: Final = ("https://", "http://", "data:")
_reader: Final = TypedReader[Content](Content, CONTENTS, ALLOWED)


def read_parts(raws: list[Raw], where: str) -> list[Part]:
    """where: the path of the list. Raises InvalidRequest."""
    return [_read(raw, f"{where}[{at}]") for at, raw in enumerate(raws)]


def _read(raw: Raw, where: str) -> Part:
    found, more = _reader.read(raw, where)
    if isinstance(found, str):
        return OpaquePart(type=found, raw=raw, dialect=DIALECT)
    match found:
        case InputText(text=text) | OutputText(text=text):
            return TextPart(text=text, marks=with_marks(more))
        case RefusalText(refusal=text):
            return TextPart(text=text, marks=with_marks(more))
        case InputImage():
            return _image(found, raw, more, where)
        case InputFile():
            return _file(found, more, where)
        case InputAudio(input_audio=sound):
            return AudioPart(data=sound.data, format=sound.format)
    assert_never(found)


def _image(image: InputImage, raw: Raw, more: Marks, where: str) -> Part:
    """Return an image; one that OpenAI stores only goes to backends of this dialect."""
    if image.image_url is None:
        if image.file_id is None:
            raise InvalidRequest(f"{where}.image_url is required", param=f"{where}.image_url")
        return OpaquePart(type="input_image.file_id", raw=raw, dialect=DIALECT)
    if not image.image_url[:8].lower().startswith(_SCHEMES):
        field = f"{where}.image_url"
        raise InvalidRequest(f"{field} must be an https:, http: or data: URL", param=field)
    detail = UNSET if image.detail is None else image.detail
    return ImagePart(url=image.image_url, detail=detail, marks=with_marks(more))


def _file(file: InputFile, more: Marks, where: str) -> OpaquePart:
    fields = {
        name: value
        for name in ("file_data", "file_url", "file_id", "filename")
        if (value := getattr(file, name)) is not None
    }
    if not fields.keys() - {"filename"}:
        raise InvalidRequest(f"{where}.file_data is required", param=f"{where}.file_data")
    whole: dict[str, object] = {"type": "file", "file": fields, **more}
    return OpaquePart(type="file", raw=Raw(encode(whole)))
