"""The differences between two configurations, as text without secrets."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import NoneType
from typing import Final, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import astuple, replace

from strowger_gateway.gateway.audit.event import Change
from strowger_gateway.gateway.config.problems import MASK, PLACEHOLDERS, SHORTEST_SECRET
from strowger_gateway.gateway.config.schema.config import Config, RequestFields
from strowger_gateway.gateway.config.schema.experiment import Experiment, Variant, VariantFields
from strowger_gateway.gateway.config.schema.prompts.section import PromptVersion
from strowger_gateway.gateway.config.sections import Sections
from strowger_gateway.schemas.secret import Secret

_CREDENTIAL: Final = re.compile(r"key|token|secret|passw|auth|credential|cookie", re.IGNORECASE)
"""Names in mappings, such as those of headers, whose values are not shown."""

_USER: Final = re.compile(r"(?<=://)[^/?#\s]*(?=@)")
_QUERY: Final = re.compile(r"([?&][^=&#\s]*=)[^&#\s]+")
_Fields = Mapping[type, frozenset[str]]
"""By the type that has them: a part's section may have fields of the same names."""

_COUNTED: Final[_Fields] = {Config: frozenset({"catalogue"})}
"""Long lists that are not the operator's: only their length is shown."""

_SKIPPED: Final[_Fields] = {
    Config: frozenset({"digest", "hidden", "written"}),
    Experiment: frozenset({"contracts"}),
    PromptVersion: frozenset({"text"}),  # its digest shows the change
    Variant: frozenset({"prompt_text", "prompt_digest"}),
}
"""Computed from other places of the file, which show the change."""

_FLATTENED: Final[_Fields] = {
    Config: frozenset({"sections"}),
    RequestFields: frozenset({"sampling"}),
    VariantFields: frozenset({"sampling"}),
}
"""Fields whose settings are at the level of their parent; see `config.schema.units`."""

_PLAIN: Final = frozenset({str, int, float, bool, NoneType, UnsetType, Secret})
"""Types of most settings, which contain nothing: looking at `type` is faster than `isinstance`."""

_Items = dict[str, object]


def config_changes(old: Config, new: Config) -> tuple[Change, ...]:
    """Return every setting that differs, in the order of the file.

    Elements of lists are known by their `name`, or else by their place.
    """
    shown = Masked((*old.hidden, *new.hidden, *_secrets(old), *_secrets(new)))
    found = _differences(old, new, "", shown)
    return tuple(replace(one, field=shown.text(one.field)) for one in found)


def without_secrets(text: str, *configs: Config) -> str:
    """Return a text without the secrets of the configurations."""
    hidden = [one for config in configs for one in (*config.hidden, *_secrets(config))]
    return Masked(hidden).text(text)


def exposed_secrets(config: Config, secrets: Iterable[str]) -> tuple[Secret, ...]:
    """Return the secrets that are also in settings whose text is shown."""
    texts = set(_texts(config))
    joined = "\n".join(texts)
    return tuple(
        Secret(one)
        for one in sorted(secrets)
        if one in texts or (len(one) >= SHORTEST_SECRET and one in joined)
    )


def credentials_of(config: Config) -> tuple[Secret, ...]:
    """Return all secrets, and the values in mappings whose names say that they are credentials."""
    return (*config.hidden, *_secrets(config), *map(Secret, _credentials(config)))


def masked_by(secrets: Iterable[Secret]) -> Callable[[str], str]:
    """Return a function that masks these secrets in a text."""
    return Masked(secrets).text


def is_credential(name: str) -> bool:
    """Return whether an entry of a mapping, such as a header, is hidden because of its name."""
    return _CREDENTIAL.search(name) is not None


class Masked:
    """Renders values without secrets, also where one is repeated in a plain text."""

    def __init__(self, secrets: Iterable[Secret]) -> None:
        values = {one.reveal() for one in secrets if one.reveal().lower() not in PLACEHOLDERS}
        self._whole = frozenset(values)
        self._by_begin: dict[str, list[str]] = {}
        for one in values:
            if len(one) >= SHORTEST_SECRET:
                self._by_begin.setdefault(one[:SHORTEST_SECRET], []).append(one)

    def text(self, text: str) -> str:
        """Return a text with every secret in it masked."""
        if text in self._whole and text:
            return MASK
        for secret in self._in(text):
            text = text.replace(secret, MASK)
        return _QUERY.sub(rf"\g<1>{MASK}", _USER.sub(MASK, text)) if "://" in text else text

    def _in(self, text: str) -> Sequence[str]:
        """Return the secrets in a text, the longest first.

        Only those are looked for that begin as a part of the text: a configuration may have
        thousands of keys, and as many texts.
        """
        by_begin = self._by_begin
        begins = {
            text[at : at + SHORTEST_SECRET]
            for at in range(len(text) - SHORTEST_SECRET + 1)
            if text[at : at + SHORTEST_SECRET] in by_begin
        }
        found = [one for begin in begins for one in by_begin[begin] if one in text]
        return sorted(found, key=len, reverse=True)

    def value(self, value: object) -> str | None:
        """Return a setting as text; `None` if it is not set."""
        if value is None or value is UNSET or (isinstance(value, Secret) and not value):
            return None
        if isinstance(value, Secret):
            return MASK
        if isinstance(value, str):
            return self.text(value)
        return self.text(msgspec.json.encode(self._plain(value)).decode())

    def _plain(self, value: object) -> object:
        """Return JSON of a value: of a Struct, the settings that differ from their defaults."""
        match value:
            case Secret():
                return MASK
            case Struct():
                return {
                    name: self._plain(one)
                    for name, one in _items(value).items()
                    if not _in(_SKIPPED, value, name)
                    and one is not UNSET
                    and not _is_default(value, name)
                }
            case Mapping():
                return {
                    name: MASK if _CREDENTIAL.search(name) else self._plain(one)
                    for name, one in _named(cast("Mapping[object, object]", value)).items()
                }
            case tuple() | list():
                return [self._plain(one) for one in cast("Sequence[object]", value)]
            case str():
                return self.text(value)
            case _:
                return value


