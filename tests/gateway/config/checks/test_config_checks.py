"""Cross-checks of config.yaml: names, references, files and exposure."""

import hashlib
from pathlib import Path

import pytest

from tests.gateway.config.configs import (
    GOOD,
    faults,
    faults_of_model,
    faults_of_provider,
    read,
    warnings,
    with_model,
)

LOCAL = "adapter: local, engine: {models: [{name: t, path: 'bundled:t'}]}"
ALLOWED = "use letters, digits and . - _ / : @ +, with none of . - _ at the start or end"


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ("adapter: opnai", 'adapter: no adapter is named "opnai"; did you mean "openai"?'),
        ("adapter: local", "engine: is missing; adapter local requires it, or `engines` for those "
         "elsewhere"),
        (f"{LOCAL}, base_url: 'http://x'", "base_url: has no effect with adapter local; remove "
                                           "it"),
        (f"{LOCAL}, tls: {{verify: false}}", "tls: has no effect with adapter local; remove it"),
        ("adapter: local, engine: {models: []}",
         "engine.models: is empty; give at least one model"),
        ("adapter: local, engine: {models: [{name: t, path: a}, {name: t, path: b}]}",
         'engine.models[1].name: "t" is already the name of [0]'),
        ("adapter: local, engine: {models: [{name: t, path: /no/such}]}",
         'engine.models[0].path: no such file or folder: "/no/such"'),
        ("adapter: local, engine: {models: [{name: t, path: a}], "
         "loras: [{name: l, path: /dev/null}, {name: l, path: /dev/null}]}",
         'engine.loras[1].name: "l" is already the name of [0]'),
        ("adapter: local, engine: {models: [{name: t, path: a}], "
         "loras: [{name: t, path: /dev/null}]}",
         'engine.loras[0].name: "t" is already the name of a model'),
        ("adapter: local, engine: {models: [{name: t, path: a}], "
         "loras: [{name: l, path: /no/such}]}",
         'engine.loras[0].path: no such file or folder: "/no/such"'),
        ("adapter: local, engine: {models: [{name: first, path: a}], "
         "loras: [{name: l, path: /dev/null, base: frist}]}",
         'engine.loras[0].base: no model with task: generate is named "frist"; did you mean '
         '"first"?'),
        ("adapter: local, engine: {models: [{name: t, path: a}, {name: u, path: b}], "
         "loras: [{name: l, path: /dev/null}]}",
         "engine.loras[0].base: is missing; the engine has 2 models with task: generate, name one"),
        ("adapter: openai, engine: {models: [{name: t, path: a}]}",
         'engine: requires adapter local, found "openai"'),
        ("adapter: openai, tls: {ca_file: /no/ca.pem}",
         'tls.ca_file: no such file or folder: "/no/ca.pem"'),
        ("adapter: openai, tls: {client_key: /dev/null}",
         "tls.client_cert: is missing; client_key requires its certificate"),
        ("adapter: openai, tls: {verify: false, ca_file: /dev/null}",
         "tls.ca_file: has no effect under verify: false; remove one of them"),
        ("adapter: openai, tokenizer: /no/t.json",
         'tokenizer: no such file or folder: "/no/t.json"'),
        ("adapter: openai, api_key: k, oauth: {client_id: i, client_secret: s, "
         "token_url: 'https://t/token'}", "oauth: conflicts with api_key; give one of them"),
        ("adapter: openai, headers: {Authorization: k}, oauth: {client_id: i, client_secret: s, "
         "token_url: 'https://t/token'}",
         "oauth: its token and headers.authorization are the same header; give one"),
        ("adapter: openai, oauth: {client_id: i, client_secret: s}",
         'oauth.token_url: is missing; adapter "openai" has no default token endpoint'),
        ("adapter: openai, oauth: {client_id: i, client_secret: '', token_url: 'https://t/x'}",
         "oauth.client_secret: is empty"),
        ("adapter: openai, oauth: {client_id: i, client_secret: s, token_url: ftp://t/x}",
         "oauth.token_url: expected http://HOST or https://HOST, optionally with port and path"),
        ("adapter: databricks, oauth: {client_id: i, client_secret: s}",
         'base_url: is missing; adapter "databricks" has no default address'),
        (f"{LOCAL}, oauth: {{client_id: i, client_secret: s}}",
         "oauth: has no effect with adapter local; remove it"),
        ("adapter: openai, aws: {region: eu-west-1}",
         'aws: requires adapter bedrock, found "openai"'),
        ("adapter: bedrock, aws: {}",
         'base_url: is missing; adapter "bedrock" has no default address'),
        ("adapter: bedrock, aws: {region: Ireland}",
         'aws.region: "Ireland" is not a region, such as eu-west-1'),
        ("adapter: bedrock, base_url: 'https://proxy.test', aws: {}",
         "aws.region: is missing, and base_url does not contain it"),
        ("adapter: bedrock, aws: {region: eu-west-1, access_key_id: a}",
         "aws.secret_access_key: is missing; give both access_key_id and secret_access_key"),
        ("adapter: bedrock, aws: {region: eu-west-1, session_token: a, secret_access_key: s}",
         "aws.access_key_id: is missing; give both access_key_id and secret_access_key"),
        ("adapter: bedrock, aws: {region: eu-west-1, access_key_id: a, secret_access_key: s, "
         "profile: p}", "aws.profile: conflicts with access_key_id and secret_access_key; give "
                        "one of them"),
        ("adapter: bedrock, api_key: k, aws: {region: eu-west-1, profile: p}",
         "aws: its keys conflict with api_key; give one of them"),
        ("adapter: bedrock, headers: {authorization: k}, aws: {region: eu-west-1}",
         "aws: its signature and headers.authorization are the same header; give one"),
        ("adapter: bedrock, aws: {region: eu-west-1}, oauth: {client_id: i, client_secret: s, "
         "token_url: 'https://t/token'}", "aws: conflicts with oauth; give one of them"),
        ("adapter: bedrock, aws: {region: eu-west-1, role_arn: gateway}",
         'aws.role_arn: "gateway" is not a role; write arn:aws:iam::ACCOUNT:role/NAME'),
        ("adapter: bedrock, aws: {region: eu-west-1, external_id: e}",
         "aws.external_id: requires role_arn; remove it"),
        ("adapter: bedrock, api_key: k, aws: {region: eu-west-1, "
         "role_arn: 'arn:aws:iam::123456789012:role/a/b'}",
         "aws: its keys conflict with api_key; give one of them"),
        (f"{LOCAL}, aws: {{region: eu-west-1}}", "aws: has no effect with adapter local; "
                                                 "remove it"),
        ("adapter: openai, proxy: socks5://proxy:1080",
         "proxy: expected http://HOST:PORT or https://HOST:PORT"),
        ("adapter: openai, headers: {Host: a}",
         "headers.Host: the gateway sets this header itself; remove it"),
        ("adapter: openai, headers: {X-A: a, x-a: b}",
         "headers.x-a: is given twice; header names are case-insensitive"),
        ("adapter: openai, headers: {'x a': b}",
         "headers: entry 1: the name contains characters that header names cannot have"),
        ('adapter: openai, api_key: "two\\nlines"',
         "api_key: starts or ends with a space, or contains a line break or another character "
         "that headers cannot carry"),
        ("adapter: openai, headers: {x-a: 'é'}",
         "headers.x-a: starts or ends with a space, or contains a line break or another "
         "character that headers cannot carry"),
    ],
)  # fmt: skip
def test_a_provider_must_make_sense(fields: str, told: str) -> None:
    assert faults_of_provider(fields) == [f"providers[0].{told}"]


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("ftp://x", "expected http://HOST or https://HOST, optionally with port and path"),
        ("x.test/v1", "expected http://HOST or https://HOST, optionally with port and path"),
        ("https://", "expected http://HOST or https://HOST, optionally with port and path"),
        ("https://x:99999", "expected http://HOST or https://HOST, optionally with port and path"),
        ("https://x/v1/", "must not end with a slash"),
        ("https://x/v1#a", "must not contain a fragment (#…) or an empty query (?)"),
        ("https://u:hunter2@x", "must not contain a user or a password; use api_key or headers"),
        ("https://x/a b", "must be ASCII without spaces; write other characters as %XX"),
    ],
)
def test_a_base_url_must_be_one(url: str, told: str) -> None:
    assert faults_of_provider(f"adapter: vllm, base_url: '{url}'") == [
        f"providers[0].base_url: {told}"
    ]


