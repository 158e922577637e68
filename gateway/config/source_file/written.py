"""The file as it was read: what a setting's line and its references are found in."""

from collections.abc import Mapping
from typing import final

from msgspec import Struct


@final
class Written:
    """Kept by the process that has read the file; other processes get NOT_WRITTEN.

    It equals all others, because where a setting is written changes nothing: a file in which only
    comments have changed is an equal configuration.

    file:       its name, as in messages.
    text:       its text, with whatever secrets it holds.
    declared:   the configuration as the file declares it, without computed rows and replicas.
    env:        the environment that its references were resolved in.
    overridden: paths of the settings that the command line has replaced.
    """

    __slots__ = ("declared", "env", "file", "overridden", "text")

    def __init__(
        self,
        *,
        file: str,
        text: str,
        declared: Struct | None,
        env: Mapping[str, str],
        overridden: tuple[str, ...] = (),
    ) -> None:
        self.file = file
        self.text = text
        self.declared = declared
        self.env = env
        self.overridden = overridden

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Written)

    def __hash__(self) -> int:
        return hash(Written)

    def __repr__(self) -> str:
        return f"Written({self.file!r})"


NOT_WRITTEN = Written(file="", text="", declared=None, env={})
