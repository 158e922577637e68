"""`strowger import litellm`: settings that the file keeps apart from its deployments."""

from pathlib import Path

from strowger_gateway.gateway.config.load import load_config
from strowger_gateway.gateway.config.schema.config import Config
from tests.gateway.cli.command_line import run


def imported(tmp_path: Path, text: str, **env: str) -> tuple[Config, str]:
    """The configuration, which `strowger check` accepts, and what was listed."""
    source, target = tmp_path / "litellm.yaml", tmp_path / "config.yaml"
    source.write_text(text)
    found = run("import", "litellm", str(source), "-o", str(target))
    assert found.exit_code == 0, found.stderr
    checked = run("check", str(target), env=env)
    assert checked.exit_code == 0, checked.output
    return load_config(target, env), found.stderr


def test_an_entry_has_the_values_of_the_credential_that_it_names(tmp_path: Path) -> None:
    config, listed = imported(
        tmp_path,
        """
credential_list:
  - credential_name: east
    credential_values: {api_base: https://e.openai.azure.com, api_key: written-here,
                        api_version: 2024-10-21}
    credential_info: {custom_llm_provider: azure}
model_list:
  - model_name: a
    litellm_params: {model: azure/d, litellm_credential_name: east, api_version: 2025-01-01}
  - model_name: b
    litellm_params: {model: openai/x, litellm_credential_name: only-in-the-database}
""",
        AZURE_API_KEY="the-key-of-azure",
        OPENAI_API_KEY="the-key-of-openai",
    )

    azure = config.providers[0]
    assert azure.base_url == "https://e.openai.azure.com/openai?api-version=2025-01-01"
    assert azure.api_key.reveal() == "the-key-of-azure"
    assert "credential_list[0].credential_values.api_key: a secret in the file" in listed
    assert "credential_values.api_base" not in listed
    assert "written-here" not in listed
    assert "model_list[1].litellm_params.litellm_credential_name: the credential is not" in listed


def test_a_redis_with_tls_stays_one(tmp_path: Path) -> None:
    config, _ = imported(
        tmp_path,
        """
model_list: [{model_name: a, litellm_params: {model: openai/a, api_key: os.environ/K}}]
router_settings: {redis_host: r.internal, redis_port: 6380, redis_ssl: true}
""",
        K="a-key-of-openai",
    )

    assert config.store.redis_url is not None
    assert config.store.redis_url.reveal() == "rediss://r.internal:6380"


def test_what_the_command_cannot_see_is_listed_with_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "litellm.yaml"
    file.write_text(
        "include: [models.yaml]\n"
        "model_list: [{model_name: a, litellm_params: {model: os.environ/MODEL}}]\n"
    )

    found = run("import", "litellm", str(file))

    assert found.exit_code == 1
    assert "include[0]: other files are not read; put them into this file" in found.stderr
    assert "litellm_params.model: the model is named in the environment" in found.stderr
