"""The prompts of the configuration and of the store together, as operators see them."""

from collections.abc import Mapping, Sequence
from difflib import unified_diff
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.config.prompts.template import InvalidTemplate, parse_template
from strowger_gateway.gateway.config.schema.prompts.section import Prompt
from strowger_gateway.gateway.content.prompts.text_rows import StoredText

_CONTEXT: Final = 3


class VersionView(Struct, frozen=True, kw_only=True):
    """One text of one version.

    fields:    that need a value; optional: that have a default.
    current:   the configuration has this text. default: for requests that name no version.
    first_seen, last_seen: of gateways that had it, Unix seconds; `None` if it is not recorded yet,
               or there is no store.
    """

    version: str
    digest: str
    text: str
    fields: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    current: bool = False
    default: bool = False
    first_seen: float | None = None
    last_seen: float | None = None


class PromptView(Struct, frozen=True, kw_only=True):
    """A prompt. removed: the configuration does not have it any more."""

    name: str
    removed: bool
    versions: tuple[VersionView, ...]

    def find(self, version: str) -> VersionView | None:
        """Return a version by its name, or by a digest; the default one for "".

        Of several texts of a version, the one of the configuration, or else the one that a gateway
        had last.
        """
        if version:
            found = [one for one in self.versions if version in (one.version, one.digest)]
            first = next((one for one in found if one.current), None)
        else:
            found = list(self.versions)
            first = next((one for one in found if one.default), None)
        return first or max(found, key=lambda one: one.last_seen or 0.0, default=None)


def prompt_views(prompts: Sequence[Prompt], stored: Sequence[StoredText]) -> tuple[PromptView, ...]:
    """Return all prompts: those of the configuration in its order, then those removed from it.

    Versions of the configuration come in its order, after texts that only the store has.
    """
    known: dict[str, list[StoredText]] = {}
    for one in stored:
        known.setdefault(one.prompt, []).append(one)
    found = [_view(prompt, known.pop(prompt.name, [])) for prompt in prompts]
    for name, texts in known.items():
        versions = tuple(_stored(one) for one in texts)
        found.append(PromptView(name=name, removed=True, versions=versions))
    return tuple(found)


def difference(one: VersionView, other: VersionView, name: str) -> list[str]:
    """Return the lines of a unified diff of two texts; [] if they are the same."""
    return list(
        unified_diff(
            one.text.splitlines(),
            other.text.splitlines(),
            f"{name}@{one.version} ({one.digest})",
            f"{name}@{other.version} ({other.digest})",
            n=_CONTEXT,
            lineterm="",
        )
    )


def _view(prompt: Prompt, stored: Sequence[StoredText]) -> PromptView:
    seen: Mapping[tuple[str, str], StoredText] = {(one.version, one.digest): one for one in stored}
    current = [(one.name, one.digest) for one in prompt.versions]
    versions = [_stored(one) for place, one in seen.items() if place not in current]
    for one in prompt.versions:
        known = seen.get((one.name, one.digest))
        fields, optional = _fields(one.text)
        versions.append(
            VersionView(
                version=one.name,
                digest=one.digest,
                text=one.text,
                fields=fields,
                optional=optional,
                current=True,
                default=one.name == prompt.default_name,
                first_seen=None if known is None else known.first_seen,
                last_seen=None if known is None else known.last_seen,
            )
        )
    return PromptView(name=prompt.name, removed=False, versions=tuple(versions))


def _stored(one: StoredText) -> VersionView:
    fields, optional = _fields(one.text)
    return VersionView(
        version=one.version,
        digest=one.digest,
        text=one.text,
        fields=fields,
        optional=optional,
        first_seen=one.first_seen,
        last_seen=one.last_seen,
    )


def _fields(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the required and the optional fields; none of a text that is no template any more."""
    try:
        found = parse_template(text)
    except InvalidTemplate:  # stored by a version of this program with another language
        return (), ()
    return found.required, tuple(found.defaults)
