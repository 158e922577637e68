"""compose.yaml is valid, and its parts fit: files, secrets, addresses, health checks."""

import json
import os
import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from jsonschema.validators import validator_for

from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.config.schema.config import Config
from tests.deploy.image.dockerfile import last, stages
from tests.gateway.cli.command_line import run

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "compose"
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
CONFIG = FOLDER / "gateway" / "config.yaml"
PROMETHEUS: dict[str, Any] = yaml.safe_load((FOLDER / "prometheus.yml").read_text("utf-8"))
VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree in which secrets.sh has run."""
    root = tmp_path_factory.mktemp("tree")
    shutil.copytree(FOLDER, root / "deploy" / "compose")
    secrets(root)
    return root


def secrets(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", str(root / "deploy" / "compose" / "secrets.sh")],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )


def variables(root: Path) -> dict[str, str]:
    lines = (root / ".env").read_text().splitlines()
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def filled(text: str, values: dict[str, str]) -> str:
    """Replace variables as docker compose does: `:-` gives a default, `:?` requires a value."""
    return VARIABLE.sub(lambda one: values[one[1]] if one[1] in values else one[3], text)


def environment(root: Path) -> dict[str, str]:
    """Of the gateway."""
    given: dict[str, str] = SERVICES["gateway"]["environment"]
    return {name: filled(text, variables(root)) for name, text in given.items()}


def config(root: Path) -> Config:
    text = CONFIG.read_text("utf-8")
    return read_config(text, source="config.yaml", env=environment(root))


def mounts() -> list[tuple[str, str, str]]:
    """Service, file or folder of the tree, and place in the container of every bind mount."""
    found: list[tuple[str, str, str]] = []
    for name, service in SERVICES.items():
        for volume in service.get("volumes", []):
            source, target, *options = volume.split(":")
            if source.startswith("./"):
                assert options == ["ro"], volume
                found.append((name, source, target))
    return found


def test_it_follows_the_compose_specification() -> None:
    schema = json.loads(
        files("check_jsonschema")
        .joinpath("builtin_schemas/vendor/compose-spec.json")
        .read_text("utf-8")
    )

    validator_for(schema)(schema).validate(COMPOSE)


def test_every_mounted_file_exists() -> None:
    assert len(mounts()) == 7
    assert [source for _, source, _ in mounts() if not (ROOT / source).exists()] == []


def test_every_named_volume_network_and_secret_is_declared() -> None:
    for service in SERVICES.values():
        named = {one.split(":")[0] for one in service.get("volumes", [])}
        assert {one for one in named if not one.startswith("./")} <= set(COMPOSE["volumes"])
        assert set(service["networks"]) <= set(COMPOSE["networks"])
        assert set(service.get("secrets", [])) <= set(COMPOSE["secrets"])


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_restricted(name: str) -> None:
    service = SERVICES[name]

    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["restart"] == "unless-stopped"
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


@pytest.mark.parametrize("name", sorted(set(SERVICES) - {"gateway"}))
def test_an_image_of_others_has_a_version(name: str) -> None:
    assert re.fullmatch(r"docker\.io/[\w./-]+:v?\d[\w.-]*", SERVICES[name]["image"])


def test_services_wait_only_for_services_with_a_health_check() -> None:
    waits = {
        (name, other, how["condition"])
        for name, service in SERVICES.items()
        for other, how in service.get("depends_on", {}).items()
    }

    assert ("gateway", "postgres", "service_healthy") in waits
    assert all("healthcheck" in SERVICES[other] for _, other, _ in waits)
    assert {name for name, service in SERVICES.items() if "healthcheck" not in service} == {
        "collector"
    }


def test_only_what_is_published_or_speaks_to_the_internet_is_outside() -> None:
    outside = {name for name, service in SERVICES.items() if "outside" in service["networks"]}

    assert COMPOSE["networks"]["inside"] == {"internal": True}
    assert outside == {"gateway", "grafana", "collector"}


def test_secrets_are_random_complete_and_private(made: Path) -> None:
    text = (ROOT / "compose.yaml").read_text("utf-8")
    required = {one[1] for one in VARIABLE.finditer(text) if one[2] == "?"}
    found = variables(made)

    assert set(found) == required
    assert len(set(found.values())) == len(found)
    assert all(re.fullmatch(r"[0-9a-f]{48}", value) for value in found.values())
    assert (made / ".env").stat().st_mode & 0o777 == 0o600
    assert (made / "deploy/compose/secrets").stat().st_mode & 0o777 == 0o700
    key = made / COMPOSE["secrets"]["metrics-key"]["file"]
    assert key.read_text() == found["STROWGER_METRICS_KEY"]
    assert key.stat().st_mode & 0o777 == 0o644


def test_secrets_are_never_replaced(made: Path) -> None:
    before = (made / ".env").read_text()

    again = secrets(made)

    assert again.returncode == 1
    assert ".env exists" in again.stderr
    assert (made / ".env").read_text() == before


def test_secrets_are_ignored_by_git() -> None:
    ignored = (ROOT / ".gitignore").read_text().splitlines()

    assert {"/.env", "/deploy/compose/secrets/"} <= set(ignored)


def test_the_gateway_accepts_its_configuration(made: Path) -> None:
    found = run("check", "--config", str(CONFIG), env=environment(made))

    assert found.exit_code == 0, found.output
    assert "OK (1 provider, 1 model, 1 key; hash" in found.output


def test_without_secrets_the_gateway_names_every_variable(made: Path) -> None:
    names = environment(made)

    found = run("check", "--config", str(CONFIG))

    assert found.exit_code == 1
    assert all(name in found.output for name in names)


def test_addresses_in_the_configuration_are_services(made: Path) -> None:
    found = config(made)
    store = urlsplit(found.store.url.reveal())
    assert found.store.redis_url is not None
    redis = urlsplit(found.store.redis_url.reveal())
    assert found.telemetry.otlp is not None
    collector = urlsplit(found.telemetry.otlp.endpoint)

    assert (store.hostname, redis.hostname, collector.hostname) == (
        *("postgres", "redis", "collector"),
    )
    assert all("inside" in SERVICES[name]["networks"] for name in ("postgres", "redis"))
    assert store.username == SERVICES["postgres"]["environment"]["POSTGRES_USER"]
    assert store.path == "/" + SERVICES["postgres"]["environment"]["POSTGRES_DB"]
    receivers = yaml.safe_load((FOLDER / "collector.yaml").read_text())["receivers"]
    assert receivers["otlp"]["protocols"]["http"]["endpoint"].endswith(f":{collector.port}")


def test_the_gateway_writes_only_to_its_volume(made: Path) -> None:
    found = config(made)

    assert f"gateway:{last('engine', 'VOLUME').rest}" in SERVICES["gateway"]["volumes"]
    assert found.store.spool == "/var/lib/strowger/spool"
    assert SERVICES["gateway"]["build"]["target"] == "${STROWGER_TARGET:-engine}"
    assert {"gateway", "engine"} <= set(stages())


def test_docker_waits_longer_than_the_gateway_drains(made: Path) -> None:
    server = config(made).server
    grace = int(SERVICES["gateway"]["stop_grace_period"].removesuffix("s"))

    assert grace >= server.drain_delay_s + server.drain_timeout_s + 10


def test_prometheus_scrapes_the_gateway_with_its_key(made: Path) -> None:
    (job,) = PROMETHEUS["scrape_configs"]

    assert job["static_configs"] == [{"targets": [f"gateway:{config(made).server.port}"]}]
    assert job["authorization"] == {"credentials_file": "/run/secrets/metrics-key"}
    assert SERVICES["prometheus"]["secrets"] == ["metrics-key"]


def test_what_prometheus_and_grafana_read_is_mounted() -> None:
    places = {(name, target) for name, _, target in mounts()}
    (provider,) = yaml.safe_load((FOLDER / "grafana" / "dashboards.yaml").read_text())["providers"]
    (source,) = yaml.safe_load((FOLDER / "grafana" / "datasources.yaml").read_text())["datasources"]
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    rules = {("prometheus", f"/etc/prometheus/{name}") for name in PROMETHEUS["rule_files"]}

    assert rules <= places
    assert ("grafana", home) in places
    assert os.path.dirname(home) == provider["options"]["path"]
    url = urlsplit(str(source["url"]))
    assert url.hostname in SERVICES
    assert f"127.0.0.1:{url.port}" in str(SERVICES["prometheus"]["healthcheck"])
