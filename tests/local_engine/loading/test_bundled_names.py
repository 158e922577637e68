"""Bundled models are found by name, without torch."""

import subprocess
import sys

import pytest

from strowger_gateway.local_engine.bundled import bundled_names, bundled_path
from strowger_gateway.schemas.errors import InvalidConfig


def test_an_unknown_bundled_model_is_a_configuration_error_that_names_the_known_ones() -> None:
    with pytest.raises(InvalidConfig, match="tiny-chat, tiny-chat-early") as caught:
        bundled_path("huge-chat")

    assert caught.value.problems == (
        "bundled model 'huge-chat' not found; use one of tiny-chat, tiny-chat-early",
    )


@pytest.mark.parametrize("name", ["../bundled", "", ".", "tiny-chat/../tiny-chat"])
def test_a_path_is_not_a_name(name: str) -> None:
    with pytest.raises(InvalidConfig):
        bundled_path(name)


def test_a_bundled_model_is_a_folder_with_weights() -> None:
    assert bundled_names() == ("tiny-chat", "tiny-chat-early")
    for name in bundled_names():
        assert (bundled_path(name) / "model.safetensors").is_file()


def test_finding_a_bundled_model_does_not_import_torch() -> None:
    code = (
        "import sys; from strowger_gateway.local_engine.bundled import bundled_path;"
        "bundled_path('tiny-chat'); sys.exit('torch' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
