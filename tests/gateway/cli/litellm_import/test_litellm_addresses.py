"""`strowger import litellm`: where deployments of the clouds are, and what opens them."""

import re
from pathlib import Path

import pytest

from strowger_gateway.gateway.config.load import load_config
from strowger_gateway.gateway.config.schema.config import Config
from tests.gateway.cli.command_line import run

CHAT = "{model_name: other, litellm_params: {model: openai/a, api_key: os.environ/K}}"


def imported(tmp_path: Path, params: str) -> tuple[Config, str]:
    """The configuration of one deployment next to CHAT, and what was listed."""
    source, target = tmp_path / "litellm.yaml", tmp_path / "config.yaml"
    source.write_text(f"model_list: [{CHAT}, {{model_name: m, litellm_params: {{{params}}}}}]\n")
    found = run("import", "litellm", str(source), "-o", str(target))
    assert found.exit_code == 0, found.stderr
    names = re.findall(r"\$\{(\w+)\}", target.read_text())
    env = {name: f"value-of-{name.lower()}" for name in names}
    env |= {"BASE": "https://e.openai.azure.com"}
    checked = run("check", str(target), env=env)
    assert checked.exit_code == 0, checked.output
    return load_config(target, env), found.stderr


@pytest.mark.parametrize(
    ("model", "settings", "region", "ours"),
    [
        (
            "us-west-2/anthropic.claude-3-haiku-v1:0",
            "",
            "us-west-2",
            "anthropic.claude-3-haiku-v1:0",
        ),
        ("us-gov-west-1/a.b", "aws_region_name: us-gov-east-1", "us-gov-east-1", "a.b"),
        ("converse/eu.amazon.nova-pro-v1:0", "aws_region_name: eu-west-1", "eu-west-1", None),
        ("arn:aws:bedrock:eu-north-1:1:imported-model/a", "", "eu-north-1", None),
    ],
)
def test_a_bedrock_model_may_name_its_region(
    tmp_path: Path, model: str, settings: str, region: str, ours: str | None
) -> None:
    config, _ = imported(tmp_path, f'model: "bedrock/{model}", {settings}')

    aws = config.providers[-1].aws
    assert aws is not None
    assert aws.region == region
    assert config.models[-1].backends[0].model == (ours or model.removeprefix("converse/"))


def test_a_bedrock_endpoint_is_the_address(tmp_path: Path) -> None:
    endpoint = "https://vpce-1.bedrock-runtime.eu-west-1.vpce.amazonaws.com"

    config, _ = imported(
        tmp_path,
        f"model: bedrock/a.b, aws_region_name: eu-west-1, aws_bedrock_runtime_endpoint: {endpoint}",
    )

    assert config.providers[-1].base_url == endpoint


@pytest.mark.parametrize(
    ("settings", "address"),
    [
        ("api_base: https://e.openai.azure.com/", "https://e.openai.azure.com/openai?api-version="),
        ("api_base: os.environ/BASE", "https://e.openai.azure.com?api-version=2024-10-21"),
        (
            'api_base: "https://e.openai.azure.com/openai/deployments/d/chat/completions'
            '?api-version=2025-01-01-preview"',
            "https://e.openai.azure.com/openai/deployments/d?api-version=2025-01-01-preview",
        ),
        (
            "api_base: https://e.openai.azure.com, api_version: preview",
            "https://e.openai.azure.com/openai/v1",
        ),
    ],
)
def test_every_form_of_an_azure_address_is_one_that_the_gateway_accepts(
    tmp_path: Path, settings: str, address: str
) -> None:
    config, _ = imported(tmp_path, f"model: azure/o_series/d, {settings}")

    provider = config.providers[-1]
    assert str(provider.base_url).startswith(address)
    assert provider.api_key.reveal() == "value-of-azure_api_key"  # that LiteLLM reads
    assert config.models[-1].backends[0].model == "d"


def test_azure_responses_are_of_their_own_adapter(tmp_path: Path) -> None:
    config, _ = imported(
        tmp_path,
        "model: azure/responses/d, api_base: https://e.openai.azure.com, "
        "api_version: 2025-03-01-preview, api_key: os.environ/A",
    )

    provider = config.providers[-1]
    assert provider.adapter == "azure-responses"
    assert provider.base_url == "https://e.openai.azure.com/openai/v1"
    assert config.models[-1].backends[0].model == "d"


def test_an_application_of_entra_id_becomes_oauth(tmp_path: Path) -> None:
    config, listed = imported(
        tmp_path,
        "model: azure/d, api_base: https://e.openai.azure.com, tenant_id: os.environ/TENANT, "
        "client_id: id-1, client_secret: written-here",
    )

    oauth = config.providers[-1].oauth
    assert oauth is not None
    assert oauth.client_id == "id-1"
    assert oauth.client_secret.reveal() == "value-of-azure_client_secret"
    assert oauth.token_url == (
        "https://login.microsoftonline.com/value-of-tenant/oauth2/v2.0/token"
    )
    assert "written-here" not in listed


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ("model: vertex_ai/gemini-2.5-pro", "needs an address"),
        ("model: vertex_ai/meta/llama-3, vertex_project: p", "no adapter for this provider"),
        ("model: vertex_ai/mistral-large, vertex_project: p", "no adapter for this provider"),
    ],
)
def test_what_vertex_serves_elsewhere_is_listed(tmp_path: Path, params: str, reason: str) -> None:
    config, listed = imported(tmp_path, params)

    assert [model.name for model in config.models] == ["other"]
    assert f"model_list[1].litellm_params.model: {reason}" in listed.replace("adapter gemini ", "")


def test_vertex_settings_have_two_names_and_credentials_in_the_file_are_listed(
    tmp_path: Path,
) -> None:
    config, listed = imported(
        tmp_path,
        "model: vertex_ai/gemini-2.5-pro, vertex_ai_project: p, vertex_ai_location: europe-west4, "
        """vertex_credentials: '{"private_key": "written-here"}'""",
    )

    assert config.providers[-1].base_url == (
        "https://europe-west4-aiplatform.googleapis.com/v1/projects/p/locations/europe-west4"
        "/publishers/google"
    )
    assert "set providers[].google.credentials_file" in listed
    assert "written-here" not in listed
