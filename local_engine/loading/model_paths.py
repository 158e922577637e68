"""Locate the folder of a configured model: bundled, in an installed package, or a path."""

import os
from importlib.util import find_spec
from pathlib import Path

from strowger_gateway.local_engine.bundled import bundled_path
from strowger_gateway.schemas.errors import InvalidConfig

BUNDLED, PACKAGE = "bundled:", "package:"


FILES = ["*.json", "*.safetensors", "*.txt", "*.model", "*.jinja"]
"""Files of a hub repository that an engine may read. Weights in other formats can contain code."""


def model_folder(path: str, revision: str = "") -> str:
    """Return the argument of transformers' `from_pretrained`: a folder, or a hub name unchanged.

    `bundled:NAME` is a bundled model, `package:NAME/FOLDER` a folder inside an installed Python
    package, whose code is not run. revision: branch, tag or commit of a hub model, whose files are
    then downloaded. Raises InvalidConfig with the remedy if there is no such model.
    """
    local = path.startswith((BUNDLED, PACKAGE)) or os.path.isdir(os.path.expanduser(path))
    if revision and local:
        raise InvalidConfig(
            (f"{path}: revision {revision}: only models at the Hugging Face hub have revisions",)
        )
    if revision:
        return _at_the_hub(path, revision)
    if path.startswith(BUNDLED):
        return str(bundled_path(path.removeprefix(BUNDLED)))
    if path.startswith(PACKAGE):
        return str(_inside_package(path))
    return os.path.expanduser(path)


def check_folder(path: str) -> None:
    """Raise InvalidConfig for a path that is not a hub name and has no folder."""
    if path.startswith((BUNDLED, PACKAGE)):
        model_folder(path)
    elif path.startswith(("/", "./", "../", "~")) and not os.path.isdir(os.path.expanduser(path)):
        problem = "the folder does not exist"
        if os.path.isfile(os.path.expanduser(path)):
            problem = "it is a file; give the folder with config.json and *.safetensors"
        raise InvalidConfig((f"the model at {path} cannot be loaded: {problem}",))


def _inside_package(path: str) -> Path:
    package, _, inside = path.removeprefix(PACKAGE).partition("/")
    if not package.isidentifier():
        raise InvalidConfig((f"{path}: write package:NAME/FOLDER, with NAME as Python imports it",))
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
    """Return the folder of a downloaded revision, so that all files come from this revision."""
    from huggingface_hub import snapshot_download  # pyright: ignore[reportUnknownVariableType]  # annotated in part

    try:
        return snapshot_download(name, revision=revision, allow_patterns=FILES)
    except (OSError, ValueError) as exc:
        raise InvalidConfig((f"{name}: revision {revision} cannot be downloaded: {exc}",)) from exc
