"""Installs the agents: `python -m tests.agents.install [AGENT …]`; without names, all of them."""

import sys
from collections.abc import Sequence
from typing import Final

from tests.agents.roster import AGENTS, Agent
from tests.clients.install import install
from tests.clients.packages import AGENTS as PACKAGES


def named(names: Sequence[str]) -> list[Agent]:
    """The agents of these names; all if there are none."""
    return [one for one in AGENTS if not names or one.name in names]


def installed(agents: Sequence[Agent]) -> None:
    """Raises CalledProcessError."""
    for package in {one.name: one for agent in agents if (one := agent.package)}.values():
        install(package)


OLDER: Final = ("codex-endpoint",)
"""Earlier versions of agents, which ask for the same in another way."""


def older(names: Sequence[str]) -> None:
    """Install those of these names; all if there are none. Raises CalledProcessError."""
    for name in OLDER:
        if not names or name in names:
            install(PACKAGES[name])


if __name__ == "__main__":
    installed(named(sys.argv[1:]))
    older(sys.argv[1:])
