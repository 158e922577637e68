"""The shape of `prompts`: templates with named fields, in files, each with its versions."""

from typing import Annotated

from msgspec import Meta, Struct

from strowger_gateway.gateway.config.schema.units import Count, Path

PromptName = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
        description="up to 64 letters, digits and . - _, starting with a letter or digit",
    ),
]
"""The name of a prompt, or of a version."""

VersionName = PromptName | Annotated[int, Meta(ge=0)]
"""A number in the file is the text of its digits."""


class PromptVersion(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One text of a prompt.

    text:   of the file, with `\\n` at the end of its lines. digest: twelve hexadecimal digits of
            its hash. Both are "" until the file has been read, and if it cannot be.
    """

    version: VersionName
    file: Path
    text: Annotated[str, Meta(extra={"resolved": True})] = ""
    digest: Annotated[str, Meta(extra={"resolved": True})] = ""

    @property
    def name(self) -> str:
        return str(self.version)


class Prompt(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A template with named fields that requests and variants of experiments name.

    default:       the version of requests that name none; `None`: the only one.
    longest_value: characters of the value of one field.
    """

    name: PromptName
    versions: tuple[PromptVersion, ...]
    default: VersionName | None = None
    longest_value: Count = 100_000

    def version(self, name: str) -> PromptVersion | None:
        """Return the version of this name, or `None`."""
        return next((one for one in self.versions if one.name == name), None)

    @property
    def default_name(self) -> str:
        """The name of the default version; "" if several versions have none."""
        if self.default is not None:
            return str(self.default)
        return self.versions[0].name if len(self.versions) == 1 else ""
