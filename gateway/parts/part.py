"""A feature as one object: from its section in config.yaml to its metrics.

The life of a part, in the order in which its methods are called:

1. `check` looks at each configuration that is read, also by `strowger check`.
2. The leader, or the only process, builds `leader`: what exists once for the whole gateway.
3. Each serving process builds `process`. Both sides exchange messages, whose types are the part's
   own: `assembly` carries them between processes, or hands them over within one.
4. Each configuration that takes effect goes through `LeaderSide.prepare`, through
   `ProcessSide.ready` and `prepare` in every process, and then through `use`, or through none.
5. At the end, process sides close before the leader's sides, each in the reverse order.

All parts are listed once, in `assembly/parts.py`, in an order in which a part may use the sides of
those before it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from msgspec import Struct

from strowger_gateway.gateway.config.parts.part import ConfiguredPart
from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.parts.columns import Column
from strowger_gateway.gateway.parts.console import AdminRoute, Command, PageView
from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide


class Part(ConfiguredPart):
    """A part overrides what it has. One object per program, without state of a gateway.

    name:      of its messages and slots, and of its section if it has one: as in config.yaml.
    section:   the type of its section, a frozen Struct; `config.section(TYPE)` returns it. Sections
               of config.yaml that are older than parts are fields of `Config`.
    columns:   its fields in the access log, the API, the database and exports; all of them.

    All processes and commands import the object, so what it is made of is imported late.
    """

    name: ClassVar[str]
    section: ClassVar[type[Struct] | None] = None
    columns: ClassVar[Sequence[Column[Any]]] = ()

    def check(self, config: Config, problems: Problems) -> None:
        """Record faults of the configuration, and settings that have no effect.

        Called for each configuration that is read; places that have a fault already are skipped.
        """

    def restart_needed(self, old: Config, new: Config) -> Mapping[str, str]:
        """Return by setting why it cannot change while the gateway runs; {} if all can."""
        return {}

    def leader(self, at: LeaderContext) -> "LeaderSide[Any, Any] | None":
        """Return what exists once per gateway; `None` if there is nothing. Raises InvalidConfig."""
        return None

    def process(self, at: ProcessContext) -> "ProcessSide[Any, Any] | None":
        """Return what exists in each serving process; `None` if there is nothing.

        Raises InvalidConfig.
        """
        return None

    def routes(self) -> Sequence[AdminRoute[Any]]:
        """Return its routes under /admin."""
        return ()

    def views(self) -> Sequence[PageView[Any]]:
        """Return its sections of the page at /admin."""
        return ()

    def commands(self) -> Sequence[Command]:
        """Return its commands of `strowger`."""
        return ()
