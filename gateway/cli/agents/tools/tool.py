"""What the command knows of a coding agent: its files, and what they say for a gateway's model."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, Protocol

from msgspec import Struct

from strowger_gateway.gateway.cli.agents.documents.document import FileFormatName, ListItem, Value
from strowger_gateway.gateway.cli.agents.documents.document import Path as ValuePath

Dialect = Literal["messages", "responses", "chat", "gemini"]
KEY: Final = "STROWGER_API_KEY"
"""The variable with the key, for agents that let their settings name one."""


class TokenPrice(Struct, frozen=True, kw_only=True):
    """US dollars per token. `None`: the gateway does not know, or charges no other price."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


class AgentTarget(Struct, frozen=True, kw_only=True):
    """What an agent is pointed at. url: the gateway's, without /v1. model: its name there.

    context:    tokens of a prompt and its answer together; `None`: the gateway does not know.
    max_output: tokens of an answer; `None`: it does not know.
    inputs:     what the model reads besides text: "image", "audio", "video", "file".
    price:      what the gateway charges at most; `None`: unknown.
    secret:     what the settings contain in place of a reference to a variable; "" for a reference.
    """

    url: str
    model: str
    context: int | None = None
    max_output: int | None = None
    inputs: tuple[str, ...] = ()
    price: TokenPrice | None = None
    secret: str = ""


class SettingsPlace(Struct, frozen=True, kw_only=True):
    """Where settings are. home: the user's. project: a folder, `None` for the user's own settings.

    env: variables that move an agent's folder.
    """

    home: Path
    project: Path | None = None
    env: Mapping[str, str] = {}

    def folder(self, name: str, variable: str = "") -> Path:
        """Return a folder of the home, which a variable may move, or of the project."""
        if self.project is not None:
            return self.project / name
        moved = self.env.get(variable, "") if variable else ""
        return Path(moved).absolute() if moved else self.home / name

    def config(self, name: str) -> Path:
        """Return a folder of XDG's configuration folder, or the project itself."""
        if self.project is not None:
            return self.project
        base = self.env.get("XDG_CONFIG_HOME", "")
        return (Path(base) if base else self.home / ".config") / name


class AgentSetting(Struct, frozen=True):
    """value: `None` for what was there before, because nothing is known of it. An object joins one
    that is there; its members that are `None` go.

    default: only where there is nothing yet.
    """

    path: ValuePath
    value: Value
    default: bool = False


class SettingsFile(Struct, frozen=True, kw_only=True):
    """One file of an agent. whole: it has nothing but these settings; else they join what is there.

    holds_secret: the settings contain the key itself.
    """

    path: Path
    form: FileFormatName
    settings: tuple[AgentSetting, ...]
    whole: bool = False
    holds_secret: bool = False


class At(Struct, frozen=True, kw_only=True):
    """Where a value is found again. file: its index. before, after: what the agent wants around
    it.
    """

    path: ValuePath
    file: int = 0
    before: str = ""
    after: str = ""


class Tool(Protocol):
    """A coding agent.

    name:         as arguments name it. program: its command.
    dialect:      the API of the gateway that it uses.
    key_variable: the variable from which it reads the key.
    ca_variable:  the one that names a file with authorities; "" if there is none.
    overriding:   variables that win over its settings; in a shell that has them, these do nothing.
    project:      whether it reads these settings from a project, too.
    url_at, model_at, key_at: where the settings have the address, the model and a stored key.
    """

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def program(self) -> str: ...
    @property
    def dialect(self) -> Dialect: ...
    @property
    def key_variable(self) -> str: ...
    @property
    def ca_variable(self) -> str: ...
    @property
    def overriding(self) -> Sequence[str]: ...
    @property
    def project(self) -> bool: ...
    @property
    def url_at(self) -> At: ...
    @property
    def model_at(self) -> At: ...
    @property
    def key_at(self) -> At: ...

    def files(self, target: AgentTarget, place: SettingsPlace) -> tuple[SettingsFile, ...]:
        """Return its settings for a target. Paths in them do not depend on the target."""
        ...

    def notes(self, target: AgentTarget) -> Sequence[str]:
        """Return what else a user must know."""
        ...


def existing(folder: Path, *names: str) -> Path:
    """Return the first of these files that is there, or the last."""
    return next((folder / name for name in names if (folder / name).exists()), folder / names[-1])


def set_values(
    values: Mapping[str | tuple[str | ListItem, ...], Value],
) -> tuple[AgentSetting, ...]:
    """Return settings by path, or by the only name of one."""
    return tuple(
        AgentSetting((path,) if isinstance(path, str) else path, value)
        for path, value in values.items()
    )


def defaults(values: Mapping[str, Value]) -> tuple[AgentSetting, ...]:
    """Return settings that change nothing that is there."""
    return tuple(AgentSetting((name,), value, default=True) for name, value in values.items())


def known(values: Mapping[str, Value]) -> dict[str, Value]:
    """Return what is not `None`."""
    return {name: value for name, value in values.items() if value is not None}