@pytest.mark.parametrize("url", ["http://[::1]:8000", "https://x/v1?api-version=2024-10-21"])
def test_a_base_url_may_have_an_ipv6_host_or_a_query(url: str) -> None:
    text = f"providers: [{{name: p, adapter: vllm, base_url: '{url}'}}]\nmodels: []\n"

    assert read(text).providers[0].base_url == url


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ("backends: []", "backends: is empty; give at least one backend"),
        ("backends: [{provider: here, model: tinny}]",
         'backends[0].model: the engine of here has no model named "tinny"; did you mean "tiny"?'),
        ('backends: [{provider: openai, model: "*"}]',
         'backends[0].model: is "*", which passes the requested name on; only models whose name '
         "ends in * allow it"),
        ("backends: [{provider: openai, model: a}, {provider: openai, model: a}]",
         "backends[1]: is the same as backends[0]; remove one of them"),
        ("backends: [{provider: openai, model: a, weight: 1}, {provider: openai, model: b}]",
         "backends: [1] has no weight, but others have one; give a weight to each"),
        ("backends: [{provider: openai, model: a, weight: 0}]",
         "backends: all weights are 0, so no backend would get traffic; raise one"),
        ("policy: in_order, backends: [{provider: openai, model: a, weight: 1}]",
         "backends: weights have no effect under policy: in_order; remove them"),
        ("policy: best", 'policy: expected one of "in_order", "weighted", "least_busy", '
         '"lowest_latency", "lowest_cost", "sticky", "prefix_affinity", found "best"'),
        ("fallback: [chta]", 'fallback[0]: no model is named "chta"; did you mean "chat"?'),
        ("fallback: [chat, chat]", 'fallback[1]: "chat" is named twice'),
        ("fallback: [m]", "fallback: is circular: m → m"),
        ("aliases: [chat]", 'aliases[0]: "chat" is already the name of models[0]'),
        ("aliases: [a, a]", 'aliases[1]: "a" is already an alias of models[2]'),
        ("aliases: ['a*']", f'aliases[0]: "a*" is not a valid model name; {ALLOWED}'),
        ("retry: {backoff_s: 9}", "retry.backoff_s: 9 is more than max_backoff_s (5)"),
        ("breaker: {cooldown_s: 400, max_cooldown_s: 300}",
         "breaker.cooldown_s: 400 is more than max_cooldown_s (300)"),
        ("breaker: {failure_rate: 1.5}",
         "breaker.failure_rate: expected a number above 0, at most 1, found 1.5"),
        ("on_unsupported: ignore",
         'on_unsupported: expected one of "error", "drop", found "ignore"'),
    ],
)  # fmt: skip
def test_a_model_must_make_sense(fields: str, told: str) -> None:
    assert faults_of_model(fields) == [f"models[2].{told}"]


