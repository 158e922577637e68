"""What setting up changes in each file, and how it is taken back."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path as FilePath

from msgspec import Struct

from strowger_gateway.gateway.cli.agents import files
from strowger_gateway.gateway.cli.agents.documents.document import (
    Path,
    Unchangeable,
    Value,
    are_same,
    changed,
    dotted,
    is_empty,
    value_at,
)
from strowger_gateway.gateway.cli.agents.documents.formats import FORMATS
from strowger_gateway.gateway.cli.agents.tools.tool import (
    AgentTarget,
    At,
    SettingsFile,
    SettingsPlace,
    Tool,
)
from strowger_gateway.gateway.cli.config_loading import Faults

ANY = AgentTarget(url="http://127.0.0.1", model="any")
"""Paths of files and settings do not depend on the target."""


class FileChange(Struct, frozen=True, kw_only=True):
    """One file. before: its text now, `None` without a file. after: `None` for no file.

    original: what was there before the first set-up, if its copy is kept. names: what changes.
    """

    file: SettingsFile
    before: str | None
    after: str | None
    original: str | None = None
    names: tuple[str, ...] = ()


def planned(tool: Tool, target: AgentTarget, place: SettingsPlace) -> tuple[FileChange, ...]:
    """Return what each file becomes. Raises Faults for one that cannot be changed."""
    configured = found_at(tool, place, tool.url_at) is not None
    return tuple(_planned(one, configured=configured) for one in tool.files(target, place))


def snippet(file: SettingsFile) -> str:
    """Return the settings as a file of their own."""
    return _applied(file, "", {}, [])


def write(changes: Sequence[FileChange]) -> None:
    """Write what is different, with a copy of what was there. Raises Faults."""
    for one in changes:
        if one.after is not None and one.after != one.before:
            files.refuse_protected(one.file.path)
    for one in changes:
        if one.after is None or one.after == one.before:
            continue
        kept = files.backup_of(one.file.path)
        if one.before is not None and one.original is not None and not kept.exists():
            files.write(kept, one.original)
        files.write(one.file.path, one.after)


def undone(tool: Tool, place: SettingsPlace) -> tuple[FileChange, ...]:
    """Return what each file becomes without the settings. Raises Faults."""
    configured = found_at(tool, place, tool.url_at) is not None
    found: list[FileChange] = []
    for file in tool.files(ANY, place):
        before = files.text_of(file.path)
        original = files.text_of(files.backup_of(file.path))
        if before is None or not (configured or original is not None or file.whole):
            continue
        if file.whole:
            found.append(FileChange(file=file, before=before, after=None))
            continue
        after, names = _undone(file, before, original)
        found.append(
            FileChange(file=file, before=before, after=after, original=original, names=names)
        )
    return tuple(found)


def write_undone(changes: Sequence[FileChange]) -> None:
    """Raises Faults."""
    for one in changes:
        if one.after != one.before:
            files.refuse_protected(one.file.path)
    for one in changes:
        if one.after is None:
            files.remove(one.file.path)
        elif one.after != one.before:
            files.write(one.file.path, one.after)
        files.remove(files.backup_of(one.file.path))


def path_of(tool: Tool, place: SettingsPlace) -> FilePath:
    """Return the file that has the address."""
    return tool.files(ANY, place)[tool.url_at.file].path


def found_at(tool: Tool, place: SettingsPlace, at: At) -> str | None:
    """Return a text that the settings have; `None` without one. Raises Faults."""
    file = tool.files(ANY, place)[at.file]
    text = files.text_of(file.path)
    if text is None:
        return None
    try:
        value = value_at(FORMATS[file.form].read(text), at.path)
    except Unchangeable as exc:
        raise Faults((f"{file.path}: {exc}",)) from exc
    fits = isinstance(value, str) and value.startswith(at.before) and value.endswith(at.after)
    return str(value)[len(at.before) : len(str(value)) - len(at.after)] if fits else None


def _planned(file: SettingsFile, *, configured: bool) -> FileChange:
    before = files.text_of(file.path)
    if file.whole:
        return FileChange(file=file, before=before, after=snippet(file))
    kept = files.text_of(files.backup_of(file.path))
    original = kept if kept is not None or configured else before
    form, text, names = FORMATS[file.form], before or "", list[str]()
    try:
        text = _applied(file, text, form.read(original or ""), names)
    except Unchangeable as exc:
        remedy = "nothing is written; `--print` shows the settings"
        raise Faults((f"{file.path}: {exc}; {remedy}",)) from exc
    return FileChange(file=file, before=before, after=text, original=original, names=tuple(names))


def _applied(file: SettingsFile, text: str, first: Value, names: list[str]) -> str:
    """Return the text with the settings. names: gets what changes. Raises Unchangeable."""
    form = FORMATS[file.form]
    for one in file.settings:
        now = value_at(form.read(text), one.path)
        if one.default and now is not None:
            continue
        value = value_at(first, one.path) if one.value is None else one.value
        for path, wanted in _differences(one.path, value, now):
            names.append(dotted(path))
            text = changed(form, text, path, wanted)
    return text


def _differences(path: Path, value: Value, now: Value) -> Iterator[tuple[Path, Value]]:
    """Yield what has to change; `None` for what goes.

    An entry that is there keeps what it has besides: a user's own header, say, or another model.
    """
    if isinstance(value, Mapping) and isinstance(now, Mapping) and now:
        for name, member in value.items():
            yield from _differences((*path, name), member, now.get(name))
    elif (wanted := _without_nothing(value)) != now:
        yield path, wanted


def _differences_back(path: Path, first: Value, now: Value) -> Iterator[tuple[Path, Value]]:
    """Yield what has to change for a value to be the first one again."""
    if isinstance(first, Mapping) and isinstance(now, Mapping) and first:
        for name in {**first, **now}:
            yield from _differences_back((*path, name), first.get(name), now.get(name))
    elif first != now:
        yield path, first


def _without_nothing(value: Value) -> Value:
    if not isinstance(value, Mapping):
        return value
    return {name: _without_nothing(one) for name, one in value.items() if one is not None}


def _undone(
    file: SettingsFile, before: str, original: str | None
) -> tuple[str | None, tuple[str, ...]]:
    form, text, names = FORMATS[file.form], before, list[str]()
    try:
        first = form.read(original or "")
        own = [one.path for one in file.settings if not one.default]
        lasting = [one.path for one in file.settings if one.default]
        for path in own:
            text = _restored(file, text, first, path, names)
        bare = text
        for path in lasting:
            bare = _restored(file, bare, first, path, [])
        rest = form.read(bare)
        if original is not None and are_same(rest, first):
            return original, tuple(names)
        if is_empty(rest):
            return (None if original is None else bare), tuple(names)
    except Unchangeable as exc:
        raise Faults(
            (f"{file.path}: {exc}; its copy of before is {files.backup_of(file.path)}",)
        ) from exc
    return text, tuple(names)


def _restored(file: SettingsFile, text: str, first: Value, path: Path, names: list[str]) -> str:
    """Give a path its first value, and drop what is empty around it and was not there."""
    form = FORMATS[file.form]
    data, wanted = form.read(text), value_at(first, path)
    for one, value in _differences_back(path, wanted, value_at(data, path)):
        names.append(dotted(one))
        text = changed(form, text, one, value)
    for depth in range(len(path) - 1, 0, -1):
        around = path[:depth]
        if value_at(form.read(text), around) in ({}, []) and value_at(first, around) is None:
            text = changed(form, text, around, None)
    return text
