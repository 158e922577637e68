"""All faults of a file are reported at once: path, value found, allowed values."""

from pathlib import Path

import pytest

from strowger_gateway.gateway.config.load import load_config
from strowger_gateway.schemas.errors import InvalidConfig
from tests.gateway.config.configs import (
    GOOD,
    MODELS,
    faults,
    faults_of_model,
    faults_of_provider,
)

MANY_FAULTS = """
servr: {port: 1}
server: {port: "80x", cors: {allow_origins: "*"}}
auth: {mode: kyes}
providers:
  - {name: openai, adapter: opnai, timeouts: {connect_s: -1, total_s: .inf}}
  - {adapter: vllm, base_url: "https://vllm.test/v1"}
  - just text
models:
  - name: chat
    backends:
      - {provider: openai, model: gpt, weight: lots}
    retry: {attempts: 0, on: [connect, tmeout]}
    fallback: [tiny]
    polcy: weighted
"""


def test_all_errors_are_reported_at_once() -> None:
    assert faults(MANY_FAULTS) == [
        'servr: unknown key; did you mean "server"?',
        "providers[0].timeouts.connect_s: expected a number above 0, found -1",
        'providers[0].timeouts.total_s: expected a number above 0 or null, found ".inf"',
        "providers[1].name: is missing; give up to 128 letters, digits and . - _, "
        "starting with a letter or digit",
        'providers[2]: expected a mapping, found text; its keys: "name", "adapter", "base_url", '
        '"api_key", "api_keys", "oauth", "aws", "google", "azure", "headers", "timeouts", '
        '"health_check" and 12 more',
        'models[0].polcy: unknown key; did you mean "policy"?',
        'models[0].backends[0].weight: expected a number of at least 0 or null, found "lots"',
        "models[0].retry.attempts: expected an integer of at least 1, found 0",
        'models[0].retry.on[1]: expected one of "connect", "timeout", "rate_limit", '
        '"server_error", "broken_stream", found "tmeout"; did you mean "timeout"?',
        'server.port: expected an integer from 0 to 65535, found "80x"',
        "server.cors.allow_origins: expected a list, found text; put it between [ and ]",
        'auth.mode: expected one of "none", "keys", found "kyes"; did you mean "keys"?',
        'providers[0].adapter: no adapter is named "opnai"; did you mean "openai"?',
        'models[0].fallback[0]: no model is named "tiny"; models has no other',
    ]


def test_a_misspelt_provider_is_reported_with_the_nearest_name() -> None:
    text = MODELS.replace("provider: openai", "provider: opnai")

    assert faults(GOOD.replace(MODELS, text)) == [
        'models[0].backends[0].provider: no provider is named "opnai"; did you mean "openai"?'
    ]