@pytest.mark.parametrize("name", ["-a", "a.", "a b", "a*b", "é", "**"])
def test_a_name_that_no_client_could_request_is_refused(name: str) -> None:
    text = GOOD.replace("name: chat", f"name: '{name}'")

    assert faults(text) == [
        f'models[0].name: "{name}" is not a valid model name; {ALLOWED}; a * at the end is a '
        "wildcard"
    ]


@pytest.mark.parametrize("name", ["*", "gpt-*", "a/b:c@d+e", "A.1-b_2"])
def test_a_name_may_be_a_wildcard_or_hold_most_punctuation(name: str) -> None:
    assert read(GOOD.replace("name: chat", f"name: '{name}'")).models[0].name == name


def test_a_wildcard_may_hand_the_name_on_or_pin_a_model() -> None:
    text = f"""{GOOD}
  - {{name: "gpt-*", backends: [{{provider: openai, model: "*"}}]}}
  - {{name: "*", backends: [{{provider: openai, model: mini}}]}}
"""

    assert [model.backends[0].model for model in read(text).models[2:]] == ["*", "mini"]


def test_weights_may_include_0_and_need_not_add_up_to_100() -> None:
    backends = "[{provider: openai, model: a, weight: 3}, {provider: here, model: tiny, weight: 0}]"

    model = read(with_model(f"backends: {backends}")).models[2]

    assert [ref.weight for ref in model.backends] == [3.0, 0.0]


