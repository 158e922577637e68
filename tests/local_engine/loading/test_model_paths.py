"""A model's path may be a folder inside an installed package; a missing one is an error."""

import sys
from pathlib import Path

import pytest

from strowger_gateway.local_engine.bundled import bundled_path
from strowger_gateway.local_engine.loading.model_paths import check_folder, model_folder
from strowger_gateway.schemas.errors import InvalidConfig


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package whose code the test would notice if it ran."""
    root = tmp_path / "site" / "carries_a_model"
    (root / "model" / "deep").mkdir(parents=True)
    (root / "__init__.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.setattr(sys, "path", [str(root.parent), *sys.path])
    return root


def test_a_package_gives_its_folder_without_running_its_code(package: Path) -> None:
    assert model_folder("package:carries_a_model/model/deep") == str(package / "model" / "deep")
    assert model_folder("package:carries_a_model") == str(package)
    assert "carries_a_model" not in sys.modules


def test_folders_and_hub_names_are_unchanged_and_bundled_models_are_found() -> None:
    assert model_folder("./models/mine") == "./models/mine"
    assert model_folder("sentence-transformers/all-MiniLM-L6-v2").startswith("sentence-")
    assert model_folder("bundled:tiny-chat") == str(bundled_path("tiny-chat"))


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("package:not_installed_here/model", "run: pip install not_installed_here"),
        ("package:carries_a_model/other", "has no folder 'other'"),
        ("package:carries_a_model/../..", r"has no folder '\.\./\.\.'"),
        ("package:a-b/model", "NAME as Python imports it"),
        ("package:", "NAME as Python imports it"),
    ],
)
def test_a_missing_package_or_folder_is_an_error_with_the_remedy(
    path: str, message: str, package: Path
) -> None:
    with pytest.raises(InvalidConfig, match=message):
        model_folder(path)


@pytest.mark.parametrize("path", ["/nowhere/model", "./nowhere", "../nowhere", "~/nowhere"])
def test_a_path_without_a_folder_is_an_error_that_names_it(path: str) -> None:
    with pytest.raises(InvalidConfig, match=f"the model at {path} .*the folder does not exist"):
        check_folder(path)


def test_a_hub_name_may_have_no_folder_yet(tmp_path: Path) -> None:
    for path in ("sentence-transformers/all-MiniLM-L6-v2", str(tmp_path), "bundled:tiny-chat"):
        check_folder(path)
