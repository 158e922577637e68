"""`strowger doctor`: show what this machine offers to the gateway and its engine."""

import os
import platform
import subprocess
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import click
import msgspec
from rich.markup import escape

from strowger_gateway.gateway.cli.config_loading import config_option
from strowger_gateway.gateway.cli.model_trial import try_model
from strowger_gateway.gateway.cli.tables import show, table_of
from strowger_gateway.gateway.platform.child_environment import child_environment
from strowger_gateway.local_engine.child_process.interpreter import module_command

PACKAGES = (
    "strowger-gateway",
    "litestar",
    "msgspec",
    "httpx",
    "uvloop",
    "httptools",
    "torch",
    "torch-npu",
    "transformers",
    "safetensors",
    "tokenizers",
)
FAST_CPU = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16", "asimd", "sve", "bf16")
"""Flags in /proc/cpuinfo that matter to the engine."""

LONGEST_CHECK = 300
"""Seconds; an NPU compiles some kernels at their first use."""

Line = tuple[str, str]


@click.command()
@click.option(
    "--engine",
    "model",
    metavar="MODEL",
    help="Start MODEL on trial: a folder, a hub's name, or a model of an engine in --config.",
)
@config_option
def doctor(model: str | None, path: Path) -> None:
    """Show this machine's devices and versions, and test each kernel of the engine.

    With --engine: load MODEL as an engine does, on the device that the engine would use, compare
    every kernel, the sampler and the whole model, and answer one prompt. Exits with 1 if an engine
    would refuse MODEL.
    """
    if model is not None:
        try_model(model, path)
        return
    table = table_of("WHAT", "FOUND")
    for what, found in (*_machine(), *_packages(), *_devices()):
        table.add_row(what, escape(found))
    show(table)


def _machine() -> Iterator[Line]:
    yield "python", f"{platform.python_version()} ({platform.python_implementation()})"
    yield "platform", platform.platform()
    yield "cpu cores", str(_cores())
    flags = cpu_flags(Path("/proc/cpuinfo"))
    fast = [flag for flag in FAST_CPU if flag in flags]
    yield "cpu features", " ".join(fast) if flags else "unknown: no /proc/cpuinfo"


def cpu_flags(cpuinfo: Path) -> frozenset[str]:
    """Flags of the first core; empty if the file is missing."""
    if not cpuinfo.exists():
        return frozenset()
    for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def _cores() -> int:
    """Cores that this process may use; in a container possibly fewer than exist."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _packages() -> Iterator[Line]:
    for package in PACKAGES:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            yield package, "not installed"


def _devices() -> Iterator[Line]:
    """Let the engine check its devices in a separate process, because this one imports no torch."""
    if find_spec("torch") is None:
        yield "engine", "not available: torch is missing; pip install 'strowger-gateway[local]'"
        return
    try:
        done = subprocess.run(
            module_command("strowger_gateway.local_engine.doctor"),
            env=child_environment(),
            capture_output=True,
            check=True,
            timeout=LONGEST_CHECK,
        )
        yield from msgspec.json.decode(done.stdout, type=list[Line])
    except subprocess.CalledProcessError as exc:
        yield "engine", f"cannot start: {last_line(exc.stderr) or f'status {exc.returncode}'}"
    except subprocess.TimeoutExpired:
        yield "engine", f"its checks took longer than {LONGEST_CHECK} s"
    except msgspec.DecodeError as exc:
        yield "engine", f"cannot parse the output of its checks: {exc}"


def last_line(errors: bytes) -> str:
    """The last line of a traceback."""
    text = errors.decode("utf-8", errors="replace").strip()
    return text.splitlines()[-1] if text else ""
