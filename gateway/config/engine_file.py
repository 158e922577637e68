"""Read the settings of an engine that no gateway starts: what `engine:` has in config.yaml."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from strowger_gateway.gateway.config.checks.providers import check_engine
from strowger_gateway.gateway.config.decode import Decoder
from strowger_gateway.gateway.config.interpolate import Interpolation
from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.schema.config import Engine
from strowger_gateway.gateway.config.text_files import TooLarge, read_text
from strowger_gateway.gateway.config.yaml_document import parse, positions_of
from strowger_gateway.schemas.errors import InvalidConfig


def load_engine(path: Path, env: Mapping[str, str]) -> Engine:
    """Read a file whose top level has `models`, `device` and so on.

    Raises InvalidConfig with every fault found.
    """
    try:
        text = read_text(path)
    except (OSError, TooLarge, UnicodeDecodeError) as exc:
        raise InvalidConfig((f"{path}: cannot be read: {exc}",)) from exc
    problems = Problems(str(path))
    problems.locate(partial(positions_of, text))
    tree = parse(text, problems)
    if tree is None:
        problems.raise_if_any()
        raise InvalidConfig((f"{path}: is empty; it needs at least `models`",))
    filled = Interpolation(env, path.parent, problems).fill(tree)
    engine = Decoder(path.parent, problems).struct(filled, Engine, ())
    check_engine(engine, (), problems)
    problems.raise_if_any()
    return engine