def _differences(old: object, new: object, path: str, shown: Masked) -> Iterator[Change]:
    if old == new:
        return
    before, after = _parts(old), _parts(new)
    if before is None or after is None or type(old) is not type(new):
        yield Change(field=path, old=shown.value(old), new=shown.value(new))
        return
    found = False
    for name in dict.fromkeys((*before, *after)):
        label = path if _in(_FLATTENED, old, name) else _joined(path, name)
        one, other = before.get(name, UNSET), after.get(name, UNSET)
        if _in(_SKIPPED, old, name) or one == other:
            continue
        found = True
        if _in(_COUNTED, old, name):
            yield Change(field=label, old=_count(one), new=_count(other))
        elif _names_credentials(old) and _CREDENTIAL.search(name):
            yield Change(field=label, old=_masked_if_set(one), new=_masked_if_set(other))
        else:
            yield from _differences(one, other, label, shown)
    if not found and list(before) != list(after):
        order = (
            ", ".join(shown.text(name.strip("[]")) for name in names) for names in (before, after)
        )
        yield Change(field=f"{path} (order)", old=next(order), new=next(order))


def _in(fields: _Fields, value: object, name: str) -> bool:
    return name in fields.get(type(value), ())


def _names_credentials(value: object) -> bool:
    """Return whether the names in it are the operator's, as those of headers are."""
    return isinstance(value, Mapping) and not isinstance(value, Sections)


def _parts(value: object) -> _Items | None:
    """Return what a value consists of, by name; `None` for a single setting."""
    match value:
        case Struct():
            return _items(value)
        case Mapping():
            return _named(cast("Mapping[object, object]", value))
        case tuple():
            elements = cast("tuple[object, ...]", value)
            if not all(isinstance(one, Struct) for one in elements):
                return None
            names = [getattr(one, "name", None) for one in elements]
            if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
                names = list(range(len(elements)))
            return {f"[{name}]": one for name, one in zip(names, elements, strict=True)}
        case _:
            return None


def _named(value: Mapping[object, object]) -> _Items:
    """Return the entries of a mapping by text: keys may be numbers, as those of `logit_bias`."""
    return {str(name): one for name, one in value.items()}


def _items(value: Struct) -> _Items:
    return {name: getattr(value, name) for name in value.__struct_fields__}


def _is_default(value: Struct, name: str) -> bool:
    for one in msgspec.structs.fields(value):
        if one.name == name:
            empty = one.default_factory is dict and not getattr(value, name)
            return empty or one.default == getattr(value, name)
    return False


def _secrets(value: object) -> list[Secret]:
    return [one for one in _values(value) if isinstance(one, Secret)]


def _credentials(value: object) -> Iterator[str]:
    for inside in _values(value):
        if type(inside) not in _PLAIN and isinstance(inside, Mapping):
            for name, one in _named(cast("Mapping[object, object]", inside)).items():
                if isinstance(one, str) and one and _CREDENTIAL.search(name):
                    yield one


def _texts(value: object) -> list[str]:
    return [one for one in _values(value) if isinstance(one, str)]


def _values(value: object) -> list[object]:
    """Return a value and everything inside it; the order is of no meaning.

    By a list of what is still to be looked at, not recursively: it is the longest part of reading
    a configuration of thousands of models.
    """
    found = [value]
    for one in found:  # grows on the way
        if type(one) in _PLAIN:
            continue
        if isinstance(one, Struct):
            found += astuple(one)
        elif isinstance(one, tuple | list):
            found += cast("Sequence[object]", one)
        elif isinstance(one, Mapping):
            found += cast("Mapping[str, object]", one).values()
    return found


def _joined(path: str, name: str) -> str:
    return f"{path}{name}" if name.startswith("[") or not path else f"{path}.{name}"


def _masked_if_set(value: object) -> str | None:
    return None if value is UNSET else MASK


def _count(value: object) -> str | None:
    if not isinstance(value, tuple):
        return None
    return f"{len(cast('tuple[object, ...]', value))} rows"
