"""What an edit of config.yaml has changed, as text without a secret."""

from itertools import product
from string import ascii_letters, digits

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.audit.event import Change
from strowger_gateway.gateway.config.changes import config_changes, without_secrets
from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.config.schema.config import Config

BASE = """
providers:
  - {name: one, adapter: openai, api_key: "${ONE}", headers: {x-team: "${TEAM}"}}
  - {name: two, adapter: openai, base_url: "https://two.test/${TOKEN}/v1", api_key: k2}
models: [{name: chat, backends: [{provider: one, model: m}]}]
auth: {mode: keys, admin_key: "${ADMIN_KEY}", keys: [{name: ada, key: "${ADA}"}]}
store: {url: "postgresql://user:${PASSWORD}@db/name"}
"""
ENV = {
    "ONE": "sk-first-secret",
    "TEAM": "team-secret-header",
    "TOKEN": "token-in-a-path",
    "PASSWORD": "password-in-urls",
    "ADMIN_KEY": "key-of-the-admin",
    "ADA": "key-of-ada-lovelace",
}


def read(text: str, **env: str) -> Config:
    return read_config(text, source="config.yaml", env={**ENV, **env})


def changes(old: str, new: str) -> list[tuple[str, str | None, str | None]]:
    return [(one.field, one.old, one.new) for one in config_changes(read(old), read(new))]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", []),
        (
            "limits: [{name: l, who: {key: ada}, requests: 60, per: minute}]",
            "limits: [{name: l, who: {key: ada}, requests: 90, per: minute}]",
            [("limits[l].requests", "60", "90")],
        ),
        (
            "",
            "teams: [{name: red, models: [chat]}]",
            [("teams[red]", None, '{"name":"red","models":["chat"]}')],
        ),
        ("teams: [{name: red}]", "", [("teams[red]", '{"name":"red"}', None)]),
        (
            "teams: [{name: red}, {name: blue}]",
            "teams: [{name: blue}, {name: red}]",
            [("teams (order)", "red, blue", "blue, red")],
        ),
        (
            "server: {trusted_proxies: [10.0.0.0/8]}",
            "server: {trusted_proxies: [10.0.0.0/8, 10.1.0.0/16], port: 1}",
            [
                ("server.port", "8080", "1"),
                ("server.trusted_proxies", '["10.0.0.0/8"]', '["10.0.0.0/8","10.1.0.0/16"]'),
            ],
        ),
        ("responses: {store: on}", "", [("responses.store", "on", "off")]),
    ],
)
def test_each_setting_that_differs_is_listed_by_its_path(
    old: str, new: str, expected: list[tuple[str, str | None, str | None]]
) -> None:
    assert changes(BASE + old, BASE + new) == expected


def test_a_setting_whose_names_are_numbers_is_listed_by_its_path() -> None:
    old, new = (
        BASE.replace("models: [{", f"models: [{{defaults: {{logit_bias: {{50256: {bias}}}}}, ")
        for bias in (1, 2)
    )

    assert changes(old, new) == [("models[chat].defaults.logit_bias.50256", "1.0", "2.0")]


def test_a_secret_that_changes_is_shown_as_changed_and_not_itself() -> None:
    old = read(BASE)
    new = read(BASE, ONE="sk-second-secret", TEAM="another-header", ADA="another-key-of-ada")

    assert config_changes(old, new) == (
        Change(field="providers[one].api_key", old="***", new="***"),
        Change(field="providers[one].headers.x-team", old="***", new="***"),
        Change(field="auth.keys[ada].key", old="***", new="***"),
    )


def test_a_secret_in_a_plain_setting_is_masked_there() -> None:
    old, new = read(BASE), read(BASE.replace("two.test", "2.test"), PASSWORD="password-2")
    shown = {one.field: (one.old, one.new) for one in config_changes(old, new)}

    assert shown["providers[two].base_url"] == ("https://two.test/***/v1", "https://2.test/***/v1")
    assert shown["store.url"] == ("***", "***")
    assert without_secrets("token-in-a-path and sk-first-secret", old) == "*** and ***"


def test_a_text_that_stands_for_no_key_is_not_masked() -> None:
    base = BASE.replace("${ONE}", "none") + "teams: [{name: none}]"

    assert ("teams[none]", '{"name":"none"}', None) in changes(base, BASE)


secrets = st.text(ascii_letters + digits, min_size=12, max_size=30)
LIMITED = BASE + "limits: [{name: l, who: {key: ada}, requests: 60, per: minute}]"
SHAPES = (
    BASE,
    LIMITED,
    BASE.replace("name: two", "name: '${TOKEN}'").replace("x-team", "x-other"),
    BASE.replace("mode: keys,", "mode: keys, metrics_key: '${ONE}-m',"),
    BASE.replace("model: m}]", "model: m}], overrides: {user: 'for ${ADA}'}, aliases: ['${TEAM}']"),
)


@given(
    st.sampled_from(list(product(SHAPES, SHAPES))),
    st.lists(st.tuples(st.sampled_from(sorted(ENV)), secrets), unique_by=lambda one: one[0]),
)
def test_no_secret_is_in_any_change(
    shapes: tuple[str, str], given_env: list[tuple[str, str]]
) -> None:
    env = dict(given_env)
    old, new = read(shapes[0]), read(shapes[1], **env)

    shown = repr(config_changes(old, new))

    for secret in (*ENV.values(), *env.values()):
        assert secret not in shown
