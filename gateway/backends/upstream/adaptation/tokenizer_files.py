"""The files next to a tokenizer.json: special tokens, and the chat template.

They are the ones that transformers writes: tokenizer_config.json, special_tokens_map.json and
chat_template.jinja; each may be missing.
"""

from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from strowger_gateway.schemas.errors import InvalidConfig

TOKENIZER = "tokenizer.json"

NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
"""Special tokens that templates may read by these names."""


class _Token(Struct, frozen=True, kw_only=True):
    content: str


class _NamedTemplate(Struct, frozen=True, kw_only=True):
    name: str
    template: str


_Spelling = str | _Token | None


class _Special(Struct, frozen=True, kw_only=True):
    bos_token: _Spelling = None
    eos_token: _Spelling = None
    unk_token: _Spelling = None
    sep_token: _Spelling = None
    pad_token: _Spelling = None
    cls_token: _Spelling = None
    mask_token: _Spelling = None


class _Config(_Special, frozen=True, kw_only=True):
    chat_template: str | list[_NamedTemplate] | None = None


class TokenizerFiles(Struct, frozen=True, kw_only=True):
    """special: spellings by name (`eos_token`). template: source, "" if there is none."""

    special: dict[str, str]
    template: str


_File = TypeVar("_File", bound=Struct)


def tokenizer_file(path: Path) -> Path:
    """Return the tokenizer.json for a path: the file itself, or the one in a folder."""
    return path / TOKENIZER if path.is_dir() else path


def read_tokenizer_files(file: Path) -> TokenizerFiles:
    """Raise InvalidConfig for a file that exists and is unreadable."""
    folder = file.parent
    config = _read(folder / "tokenizer_config.json", _Config) or _Config()
    others = _read(folder / "special_tokens_map.json", _Special) or _Special()
    special: dict[str, str] = {}
    for name in NAMES:
        spelling: _Spelling = getattr(config, name) or getattr(others, name)
        if spelling is not None:
            special[name] = spelling if isinstance(spelling, str) else spelling.content
    return TokenizerFiles(special=special, template=_template(folder, config))


def _template(folder: Path, config: _Config) -> str:
    """Return the template: a separate file wins, as in transformers; of several the default one."""
    file = folder / "chat_template.jinja"
    if file.exists():
        return _text(file).decode()
    inside = config.chat_template
    if isinstance(inside, list):
        named = {one.name: one.template for one in inside}
        return named.get("default", "")
    return inside or ""


def _read(file: Path, kind: type[_File]) -> _File | None:
    if not file.exists():
        return None
    try:
        return msgspec.json.decode(_text(file), type=kind)
    except msgspec.DecodeError as exc:
        raise InvalidConfig((f"{file}: {exc}",)) from exc


def _text(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as exc:
        raise InvalidConfig((f"{file}: cannot be read: {exc.strerror}",)) from exc
