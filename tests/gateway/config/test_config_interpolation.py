"""`${…}` in the values of config.yaml."""

from pathlib import Path

import pytest

from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.config.schema.config import Provider
from tests.gateway.config.configs import ADAPTERS, GOOD, faults, faults_of_provider, read


def provider_with(fields: str, env: dict[str, str], folder: Path | None = None) -> Provider:
    text = f"providers: [{{name: p, adapter: openai, {fields}}}]\nmodels: []\n"
    return read(text, env, folder).providers[0]


def test_a_variable_is_read_from_the_environment() -> None:
    provider = provider_with('api_key: "${KEY}"', {"KEY": "sk-1"})

    assert provider.api_key.reveal() == "sk-1"


def test_text_around_variables_stays() -> None:
    provider = provider_with('base_url: "https://${A}.${B}/v1"', {"A": "a", "B": "b"})

    assert provider.base_url == "https://a.b/v1"


@pytest.mark.parametrize("env", [{}, {"KEY": ""}])
def test_a_default_replaces_an_unset_or_empty_variable(env: dict[str, str]) -> None:
    assert provider_with('api_key: "${KEY:-sk-d}"', env).api_key.reveal() == "sk-d"
    assert provider_with('api_key: "${KEY:-}"', env).api_key.reveal() == ""


def test_a_set_variable_wins_over_its_default() -> None:
    assert provider_with('api_key: "${KEY:-d}"', {"KEY": "k"}).api_key.reveal() == "k"


def test_a_variable_may_fill_a_number_or_a_switch() -> None:
    fields = 'max_connections: "${N}", tls: {verify: "${V:-false}"}'

    provider = provider_with(fields, {"N": "7"})

    assert provider.max_connections == 7
    assert provider.tls.verify is False


def test_quoted_text_without_a_variable_is_not_a_number() -> None:
    assert faults_of_provider('adapter: openai, max_connections: "7"') == [
        'providers[0].max_connections: expected an integer of at least 1 or null, found "7"; '
        "write 7, without quotes"
    ]


def test_a_numeric_variable_stays_text_where_text_belongs() -> None:
    assert provider_with('api_key: "${KEY}"', {"KEY": "00123"}).api_key.reveal() == "00123"


def test_a_value_is_never_read_as_yaml_or_interpolated_again() -> None:
    provider = provider_with('api_key: "${KEY}"', {"KEY": "a: [${B}]"})

    assert provider.api_key.reveal() == "a: [${B}]"


def test_two_dollars_mean_one() -> None:
    assert provider_with('api_key: "$${KEY}$"', {}).api_key.reveal() == "${KEY}$"


