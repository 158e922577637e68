"""One setting of a configuration in force, as text without secrets."""

from typing import Literal

from msgspec import Struct

Origin = Literal["default", "config", "environment", "file", "command_line"]
"""default: the file does not have it. config: written there. environment, file: its text has
references to variables, or to other files. command_line: an option of `strowger serve` replaces it.
"""

Only = Literal["all", "set", "default"]
"""set: those that are not at their default because the file does not have them."""


class Setting(Struct, frozen=True, kw_only=True):
    """path: such as `models[chat].retry.attempts`; entries of lists by their `name`, else by place.

    value, default: as text; null: not set. A secret is `***`, and one that is an address keeps its
    scheme. default: what it would be if the file did not have it.
    line: of the file, from 1; null if the file does not have it. names: variables, or files.
    """

    path: str
    value: str | None
    default: str | None
    origin: Origin
    line: int | None = None
    names: tuple[str, ...] = ()

    @property
    def section(self) -> str:
        """The top-level key that it is under."""
        return self.path.partition(".")[0].partition("[")[0]
