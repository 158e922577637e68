"""The page's style sheets, scripts and icon, in memory, with their entity tags."""

from hashlib import sha256
from pathlib import Path

from msgspec import Struct

_FOLDER = Path(__file__).parent / "static"
_TYPES = {
    "page.css": "text/css; charset=utf-8",
    "views.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "plots.js": "text/javascript; charset=utf-8",
    "chat.js": "text/javascript; charset=utf-8",
    "playground.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "icon-bad.svg": "image/svg+xml",
}


class File(Struct, frozen=True, kw_only=True):
    """tag: an entity tag, with its quotation marks."""

    content: bytes
    media_type: str
    tag: str


def read_files() -> dict[str, File]:
    """Read the files, by name. Called once, when the application is built."""
    return {name: _read(name) for name in _TYPES}


def _read(name: str) -> File:
    content = (_FOLDER / name).read_bytes()
    tag = f'"{sha256(content).hexdigest()[:32]}"'
    return File(content=content, media_type=_TYPES[name], tag=tag)
