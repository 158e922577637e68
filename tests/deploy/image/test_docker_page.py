"""What docs/docker.md shows: commands parse and name what exists, the configuration is valid."""

import re
import subprocess

import pytest

from strowger_gateway.gateway.config.load import read_config
from tests.deploy.image.dockerfile import ROOT, instructions, stages
from tests.gateway.serving import one_model

PAGE = (ROOT / "docs" / "docker.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
BASH = [text for kind, text in BLOCKS if kind == "bash"]
YAML = [text for kind, text in BLOCKS if kind == "yaml"]


@pytest.mark.parametrize("text", BASH)
def test_commands_parse(text: str) -> None:
    parsed = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)

    assert (parsed.returncode, parsed.stderr) == (0, "")


def test_commands_name_targets_and_arguments_that_exist() -> None:
    arguments = {
        one.rest.partition("=")[0]
        for one in instructions((ROOT / "Dockerfile").read_text())
        if one.name == "ARG"
    }

    assert set(re.findall(r"--target (\S+)", PAGE)) <= set(stages())
    assert set(re.findall(r"--build-arg \"?(\w+)=", PAGE)) <= arguments
    assert set(re.findall(r"^\| `([A-Z_]+)` \|", PAGE, re.MULTILINE)) == arguments


@pytest.mark.parametrize("text", YAML)
def test_the_configuration_of_the_page_is_valid(text: str) -> None:
    config = read_config(
        one_model("http://127.0.0.1:1/v1", text), source="config.yaml", env={"TEAM_A_KEY": "k" * 20}
    )

    assert config.server.host == "0.0.0.0"
    assert config.store.url.reveal().startswith("sqlite:////var/lib/strowger/")


def test_the_page_has_both() -> None:
    assert (len(BASH), len(YAML)) == (6, 1)