def test_a_file_is_read_without_the_line_break_at_its_end(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-file\n")

    absolute = provider_with(f'api_key: "${{file:{tmp_path}/key}}"', {})
    relative = provider_with('api_key: "${file:key}"', {}, tmp_path)

    assert absolute.api_key.reveal() == relative.api_key.reveal() == "sk-file"


def test_all_unset_variables_and_missing_files_are_reported_at_once(tmp_path: Path) -> None:
    text = f"""
providers:
  - {{name: p, adapter: openai, api_key: "${{A_KEY}}", headers: {{x-b: "${{B}} ${{C}}"}}}}
  - {{name: q, adapter: "${{D}}", api_key: "${{file:{tmp_path}/none}}"}}
models: "${{E}}"
"""

    assert faults(text) == [
        f"{place}: the environment variable {name} is not set; set it, "
        f"or give a default with ${{{name}:-…}}"
        for place, name in [
            ("providers[0].api_key", "A_KEY"),
            ("providers[0].headers.x-b", "B"),
            ("providers[0].headers.x-b", "C"),
            ("providers[1].adapter", "D"),
        ]
    ] + [
        f"providers[1].api_key: the file {tmp_path}/none cannot be read: No such file or directory",
        "models: the environment variable E is not set; set it, or give a default with ${E:-…}",
    ]


@pytest.mark.parametrize("broken", ["${}", "${1A}", "${A", "${A:x}", "${A:-${B}}", "${ A }"])
def test_a_reference_that_cannot_be_read_is_reported(broken: str) -> None:
    told = faults_of_provider(f'adapter: openai, api_key: "{broken}"', {"A": "a", "B": "b"})

    assert told == [
        "providers[0].api_key: invalid reference; write ${NAME}, ${NAME:-default} or "
        "${file:/path}, and $${ for a literal ${"
    ]


def test_a_file_that_is_not_text_is_reported(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"\xff")

    told = faults_of_provider(f'adapter: openai, api_key: "${{file:{tmp_path}/key}}"')

    assert told == [f"providers[0].api_key: the file {tmp_path}/key is not UTF-8 text"]


def test_relative_paths_start_at_the_files_folder(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("x")

    provider = provider_with("tls: {ca_file: ca.pem}", {}, tmp_path)

    assert provider.tls.ca_file == str(tmp_path / "ca.pem")


def test_a_model_folder_is_a_path_only_if_it_looks_like_one(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    paths = ["./m", "org/model", "bundled:m", str(tmp_path / "m")]
    models = [f"{{name: m{index}, path: '{path}'}}" for index, path in enumerate(paths)]
    engine_text = f"{{models: [{', '.join(models)}]}}"
    text = f"providers: [{{name: p, adapter: local, engine: {engine_text}}}]\nmodels: []\n"

    engine = read(text, folder=tmp_path).providers[0].engine

    assert engine is not None
    assert [model.path for model in engine.models] == [
        str(tmp_path / "m"),
        "org/model",
        "bundled:m",
        str(tmp_path / "m"),
    ]


def test_a_variable_that_is_not_text_is_reported() -> None:
    told = faults_of_provider('adapter: openai, api_key: "${A}"', {"A": "a\udcff"})

    assert told == ["providers[0].api_key: the environment variable A is not UTF-8 text"]


def test_an_empty_variable_is_no_key() -> None:
    text = 'providers: [{name: p, adapter: openai, api_key: "${KEY}"}]\nmodels: []\n'

    assert faults(text, {"KEY": ""}) == [
        "providers[0].api_key: the environment variable KEY is set, and empty; give it the key, "
        "or write ${KEY:-} if the provider needs none"
    ]


@pytest.mark.parametrize(
    ("env", "warned"),
    [
        ({"HTTPS_PROXY": "http://proxy.test:3128"}, ["HTTPS_PROXY is not used: openai are"]),
        ({"HTTPS_PROXY": "http://proxy.test:3128", "NO_PROXY": "api.openai.test"}, []),
        ({"ALL_PROXY": "http://proxy.test:3128", "no_proxy": "other.test"}, ["ALL_PROXY is not"]),
        ({"HTTP_PROXY": "http://proxy.test:3128"}, []),
        ({"REQUESTS_CA_BUNDLE": "/etc/ca.pem"}, ["REQUESTS_CA_BUNDLE is not used"]),
        ({"REQUESTS_CA_BUNDLE": "/etc/ca.pem", "SSL_CERT_FILE": "/etc/ca.pem"}, []),
        ({}, []),
    ],
)
def test_a_proxy_or_bundle_of_the_environment_that_is_not_used_is_warned_of(
    env: dict[str, str], warned: list[str]
) -> None:
    found: list[str] = []
    given = GOOD.replace(
        "{name: openai, adapter: openai}",
        "{name: openai, adapter: openai, api_key: k, base_url: 'https://api.openai.test/v1'}",
    )
    read_config(given, source="config.yaml", env=env, adapters=ADAPTERS, warn=found.append)

    assert len(found) == len(warned), found
    assert all(part in one for part, one in zip(warned, found, strict=True))


def test_a_provider_with_its_own_proxy_is_not_warned_of() -> None:
    found: list[str] = []
    given = GOOD.replace(
        "adapter: openai}", 'adapter: openai, api_key: k, proxy: "${HTTPS_PROXY}"}'
    )
    env = {"HTTPS_PROXY": "http://proxy.test:3128"}
    read_config(given, source="config.yaml", env=env, adapters=ADAPTERS, warn=found.append)

    assert found == []