def test_two_models_of_one_name_are_refused() -> None:
    assert faults(GOOD.replace("name: tiny, backends", "name: chat, backends")) == [
        'models[1].name: "chat" is already the name of models[0]'
    ]


def test_two_providers_of_one_name_are_refused() -> None:
    text = GOOD.replace("name: here", "name: openai").replace("provider: here", "provider: openai")

    assert faults(text)[0] == 'providers[1].name: "openai" is already the name of providers[0]'


def test_the_default_model_is_one_that_is_served() -> None:
    assert faults(GOOD + "\nserver: {default_model: chta}\n") == [
        'server.default_model: no model is named "chta"; did you mean "chat"?'
    ]
    assert read(GOOD + "\nserver: {default_model: chat}\n").server.default_model == "chat"


def test_a_fallback_must_be_a_name_and_not_an_alias() -> None:
    text = GOOD.replace("{name: chat,", "{name: chat, aliases: [talk], fallback: [talk],")

    assert faults(text) == ['models[0].fallback[0]: "talk" is an alias; write "chat"']


def test_a_circle_of_fallbacks_is_reported_once() -> None:
    text = f"""
{GOOD}
  - {{name: a, backends: [{{provider: here, model: tiny}}], fallback: [chat, b]}}
  - {{name: b, backends: [{{provider: here, model: tiny}}], fallback: [chat, c]}}
  - {{name: c, backends: [{{provider: here, model: tiny}}], fallback: [a]}}
"""

    assert faults(text) == ["models[2].fallback: is circular: a → b → c → a"]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_without_keys_only_this_machine_may_call(host: str) -> None:
    assert read(f"{GOOD}server: {{host: '{host}'}}").server.host == host


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "gateway.test"])
def test_without_keys_an_open_host_is_refused_unless_allowed(host: str) -> None:
    text = f"{GOOD}server: {{host: '{host}'}}\n"

    assert faults(text) == [
        f'auth.mode: none serves every client that can reach server.host "{host}"; use mode: keys, '
        "a loopback host such as 127.0.0.1, or allow_open: true"
    ]
    assert read(f"{text}auth: {{allow_open: true}}").auth.allow_open
    assert read(f"{text}auth: {{mode: keys, keys: [{{name: a, key: secret-a}}]}}").auth.keys


HASHED = f"sha256:{hashlib.sha256(b'secret-a').hexdigest()}"


@pytest.mark.parametrize(
    ("auth", "told"),
    [
        ("keys: [{name: a, key: secret-a}]", "keys: mode none ignores keys; use mode: keys"),
        ("mode: keys, keys: [{name: a, key: ''}]", "keys[0].key: is empty; give a random key"),
        ("mode: keys, keys: [{name: a, key: secret-a}, {name: a, key: secret-b}]",
         'keys[1].name: "a" is already the name of auth.keys[0]'),
        ("mode: keys, keys: [{name: a, key: secret-a}, {name: b, key: secret-a}]",
         "keys[1].key: is the same as auth.keys[0]; give each client its own key"),
        ("mode: keys, keys: [{name: a, key: secret-a, models: [chatt]}]",
         'keys[0].models[0]: no model is named "chatt"; did you mean "chat"?'),
        ("mode: keys, keys: [{name: a, key: secret-a, models: ['x-*']}]",
         'keys[0].models[0]: no model is named "x-*"; available: "chat", "tiny"'),
        ("mode: keys, keys: [{name: a, key: secret-a, models: ['c*t']}]",
         'keys[0].models[0]: "c*t" contains a * before its end; * is a wildcard only at the end'),
        ("mode: keys, keys: [{name: a, key: secret-a, max_priority: 0}]",
         "keys[0].max_priority: expected an integer from 1 to 5, found 0"),
        ("mode: keys, keys: [{name: a, key: 'sha256:12ab'}]",
         "keys[0].key: expected sha256: and the 64 hexadecimal digits of its SHA-256"),
        (f"mode: keys, keys: [{{name: a, key: secret-a}}, {{name: b, key: '{HASHED}'}}]",
         "keys[1].key: is the same as auth.keys[0]; give each client its own key"),
        (f"mode: keys, admin_key: '{HASHED}', keys: [{{name: a, key: secret-b}}]",
         "admin_key: only the keys of auth.keys may be given as sha256:…"),
        (f"mode: keys, admin_key: secret-a, keys: [{{name: a, key: '{HASHED}'}}]",
         "admin_key: is the same as auth.keys[0]; no client may have the operator's key"),
        ("mode: keys, keys: [{name: a, key: secret-a, team: red}]",
         'keys[0].team: no team is named "red"; there are none in teams'),
    ],
)  # fmt: skip
def test_keys_must_make_sense(auth: str, told: str) -> None:
    assert faults(f"{GOOD}auth: {{{auth}}}") == [f"auth.{told}"]


