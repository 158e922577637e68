"""Where the folder of a configured model lies: with us, in an installed package, or as named."""

import os
from importlib.util import find_spec
from pathlib import Path

from local_engine.bundled import bundled_path
from schemas.errors import InvalidConfig

BUNDLED, PACKAGE = "bundled:", "package:"


FILES = ["*.json", "*.safetensors", "*.txt", "*.model", "*.jinja"]
"""Of a hub repository, what an engine may read. Weights in other formats can hold code."""


def model_folder(path: str, revision: str = "") -> str:
    """What transformers' `from_pretrained` takes: a folder, or a hub name as it came.

    `bundled:NAME` is a model of our own, `package:NAME/FOLDER` a folder inside an installed Python
    package, whose code is not run. revision: of a hub name, whose files of that branch, tag or
    commit are then downloaded. Raises InvalidConfig with the remedy where there is none.
    """
    local = path.startswith((BUNDLED, PACKAGE)) or os.path.isdir(os.path.expanduser(path))
    if revision and local:
        raise InvalidConfig(
            (f"{path}: revision {revision}: only models at the Hugging Face hub have one",)
        )
    if revision:
        return _at_the_hub(path, revision)
    if path.startswith(BUNDLED):
        return str(bundled_path(path.removeprefix(BUNDLED)))
    if path.startswith(PACKAGE):
        return str(_inside_package(path))
    return os.path.expanduser(path)


def _inside_package(path: str) -> Path:
    package, _, inside = path.removeprefix(PACKAGE).partition("/")
    if not package.isidentifier():
        raise InvalidConfig((f"{path}: write package:NAME/FOLDER, NAME as Python imports it",))
    spec = find_spec(package)
    if spec is None:
        raise InvalidConfig(
            (f"{path}: the package {package} is not installed; run: pip install {package}",)
        )
    roots = [Path(root) for root in spec.submodule_search_locations or ()]
    for root in roots:
        folder = (root / inside).resolve()
        if folder.is_dir() and folder.is_relative_to(root.resolve()):
            return folder
    raise InvalidConfig((f"{path}: the package {package} has no folder {inside!r}",))


def _at_the_hub(name: str, revision: str) -> str:
    """The folder of a downloaded revision, so that every file that is read later is of it."""
    from huggingface_hub import snapshot_download  # pyright: ignore[reportUnknownVariableType]  # annotated in part

    try:
        return snapshot_download(name, revision=revision, allow_patterns=FILES)
    except (OSError, ValueError) as exc:
        raise InvalidConfig((f"{name}: revision {revision} cannot be had: {exc}",)) from exc
