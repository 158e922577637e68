"""Check what a model's files declare before its weights are loaded, also for one at the hub.

Of a model at the hub only the small files are downloaded for this.
"""

# transformers annotates cached_file in part only:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Callable
from pathlib import Path
from typing import cast

from transformers.utils.hub import cached_file

from strowger_gateway.local_engine.loading.checkpoint_files import check_config, check_weights
from strowger_gateway.local_engine.loading.task_fit import Task

DECLARATIONS = (
    *("config.json", "modules.json", "config_sentence_transformers.json"),
    *("quant_model_description.json", "quantize_config.json", "quant_config.json"),
    "hf_quant_config.json",
)


def check_declared(path: str, task: Task) -> None:
    """path: a folder or a hub name. Raises InvalidConfig."""
    if Path(path).is_dir():
        check_config(Path(path), task)
    elif (config := _downloaded(path)) is not None:
        check_config(config.parent, task)


def check_stored(path: str, task: Task) -> None:
    """Check the headers of a folder's weights. Raises InvalidConfig."""
    if Path(path).is_dir():
        check_weights(path, task)


def _downloaded(name: str) -> Path | None:
    """Return config.json's path; `None` if it cannot be reached, which loading then reports."""
    find = cast("Callable[..., str | None]", cached_file)
    found = [
        find(
            name,
            file,
            _raise_exceptions_for_gated_repo=False,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )
        for file in DECLARATIONS
    ]
    return None if found[0] is None else Path(found[0])
