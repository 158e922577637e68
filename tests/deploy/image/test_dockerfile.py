"""The images are built from files that exist, run as a fixed user, and need one writable folder."""

import re
import shutil
import subprocess
from fnmatch import fnmatch

import pytest

from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.schemas.errors import InvalidConfig
from tests.deploy.image.dockerfile import ROOT, TEXT, inherited, instructions, last, stages

TARGETS = ("gateway", "ascend", "engine")
IMAGE = ROOT / "deploy" / "image"
SCRIPTS = sorted(IMAGE.glob("*.sh"))
SHELLCHECK = shutil.which("shellcheck")


def in_context(path: str) -> bool:
    """Whether .dockerignore lets a path into the context: the last pattern that matches decides."""
    kept = True
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = line.removeprefix("!")
        parts = path.split("/")
        above = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
        if line and not line.startswith("#") and any(fnmatch(one, pattern) for one in above):
            kept = line.startswith("!")
    return kept


def sources() -> set[str]:
    """What COPY and mounts take from the context."""
    found: set[str] = set()
    for one in instructions(TEXT):
        options = dict(one.options)
        if one.name == "COPY" and "from" not in options:
            found.update(one.words[:-1])
        for kind, value in one.options:
            source = re.search(r"\bsource=([^,]+)", value)
            if kind == "mount" and source is not None:
                found.add(source[1])
    return found


def test_the_targets_are_the_three_images_and_the_engine_is_the_default() -> None:
    known = stages()

    assert set(TARGETS) <= set(known)
    assert list(known)[-1] == "engine"


def test_every_source_exists_and_is_in_the_context() -> None:
    found = sources()

    assert {"requirements", "constraints.txt", "deploy/image/install.sh"} <= found
    assert all((ROOT / source).exists() and in_context(source) for source in found)


@pytest.mark.parametrize(
    "path",
    [
        *("gateway/http/app.py", "local_engine/bundled/tiny-chat/model.safetensors", "README.md"),
        *("strowger_gateway/gateway", "strowger_gateway/py.typed", "tools/build_hook.py"),
    ],
)
def test_the_context_has_what_the_wheel_is_built_from(path: str) -> None:
    assert (ROOT / path).exists()
    assert in_context(path)


@pytest.mark.parametrize("path", [".git/config", "strowger.db", ".venv/bin/python", "docs/keys.md"])
def test_the_context_has_neither_state_nor_secrets(path: str) -> None:
    assert not in_context(path)


def test_bases_are_arguments_so_that_a_release_can_name_digests() -> None:
    arguments = {one.rest.partition("=")[0] for one in instructions(TEXT) if one.name == "ARG"}
    known = stages()

    for stage in known.values():
        assert stage.base in known or stage.base.strip("${}") in arguments


def test_the_dockerfile_names_no_host_but_registries_and_torchs_index() -> None:
    assert set(re.findall(r"https?://[^/\s]+", TEXT)) == {"https://download.pytorch.org"}


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_runs_as_a_fixed_user_without_a_shell(target: str) -> None:
    assert last(target, "USER").rest == "65532:65532"
    assert last(target, "ENTRYPOINT").words[0] == "/opt/strowger/bin/dumb-init"
    assert "--single-child" in last(target, "ENTRYPOINT").words
    assert last(target, "CMD").words == ["serve"]
    assert last(target, "STOPSIGNAL").rest == "SIGTERM"


@pytest.mark.parametrize("target", ["gateway", "engine"])
def test_the_entry_point_is_the_command_itself(target: str) -> None:
    assert last(target, "ENTRYPOINT").words[-1] == "/opt/strowger/bin/strowger"


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_has_one_volume_and_works_there(target: str) -> None:
    volumes = [one.rest for one in inherited(target) if one.name == "VOLUME"]

    assert volumes == ["/var/lib/strowger"]
    assert last(target, "WORKDIR").rest == volumes[0]
    assert f"HOME={volumes[0]}" in " ".join(
        one.rest for one in inherited(target) if one.name == "ENV"
    )


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_checks_its_health_with_the_command(target: str) -> None:
    check = last(target, "HEALTHCHECK")

    assert check.rest == 'CMD ["/opt/strowger/bin/strowger", "health"]'
    assert {"interval", "timeout", "start-period", "retries"} == {name for name, _ in check.options}


def test_only_the_ascend_image_has_a_shell_script_and_only_the_engine_a_configuration() -> None:
    copied = {
        target: [one.words[0] for one in stages()[target].own if one.name == "COPY"]
        for target in TARGETS
    }

    assert copied == {
        "gateway": ["/opt/strowger"],
        "ascend": ["deploy/image/ascend.sh", "/opt/strowger"],
        "engine": ["deploy/image/config.yaml", "/opt/strowger"],
    }


def test_the_configuration_of_the_engine_image_needs_only_a_key() -> None:
    text = (IMAGE / "config.yaml").read_text("utf-8")

    config = read_config(text, source="config.yaml", env={"STROWGER_API_KEY": "k" * 20})
    assert (config.server.host, config.server.port, config.auth.mode) == ("0.0.0.0", 8080, "keys")
    assert config.store.url.reveal() == "sqlite:////var/lib/strowger/strowger.db"
    with pytest.raises(InvalidConfig, match="STROWGER_API_KEY"):
        read_config(text, source="config.yaml", env={})


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_a_script_of_the_image_parses(script: object) -> None:
    parsed = subprocess.run(
        ["bash", "-n", str(script)], capture_output=True, text=True, check=False
    )

    assert (parsed.returncode, parsed.stderr) == (0, "")


@pytest.mark.skipif(SHELLCHECK is None, reason="shellcheck is not installed")
def test_shellcheck_finds_nothing_in_the_scripts() -> None:
    found = subprocess.run(
        [SHELLCHECK or "", *map(str, SCRIPTS)], capture_output=True, text=True, check=False
    )

    assert found.returncode == 0, found.stdout
