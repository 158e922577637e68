"""Checks of providers[].google and providers[].azure, and of their packages."""

import sys

import pytest

from tests.gateway.config.configs import faults_of_provider, read

AZURE = "adapter: azure, base_url: 'https://acme.openai.azure.com/openai/v1'"


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ("adapter: gemini, api_key: k, google: {}",
         "google: conflicts with api_key; give one of them"),
        ("adapter: gemini, google: {}, oauth: {client_id: i, client_secret: s, "
         "token_url: 'https://t/token'}", "google: conflicts with oauth; give one of them"),
        ("adapter: gemini, headers: {Authorization: k}, google: {}",
         "google: its token and headers.authorization are the same header; give one"),
        ("adapter: gemini, google: {credentials_file: /no/key.json}",
         'google.credentials_file: no such file or folder: "/no/key.json"'),
        ("adapter: gemini, google: {scopes: ['a b']}",
         'google.scopes[0]: "a b" is not a scope; write one list entry per scope'),
        ('adapter: gemini, google: {quota_project: "a\\nb"}',
         'google.quota_project: "a\\nb" is not a project id'),
        (f"{AZURE}, google: {{}}, azure: {{}}",
         "azure: conflicts with google; give one of them"),
        (f"{AZURE}, azure: {{tenant_id: t}}",
         "azure.tenant_id: identity managed does not use it; remove it"),
        (f"{AZURE}, azure: {{identity: cli, client_id: c}}",
         "azure.client_id: identity cli does not use it; remove it"),
        (f"{AZURE}, azure: {{identity: workload, token_file: /no/token}}",
         'azure.token_file: no such file or folder: "/no/token"'),
        ("adapter: openai, azure: {}",
         'azure.scope: is missing; adapter "openai" has no default scope'),
        ("adapter: local, engine: {models: [{name: m, path: a/b}]}, google: {}",
         "google: has no effect with adapter local; remove it"),
    ],
)  # fmt: skip
def test_tokens_must_make_sense(fields: str, told: str) -> None:
    assert faults_of_provider(fields) == [f"providers[0].{told}"]


@pytest.mark.parametrize(
    "fields",
    [
        "adapter: gemini, google: {scopes: ['https://a.test/x'], quota_project: p}",
        f"{AZURE}, azure: {{client_id: c}}",
        f"{AZURE}, azure: {{identity: workload, client_id: c, tenant_id: t}}",
        "adapter: openai, azure: {identity: cli, scope: 'https://a.test/.default'}",
    ],
)
def test_tokens_that_make_sense_are_taken(fields: str) -> None:
    models = "models: [{name: m, backends: [{provider: p, model: m}]}]"
    config = read(f"providers: [{{name: p, {fields}}}]\n{models}")

    assert config.providers[0].google or config.providers[0].azure


@pytest.mark.parametrize(
    ("module", "fields", "told"),
    [
        ("google.auth", "adapter: gemini, google: {}",
         "google: needs the package google-auth[requests]; pip install 'strowger-gateway[vertex]'"),
        ("requests", "adapter: gemini, google: {}",
         "google: needs the package google-auth[requests]; pip install 'strowger-gateway[vertex]'"),
        ("azure.identity", f"{AZURE}, azure: {{}}",
         "azure: needs the package azure-identity; pip install 'strowger-gateway[entra]'"),
    ],
)  # fmt: skip
def test_a_package_that_is_missing_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, module: str, fields: str, told: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)

    assert faults_of_provider(fields) == [f"providers[0].{told}"]
