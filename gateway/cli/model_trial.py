"""`strowger doctor --engine MODEL`: a model's start on trial, as a table of what it compares."""

import os
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from rich.markup import escape

from strowger_gateway.gateway.cli.config_loading import Faults, load
from strowger_gateway.gateway.cli.tables import show, table_of
from strowger_gateway.gateway.platform.child_environment import child_environment
from strowger_gateway.local_engine.child_process.interpreter import module_command

if TYPE_CHECKING:
    from strowger_gateway.local_engine.config import EngineConfig
    from strowger_gateway.local_engine.protocol.diagnosis import Diagnosis, Tried

PATHS = ("/", "./", "../", "~", "bundled:", "package:")
"""Beginnings of paths: a configured model has none of them."""


def try_model(model: str, path: Path) -> None:
    """Print the trial of a model. path: of the configuration, which need not exist for a folder.

    Raises Faults if an engine would refuse the model, or if there is no such model.
    """
    if find_spec("torch") is None:
        raise Faults(("torch is missing; pip install 'strowger-gateway[local]'",))
    # Late: `doctor` alone needs neither the configuration nor the engine's messages.
    found = _diagnosis(_settings(model, path))
    for line in found.lines:
        click.echo(line)
    if found.trials:
        table = table_of("ROLE", "KERNEL", "TRIED", "AGREES", "TIME")
        for one in found.trials:
            cells = (one.role, one.kernel, one.tried, agreement(one), f"{one.seconds:.2f} s")
            table.add_row(*map(escape, cells))
        click.echo()
        show(table)
    if found.problem:
        raise Faults((found.problem,))
    click.echo(f"\n{model} can be served")


def agreement(one: "Tried") -> str:
    """Return how well a trial agrees, or why it does not; "–" if it compares nothing."""
    if one.problem:
        return f"no: {one.problem}"
    if one.gap is None:
        return "–"
    return "exactly" if one.gap == 0 else f"to {one.gap:.1e}"


def _settings(model: str, path: Path) -> "EngineConfig":
    """Return an engine for this model alone. Raises Faults."""
    from strowger_gateway.gateway.backends.engines.process.process import engine_settings
    from strowger_gateway.local_engine.config import EngineConfig, ModelConfig

    alone = EngineConfig(models=(ModelConfig(name=model, path=model),))
    if model.startswith(PATHS) or os.path.isdir(model) or not path.exists():
        return alone
    engines = [one for one in load(path).providers if one.engine is not None]
    for provider in engines:
        settings = engine_settings(provider)
        models = tuple(one for one in settings.models if one.name == model)
        if models:
            loras = tuple(one for one in settings.loras if one.base == model)
            return msgspec.structs.replace(settings, models=models, loras=loras)
    if "/" in model:
        return alone
    names = [one.name for provider in engines for one in engine_settings(provider).models]
    raise Faults(
        (
            f"no engine in {path} has a model {model!r}; "
            f"it has: {', '.join(names) or 'none'}; for a folder, give its path",
        )
    )


def _diagnosis(settings: "EngineConfig") -> "Diagnosis":
    """Load the model in a process of its own: this one imports no torch, and a device may crash."""
    from strowger_gateway.local_engine.protocol.diagnosis import Diagnosis

    done = subprocess.run(
        module_command("strowger_gateway.local_engine.model_doctor"),
        env=child_environment(),
        input=msgspec.json.encode(settings),
        stdout=subprocess.PIPE,
        check=False,
    )
    if done.returncode:
        raise Faults((f"the process that loads the model ended with status {done.returncode}",))
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=Diagnosis)
