"""What docs/deploy.md tells operators to copy: configurations are valid, commands parse."""

import re
import subprocess
from pathlib import Path

import pytest

from strowger_gateway.gateway.config.load import read_config
from tests.deploy.proxies import DEPLOY
from tests.gateway.serving import one_model

PAGE = (DEPLOY.parent / "docs" / "deploy.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
YAML = [text for kind, text in BLOCKS if kind == "yaml"]
BASH = [text for kind, text in BLOCKS if kind == "bash"]


@pytest.mark.parametrize("text", YAML)
def test_a_configuration_of_the_page_is_valid(text: str) -> None:
    config = read_config(one_model("http://127.0.0.1:1/v1", text), source="config.yaml", env={})

    assert config.server.trusted_proxies or config.store.url.reveal().startswith("sqlite:////var/")


@pytest.mark.parametrize("text", BASH)
def test_commands_of_the_page_parse_and_name_files_that_exist(text: str) -> None:
    parsed = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
    named = [Path(name) for name in re.findall(r"\bdeploy/\S+", text)]

    assert (parsed.returncode, parsed.stderr) == (0, "")
    assert all((DEPLOY.parent / name).is_file() for name in named)


def test_the_page_has_commands_and_configurations() -> None:
    assert (len(YAML), len(BASH)) == (2, 4)
    assert {kind for kind, _ in BLOCKS} == {"yaml", "bash", "ini"}
