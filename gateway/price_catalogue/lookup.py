"""Look up the backends of a configuration in the catalogue, once when it is loaded."""

import subprocess
import sys
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import NoReturn

import msgspec
from msgspec.structs import replace

from gateway.child_environment import child_environment
from gateway.config.checks.routing import overlap, reachable
from gateway.config.schema.config import Config
from gateway.price_catalogue.messages import Asked, CatalogueAnswer, Question
from schemas.errors import InvalidConfig

TIMEOUT_S = 60.0
_PACKAGE = "genai_prices"
_PROGRAM = "gateway.price_catalogue.program"


def with_catalogue(config: Config, *, source: str) -> Config:
    """Return the configuration with the catalogue's rows, if its `prices` are from there.

    Blocks for about a second. Workers get the rows with the configuration, so that the program
    runs once for all processes. source: the file's name, for messages.
    Raises InvalidConfig without the package, or if its program fails.
    """
    if config.prices_from != "catalogue":
        return config
    if find_spec(_PACKAGE) is None:
        _fail(source, "needs the package genai-prices; pip install 'strowger-gateway[catalogue]'")
    return replace(config, catalogue=_ask(_question(config), source).rows)


def _question(config: Config) -> Question:
    """Ask for each backend that has no row of the operator's."""
    addresses = {one.name: one.base_url or "" for one in config.providers}
    backends: list[Asked] = []
    for backend in dict.fromkeys(reachable(config)):
        provider, _, model = backend.partition("/")
        if not any(overlap(backend, row.match) for row in config.prices):
            address = addresses.get(provider, "")
            backends.append(Asked(backend=backend, base_url=address, model=model))
    return Question(day=datetime.now(UTC).date().isoformat(), backends=tuple(backends))


def _ask(question: Question, source: str) -> CatalogueAnswer:
    try:
        done = subprocess.run(
            (sys.executable, "-m", _PROGRAM),
            input=msgspec.json.encode(question),
            capture_output=True,
            env=child_environment(),
            timeout=TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
            _fail(source, f"the catalogue cannot be read: {lines[-1]}")
        return msgspec.json.decode(done.stdout, type=CatalogueAnswer)
    except subprocess.TimeoutExpired:
        _fail(source, f"the catalogue was not read within {TIMEOUT_S:g} s")
    except (OSError, msgspec.DecodeError) as exc:
        _fail(source, f"the catalogue cannot be read: {exc}")


def _fail(source: str, why: str) -> NoReturn:
    raise InvalidConfig((f"{source}: prices.from: {why}",))
