"""Faults of placement.yaml and of the machine, with their remedies."""

import sys
from pathlib import Path

import pytest

from tests.gateway.backends.engines.link.fleets import Certificates
from tests.gateway.cli.command_line import run

FILE = """
file: engines.json
engine: {{models: [{{name: m, path: /models/only-on-the-nodes}}]}}
listen: {{cert: /etc/node.pem, key: /etc/node.key, ca: /etc/ca.pem}}
tls: {tls}
ray: {{address: '127.0.0.1:1', resources: {{NPU: 1}}}}
"""


def test_every_fault_of_the_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "placement.yaml"
    file.write_text(
        """
file: nowhere/engines.json
engine: {models: []}
listen: {cert: node.pem, key: /k, ca: /a, ports: [9000]}
tls: {cert: none.pem, key: none.key, ca: none.pem}
replicas: {min: 3, max: 2}
ray: {resources: {}, strategy: SPREED}
"""
    )

    result = run("placement", str(file))

    assert result.exit_code == 1
    for words in (
        "there is no folder",
        "engine.models: is empty",
        "listen.cert: is a file of each node; give its whole path",
        "listen.ports: give the first and the last port",
        "tls.cert: no such file",
        "replicas.max: is less than replicas.min, 3",
        "ray.resources: is empty",
        "SPREAD",
    ):
        assert words in result.output


def test_missing_sections_are_named(tmp_path: Path) -> None:
    file = tmp_path / "placement.yaml"
    file.write_text("file: engines.json\nengine: {models: [{name: m, path: /m}]}\n")

    result = run("placement", str(file))

    assert result.stderr.splitlines() == [
        f"{file}: {section}: is missing; give a mapping" for section in ("listen", "tls", "ray")
    ]


def test_without_ray_the_command_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Models of the nodes are not looked for here."""
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setitem(sys.modules, "ray.exceptions", None)
    file = tmp_path / "placement.yaml"
    file.write_text(FILE.format(tls=Certificates(tmp_path).tls()))

    result = run("placement", str(file))

    assert result.exit_code == 1
    assert "pip install 'strowger-gateway[ray]'" in result.output