def test_a_name_without_a_near_one_is_reported_with_all_names() -> None:
    text = GOOD.replace("provider: openai", "provider: zzz")

    assert faults(text) == [
        'models[0].backends[0].provider: no provider is named "zzz"; available: "openai", "here"'
    ]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ("adapter: vllm", 'base_url: is missing; adapter "vllm" has no default address'),
        ("adapter: 5", "adapter: expected text, found 5"),
        ("base_url: https://x", "adapter: is missing; give text"),
        ("adapter: openai, max_connections: true",
         "max_connections: expected an integer of at least 1 or null, found true"),
        ("adapter: openai, tls: {verify: 'yes'}",
         'tls.verify: expected true or false, found "yes"'),
        ("adapter: openai, headers: [a]", "headers: expected a mapping, found a list"),
        ("adapter: openai, headers: {x-a: 5}", "headers: entry 1: expected text, in quotes"),
        ("adapter: openai, api_key: 12345678", "api_key: expected text, in quotes; found a number"),
    ],
)  # fmt: skip
def test_a_wrong_field_of_a_provider_is_reported_by_path(fields: str, told: str) -> None:
    assert faults_of_provider(fields) == [f"providers[0].{told}"]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ("device: gpu",
         'device: expected one of "auto", "npu", "cuda", "cpu", found "gpu"; did you mean "npu"?'),
        ("kv_cache: 2GB",
         'kv_cache: expected a size such as 512MiB or "auto", found "2GB"; write 2GiB'),
        ("kv_cache: 0", 'kv_cache: expected a size such as 512MiB or "auto", found 0'),
        ("threads: 1.5", 'threads: expected an integer of at least 1 or "auto", found 1.5'),
        ("max_seq_len: long",
         'max_seq_len: expected an integer of at least 1 or null, found "long"'),
    ],
)  # fmt: skip
def test_a_wrong_field_of_an_engine_is_reported_by_path(fields: str, told: str) -> None:
    engine = f"adapter: local, engine: {{models: [{{name: t, path: 'bundled:t'}}], {fields}}}"

    assert faults_of_provider(engine) == [f"providers[0].engine.{told}"]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ("defaults: {temprature: 1}",
         'defaults.temprature: unknown key; did you mean "temperature"?'),
        ("overrides: {max_completion_tokens: 5}",
         'overrides.max_completion_tokens: unknown key; did you mean "max_tokens"?'),
        ("defaults: {temperature: hot}", 'defaults.temperature: expected a number, found "hot"'),
        ("defaults: {top_p: 7}",
         "defaults.top_p: expected a number of at least 0, at most 1, found 7.0"),
        ("defaults: {stop: end}",
         "defaults.stop: expected a list, found text; put it between [ and ]"),
        ("defaults: {logit_bias: {x: 1}}",
         'defaults.logit_bias.x: expected an integer, found "x"'),
        ("defaults: {priority: 6}", "defaults.priority: expected an integer from 1 to 5, found 6"),
        ("overrides: {seed: -9223372036854775809}",
         "overrides.seed: expected a number of at least -9223372036854775808, "
         "below 18446744073709551616, found -9223372036854775809"),
        ("defaults: {embedding_bias: [1]}",
         'defaults.embedding_bias: unknown key; known keys: "temperature", "top_p", "top_k", '
         '"min_p", "typical_p", "do_sample", "max_tokens", "min_tokens", "stop", '
         '"stop_token_ids", "stop_words", "bad_words" and 26 more'),
    ],
)  # fmt: skip
def test_an_operator_value_must_be_one_that_a_client_could_send(fields: str, told: str) -> None:
    assert faults_of_model(fields) == [f"models[2].{told}"]


def test_a_key_that_is_not_a_word_is_quoted_in_the_path() -> None:
    assert faults(f'{GOOD}server: {{"a b": 1}}')[0].startswith('server["a b"]: unknown key; ')


def test_a_long_value_is_cut_short() -> None:
    (told,) = faults(f"{GOOD}logging: {{level: {'x' * 200}}}")

    assert f'found "{"x" * 80}…"' in told


def test_what_is_wrong_already_is_not_complained_about_again() -> None:
    text = GOOD.replace("name: openai, adapter", "name: [openai], adapter")

    assert faults(text) == [
        "providers[0].name: expected up to 128 letters, digits and . - _, "
        "starting with a letter or digit, found a list"
    ]


def test_an_empty_list_or_mapping_is_as_good_as_an_absent_one() -> None:
    text = f"{GOOD}server:\nauth:\nlimits:\n"

    assert faults(text.replace("provider: here", "provider: her")) == [
        'models[1].backends[0].provider: no provider is named "her"; did you mean "here"?'
    ]


def test_an_empty_entry_of_a_list_is_reported() -> None:
    assert faults("providers:\n  -\nmodels:\n  - {name: a, backends: [null]}\n") == [
        "providers[0]: expected a mapping, found nothing",
        "models[0].backends[0]: expected a mapping, found nothing",
    ]


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "gone.yaml"

    with pytest.raises(InvalidConfig) as caught:
        load_config(path, {})

    assert caught.value.problems == (f"{path}: cannot be read: No such file or directory",)


def test_a_file_that_is_not_text_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(b"\xff\xfe\x00")

    with pytest.raises(InvalidConfig, match="is not UTF-8 text"):
        load_config(path, {})
