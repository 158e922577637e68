"""Read config.yaml: from text to a checked, frozen `Config`, or to all of its faults at once."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from strowger_gateway.gateway.config.adapter_names import Defaults, known_adapters, with_base_urls
from strowger_gateway.gateway.config.changes import config_changes, exposed_secrets
from strowger_gateway.gateway.config.checks.check import check
from strowger_gateway.gateway.config.decode import Decoder
from strowger_gateway.gateway.config.digest import tree_digest
from strowger_gateway.gateway.config.interpolate import Interpolation
from strowger_gateway.gateway.config.mistakes.foreign_files import named_by
from strowger_gateway.gateway.config.model_table.table import with_published_facts
from strowger_gateway.gateway.config.parts.file_type import file_type, plain_config
from strowger_gateway.gateway.config.parts.part import ConfiguredPart
from strowger_gateway.gateway.config.price_catalogue.lookup import with_catalogue
from strowger_gateway.gateway.config.price_source import price_source, split_prices
from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.prompts.files import with_prompts
from strowger_gateway.gateway.config.remote_engines.replicas import with_replicas
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema.units import MIB
from strowger_gateway.gateway.config.schema_store import with_store_placed
from strowger_gateway.gateway.config.source_file.written import Written
from strowger_gateway.gateway.config.text_files import LARGEST, TooLarge, read_text
from strowger_gateway.gateway.config.unused_variables import warn_unused_variables
from strowger_gateway.gateway.config.yaml_document import parse, positions_of
from strowger_gateway.schemas.errors import InvalidConfig

Trial = Callable[[Config, Problems], None]


def ignore_warning(warning: str) -> None:
    """Drop a warning that another caller reports."""


def not_tried(config: Config, problems: Problems) -> None:
    """Record nothing: most commands build what they need, and meet its faults then."""


def unchanged(config: Config) -> Config:
    """Return what the file says: nothing overrides it."""
    return config


def load_config(
    path: Path,
    env: Mapping[str, str],
    warn: Callable[[str], None] = ignore_warning,
    override: Callable[[Config], Config] = unchanged,
    *,
    parts: Sequence[ConfiguredPart] = (),
    trial: Trial = not_tried,
) -> Config:
    """Read a file. Raises InvalidConfig with every fault found.

    warn:     called with one sentence per setting that is valid and has no effect.
    override: replaces settings, by command-line options for example, before they are checked.
    parts:    bring sections and checks besides those of `config` itself.
    trial:    records the faults that only building shows, of what has no other fault.
    """
    try:
        text = read_text(path)
    except OSError as exc:
        raise InvalidConfig((f"{path}: cannot be read: {exc.strerror}",)) from exc
    except TooLarge as exc:
        message = f"{path}: is larger than {LARGEST // MIB} MiB, the maximum for one file"
        raise InvalidConfig((message,)) from exc
    except UnicodeDecodeError as exc:
        raise InvalidConfig((f"{path}: is not UTF-8 text",)) from exc
    return read_config(
        text,
        source=str(path),
        env=env,
        folder=path.parent,
        warn=warn,
        override=override,
        parts=parts,
        trial=trial,
    )


def read_config(
    text: str,
    *,
    source: str,
    env: Mapping[str, str],
    folder: Path | None = None,
    adapters: Mapping[str, Defaults] | None = None,
    warn: Callable[[str], None] = ignore_warning,
    override: Callable[[Config], Config] = unchanged,
    parts: Sequence[ConfiguredPart] = (),
    trial: Trial = not_tried,
) -> Config:
    """Read text. Raises InvalidConfig with every fault found.

    source:   the file's name, which starts every message.
    folder:   where relative paths start; `None`: the working directory.
    adapters: the names that `adapter:` may have; `None`: the installed ones.
    warn, override, parts, trial: as for `load_config`.
    """
    start = folder or Path()
    problems = Problems(source, start)
    problems.locate(partial(positions_of, text))
    tree = parse(text, problems)
    if isinstance(tree, dict) and (stranger := named_by(tree)):
        problems.add((stranger.key,), stranger.remedy)
        problems.raise_if_any()
    if tree is None:
        if not problems.under(()):
            problems.add((), "is empty; it needs at least `providers` and `models`")
        problems.raise_if_any()
    whole = Interpolation(env, start, problems).fill(tree)
    filled, prices_from = split_prices(whole, problems)
    config = plain_config(Decoder(start, problems).struct(filled, file_type(parts), ()))
    read = replace(config, prices_from=price_source(config, prices_from, problems))
    config = override(read)
    overridden = () if config is read else tuple(one.field for one in config_changes(read, config))
    config = with_prompts(config, problems)
    known = known_adapters() if adapters is None else adapters
    config = with_catalogue(config, known)
    check(config, problems, known, parts)
    warn_unused_variables(config, env, problems)
    trial(config, problems)
    problems.raise_if_any()
    for warning in problems.warnings:
        warn(warning)
    config = replace(config, hidden=exposed_secrets(config, problems.secrets))
    config = replace(config, digest=tree_digest(tree, whole, config, problems.secrets))
    placed = with_store_placed(with_base_urls(config, known), start)
    written = Written(file=source, text=text, declared=placed, env=env, overridden=overridden)
    placed = replace(placed, written=written)
    return with_replicas(with_contracts(with_published_facts(placed)))


def with_contracts(config: Config) -> Config:
    """Return the configuration with the metric contracts in each experiment."""
    experiments = tuple(
        replace(experiment, contracts=config.metrics) for experiment in config.experiments
    )
    return replace(config, experiments=experiments)