def test_without_keys_in_the_file_only_issued_ones_are_valid() -> None:
    assert warnings(f"{GOOD}auth: {{mode: keys}}") == [
        "auth.keys: is empty, so only issued keys are valid (strowger keys create), and none of "
        "them while the store is unreachable at start"
    ]


@pytest.mark.parametrize(
    ("teams", "told"),
    [
        ("{name: red}, {name: red}", 'teams[1].name: "red" is already the name of teams[0]'),
        ("{name: red, models: [chatt]}",
         'teams[0].models[0]: no model is named "chatt"; did you mean "chat"?'),
        ("{name: red}, {name: blue, members: []}", "teams[1].members: unknown key"),
    ],
)  # fmt: skip
def test_teams_must_make_sense(teams: str, told: str) -> None:
    (found,) = faults(f"{GOOD}teams: [{teams}]")

    assert found.startswith(told)


def test_a_key_may_name_models_aliases_and_wildcards_either_way() -> None:
    text = with_model("aliases: [talk]").replace("name: m,", "name: 'gpt-*',")
    models = "[chat, talk, 't*', gpt-4o, 'gpt-*', '*']"

    config = read(
        f"{text}auth: {{mode: keys, keys: [{{name: a, key: secret-a, models: {models}}}]}}"
    )

    assert len(config.auth.keys[0].models) == 6


def test_one_body_must_fit_into_the_memory_for_all() -> None:
    assert faults(f"{GOOD}server: {{max_body_bytes: 2MiB, max_buffered_bytes: 1MiB}}") == [
        "server.max_body_bytes: 2097152 is more than server.max_buffered_bytes (1048576), the "
        "limit for all bodies together"
    ]


def test_certificates_that_exist_are_fine(tmp_path: Path) -> None:
    for name in ("ca", "cert", "key"):
        (tmp_path / name).write_text("x")
    tls = "{ca_file: ca, client_cert: cert, client_key: key}"
    text = f"providers: [{{name: p, adapter: openai, tls: {tls}}}]\nmodels: []\n"

    assert read(text, folder=tmp_path).providers[0].tls.client_cert == str(tmp_path / "cert")


def test_a_backend_may_name_an_adapter_of_an_engine(tmp_path: Path) -> None:
    (tmp_path / "sql").mkdir()
    engine = "{models: [{name: t, path: a}], loras: [{name: sql, path: ./sql}], accept_lora: true}"
    providers = f"providers: [{{name: p, adapter: local, engine: {engine}}}]\n"
    model = "{name: m, backends: [{provider: p, model: sql}]}"

    config = read(f"{providers}models: [{model}]\n", folder=tmp_path)

    served = config.providers[0].engine
    assert served is not None
    assert served.loras[0].path == str(tmp_path / "sql")
    assert config.models[0].backends[0].model == "sql"
    assert faults(f"{providers}models: [{model.replace('sql', 'sqll')}]\n", folder=tmp_path) == [
        'models[0].backends[0].model: the engine of p has no model named "sqll"; '
        'did you mean "sql"?'
    ]
