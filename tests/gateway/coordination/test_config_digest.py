"""The hash of the configuration: it shows skew between gateways, and nothing of their secrets."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gateway.config.configs import GOOD, read

CONFIG = """
providers:
  - {{name: openai, adapter: openai, base_url: "https://{host}/v1", api_key: {key},
     headers: {{x-team: {header}}}}}
models: [{{name: chat, backends: [{{provider: openai, model: {model}}}]}}]
store: {{url: "{store}"}}
"""
VALUES = {
    "host": "one.test",
    "key": "sk-1",
    "header": "t-1",
    "model": "m",
    "store": "postgresql://me:pass-w0rd@db/strowger",
}
ENV = {"KEY": "sk-of-env", "OTHER": "sk-of-other", "HOST": "two.test"}


def digest(**changed: str) -> str:
    return read(CONFIG.format(**{**VALUES, **changed}), ENV).digest


def test_the_hash_is_of_values_not_of_comments_or_the_order_of_keys() -> None:
    providers, models = GOOD.split("\nmodels:")
    turned = f"# the same\nmodels:{models}\n{providers}"

    assert read(turned).digest == read(GOOD).digest
    assert len(read(GOOD).digest) == 12


@pytest.mark.parametrize("name", ["host", "model"])
def test_every_other_setting_changes_the_hash(name: str) -> None:
    assert digest(**{name: "another.test"}) != digest()


@pytest.mark.parametrize("name", ["key", "header", "store"])
@given(secret=st.text("abcdef0123456789", min_size=1, max_size=40))
def test_no_secret_is_in_the_hash_not_even_one_that_could_be_guessed(
    name: str, secret: str
) -> None:
    whole = f"postgresql://me:{secret}@db/strowger" if name == "store" else f"'{secret}-'"

    assert digest(**{name: whole}) == digest()


def test_a_reference_counts_by_its_name_and_not_by_its_value() -> None:
    text = CONFIG.format(**{**VALUES, "key": "'${KEY}'", "host": "${HOST}"})
    one, other = (read(text, {**ENV, "KEY": key, "HOST": "x.test"}) for key in ("sk-a", "sk-b"))
    names = {digest(key=key) for key in ("'${KEY}'", "'${OTHER}'", "sk-1")}

    assert one.digest == other.digest == read(text, ENV).digest
    assert len(names) == 3


def test_a_default_of_a_secret_is_not_in_the_hash_and_that_of_another_setting_is() -> None:
    keys = {digest(key=f"'${{KEY:-{default}}}'") for default in ("sk-dev", "sk-test")}
    unset = {digest(header=f"'${{TEAM:-{default}}}'") for default in ("t-dev", "t-test")}
    hosts = {digest(host=f"${{HOST:-{default}}}") for default in ("a.test", "b.test")}

    assert (len(keys), len(unset), len(hosts)) == (1, 1, 2)


def test_different_files_have_different_hashes() -> None:
    digests = sorted(digest(model=f"m{number}") for number in range(200))

    assert all(one != other for one, other in itertools.pairwise(digests))
