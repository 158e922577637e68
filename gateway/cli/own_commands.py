"""The gateway's own commands and where they are; parts bring others."""

from collections.abc import Mapping
from importlib import import_module
from typing import Final

import click

NAMES: Final = (
    "serve",
    "engine",
    "engines",
    "gateways",
    "placement",
    "check",
    "config",
    "schema",
    "routes",
    "explain",
    "chat",
    "agents",
    "experiments",
    "prompts",
    "keys",
    "usage",
    "traffic",
    "limits",
    "budgets",
    "spend-caps",
    "guardrails",
    "requests",
    "cache",
    "records",
    "store",
    "audit",
    "backends",
    "prices",
    "models",
    "health",
    "status",
    "events",
    "doctor",
    "import",
)
"""Names of the commands and, but for the exceptions below, of their modules and functions, in the
order of the help."""

MODULES: Final[Mapping[str, str]] = {
    "agents": "agents.command",
    "backends": "backend_holds.command",
    "budgets": "standings.budgets",
    "cache": "response_cache.command",
    "chat": "chat.command",
    "config": "configuration.command",
    "engine": "engine_server.command",
    "engines": "engine_list.command",
    "experiments": "experiments.command",
    "events": "problems.command",
    "explain": "explaining.command",
    "gateways": "gateway_list.command",
    "guardrails": "guardrail_findings.command",
    "import": "litellm_import.command",
    "keys": "issuing.command",
    "limits": "standings.limits",
    "models": "known_models.command",
    "placement": "placement.command",
    "prompts": "prompts.command",
    "records": "records.command",
    "spend-caps": "standings.spend_caps",
    "status": "problems.command",
    "requests": "requests.command",
    "store": "store.command",
    "traffic": "traffic.command",
}
"""Modules of commands that are in a folder of `gateway/cli`."""

FUNCTIONS: Final[Mapping[str, str]] = {"import": "import_command", "spend-caps": "spend_caps"}
"""Functions that cannot have the name of their command, which is not a name in Python."""


def own_command(name: str) -> click.Command:
    """Import one of NAMES."""
    module = f"strowger_gateway.gateway.cli.{MODULES.get(name, name)}"
    found = getattr(import_module(module), FUNCTIONS.get(name, name))
    assert isinstance(found, click.Command)
    return found
