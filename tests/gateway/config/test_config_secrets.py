"""No credential appears in a message, a repr, or the output of a command."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strowger_gateway.gateway.config.adapter_names import Defaults
from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.config.schema_store import postgres_address
from strowger_gateway.schemas.errors import InvalidConfig
from tests.examples import examples
from tests.gateway.config.configs import ADAPTERS, faults, faults_of_provider, read

NEVER_SAID = "\u00b6"
"""In each secret, so that no message has it by chance, as `config.y` in `config.yaml`."""

secrets = (
    st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=7, max_size=39)
    .filter(lambda text: "${" not in text)
    .map(lambda text: text + NEVER_SAID)
)

EVERY_PLACE = """
store: {url: @, redis_url: @}
auth:
  mode: keys
  admin_key: @
  keys: [{name: a, key: @}]
providers:
  - {name: p, adapter: openai, api_key: @, headers: {authorization: @, x-b: @}, proxy: @}
  - {name: q, adapter: databricks, base_url: "https://d", oauth: {client_id: q, client_secret: @}}
  - {name: r, adapter: bedrock, aws: {region: eu-west-1, access_key_id: a, secret_access_key: @,
     session_token: @}}
models: []
"""


def told(text: str, env: Mapping[str, str], adapters: Mapping[str, Defaults] = ADAPTERS) -> str:
    """The messages of reading a text, or the repr of its configuration."""
    try:
        config = read_config(text, source="config.yaml", env=env, adapters=adapters)
    except InvalidConfig as exc:
        return f"{exc} {exc!r} {exc.problems}"
    return repr(config)


def hidden(secret: str, output: str) -> bool:
    return secret not in output and json.dumps(secret)[1:-1] not in output


@given(secrets)
@settings(deadline=None, max_examples=examples(50))
def test_a_literal_secret_is_never_shown(secret: str) -> None:
    text = EVERY_PLACE.replace("@", json.dumps(secret))

    assert hidden(secret, told(text, {}))


@given(secrets)
@settings(deadline=None, max_examples=examples(50))
def test_a_secret_from_the_environment_is_never_shown(secret: str) -> None:
    text = EVERY_PLACE.replace("@", '"Bearer ${ANY_NAME}"')

    assert hidden(secret, told(text, {"ANY_NAME": secret}))


@given(secrets)
@settings(deadline=None, max_examples=examples(50))
def test_a_secret_in_any_wrong_place_is_never_shown(secret: str) -> None:
    quoted = json.dumps(secret)
    wrong = ("[@]", "{a: @}", "{@: 1}", "[[@, 1]]")

    for shape in wrong:
        text = EVERY_PLACE.replace("@", shape.replace("@", quoted))
        assert hidden(secret, told(text, {}))


@given(secrets)
@settings(deadline=None, max_examples=examples(50))
def test_a_secret_that_is_also_used_as_something_else_is_masked_there(secret: str) -> None:
    quoted = json.dumps(secret)
    text = f"""
{quoted}: 1
server: {{port: {quoted}, host: {quoted}, {quoted}: 2}}
auth: {{mode: {quoted}, keys: [{{name: {quoted}, key: {quoted}, models: [{quoted}]}}]}}
providers:
  - {{name: {quoted}, adapter: {quoted}, api_key: {quoted}, base_url: {quoted}}}
models:
  - {{name: {quoted}, backends: [{{provider: {quoted}, model: {quoted}}}], fallback: [{quoted}]}}
"""

    assert hidden(secret, told(text, {}))


@given(secrets)
@settings(deadline=None, max_examples=examples(50))
def test_a_credential_in_a_variable_named_like_one_is_masked_everywhere(secret: str) -> None:
    text = """
server: {port: "${API_TOKEN}", "hst": "${API_TOKEN}"}
providers: [{name: "x ${API_TOKEN}", adapter: "${API_TOKEN}"}]
models: [{name: a, backends: [{provider: "${API_TOKEN}", model: m}]}]
"""

    assert hidden(secret, told(text, {"API_TOKEN": secret}))


def test_a_misspelt_credential_key_does_not_show_its_value() -> None:
    output = "\n".join(faults_of_provider("adapter: sk-12345678, api_kye: sk-12345678"))

    assert "sk-12345678" not in output
    assert 'api_kye: unknown key; did you mean "api_key"?' in output


@pytest.mark.parametrize("field", ["url", "moved_from"])
@pytest.mark.parametrize(
    "password", ["hunter/22", "hunter@22", "hunter%22 ", "hunter%zz22", "1/hunter?22"]
)
def test_a_password_in_the_address_of_a_database_does_not_show(field: str, password: str) -> None:
    output = "\n".join(faults(f"store: {{{field}: 'postgresql://u:{password}@db/usage'}}"))

    assert f"store.{field}: not a PostgreSQL address" in output
    assert "in the password as %XX" in output
    assert "hunter" not in output


def test_a_password_may_have_what_libpq_takes_for_no_separator() -> None:
    address = postgres_address("postgresql://u:a[b#c?d:e@[::1]:5432,%2Ftmp/usage?sslmode=require")

    assert address == ("u:a[b#c?d:e", "[::1]:5432,%2Ftmp", "usage", "sslmode=require")
    assert postgres_address("postgres:///usage?host=/a/b@c").login == ""


def test_a_password_in_a_base_url_does_not_show() -> None:
    output = "\n".join(faults_of_provider("adapter: vllm, base_url: 'https://u:hunter22@x/'"))

    assert "hunter22" not in output


def test_a_file_with_a_secret_is_masked_in_every_use(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("file-secret")

    output = "\n".join(
        faults('server: {port: "${file:s}"}\nproviders: []\nmodels: []', {}, tmp_path)
    )

    assert output == 'server.port: expected an integer from 0 to 65535, found "***"'


@pytest.mark.parametrize(
    "broken", ["api_key: [sk-12345678", "api_key: *sk-12345678", 'a: "sk-1234\n']
)
def test_broken_yaml_does_not_show_the_file(broken: str) -> None:
    assert "sk-1234" not in "\n".join(faults(broken))


def test_a_value_that_is_not_a_secret_stays_readable_next_to_a_short_secret() -> None:
    text = "server: {port: 80x}\nproviders: [{name: p, adapter: openai, api_key: x}]\nmodels: []"

    assert faults(text) == ['server.port: expected an integer from 0 to 65535, found "80x"']


@pytest.mark.parametrize("word", ["none", "dummy", "anything", "EMPTY"])
def test_a_text_that_stands_for_no_key_is_not_masked(word: str) -> None:
    (told,) = faults_of_provider(f"adapter: {word}, base_url: 'http://h/v1', api_key: {word}")

    assert f'no adapter is named "{word}"' in told


def test_secrets_are_readable_for_those_who_need_them() -> None:
    text = EVERY_PLACE.replace("@", "${SAME}").replace(
        "store: {url: ${SAME}, redis_url: ${SAME}}", ""
    )
    text = text.replace("${SAME}", '"http://${SAME}"').replace('admin_key: "http://${SAME}"', "")

    config = read(text, {"SAME": "same-secret"})

    provider = config.providers[0]
    assert provider.api_key.reveal() == "http://same-secret"
    assert provider.headers["x-b"].reveal() == "http://same-secret"
    assert config.auth.keys[0].key.reveal() == "http://same-secret"
    assert "same-secret" not in repr(config)
