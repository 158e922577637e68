"""`strowger import litellm`: nothing of the input is lost, and the result is a configuration."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strowger_gateway.gateway.cli.litellm_import.ledger import leaves, shown
from strowger_gateway.gateway.cli.litellm_import.translate import translate
from strowger_gateway.gateway.config.load import load_config
from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.yaml_document import Tree, parse
from tests.examples import examples
from tests.gateway.cli.command_line import run

THIRTY = Path(__file__).with_name("thirty_models.yaml")


def environment(text: str) -> dict[str, str]:
    """A value for every variable of a configuration."""
    found = {name: f"value-of-{name.lower()}" for name in re.findall(r"\$\{(\w+)\}", text)}
    return found | {"DATABASE_URL": "postgresql://u:p@127.0.0.1:9/n", "REDIS_HOST": "127.0.0.1"}


def tree_of(text: str) -> Tree:
    problems = Problems("litellm.yaml")
    tree = parse(text, problems)
    problems.raise_if_any()
    return tree


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    file = tmp_path_factory.mktemp("imported") / "config.yaml"
    imported = run("import", "litellm", str(THIRTY), "-o", str(file))
    assert imported.exit_code == 0, imported.output
    env = environment(file.read_text())
    checked = run("check", str(file), env=env)
    assert checked.exit_code == 0, checked.output
    return load_config(file, env)


def test_thirty_models_import_with_every_setting_translated_or_listed() -> None:
    tree = tree_of(THIRTY.read_text())
    found = translate(tree)
    listed = {one.path for one in found.listed}

    assert set(found.translated) | listed == {shown(leaf) for leaf in leaves(tree)}
    assert not set(found.translated) & listed
    assert all(one.reason and one.remedy for one in found.listed)
    assert all(f"# {one.path}: {one.reason}; {one.remedy}" in found.text for one in found.listed)


def test_deployments_become_providers_and_backends(config: Config) -> None:
    models = {model.name: model for model in config.models}
    providers = {provider.name: provider for provider in config.providers}
    large = models["chat-large"]
    first = providers[large.backends[0].provider]

    assert first.adapter == "azure"
    assert first.base_url == "https://east.openai.azure.com/openai?api-version=2024-10-21"
    assert first.api_key.reveal() == "value-of-azure_east_key"
    assert first.timeouts.total_s == 120
    assert [backend.weight for backend in large.backends] == [600, 300, 100]
    assert [backend.weight for backend in models["claude"].backends] == [1, 0]
    assert models["chat-small"].retry.attempts == 5
    assert "temperature: 0.2" in translate(tree_of(THIRTY.read_text())).text
    assert {"sage", "pictures", "anything"}.isdisjoint(models)


def test_router_settings_become_policies_fallbacks_and_breakers(config: Config) -> None:
    models = {model.name: model for model in config.models}
    large = models["chat-large"]

    assert large.policy == "least_busy"
    assert large.aliases == ("gpt-4o",)
    assert large.fallback == ("claude", "own-qwen")
    assert large.retry.attempts == 7  # as many as the chain has backends
    assert models["claude"].fallback == ()  # chat-large falls back to it: that is a circle
    assert models["grok"].fallback == ("chat-small",)
    by_error = [(one.codes, one.models) for one in large.fallback_by_error]
    assert by_error == [(("content_filter",), ("claude",))]
    small = [(one.codes, one.models) for one in models["chat-small"].fallback_by_error]
    assert small == [(("context_length_exceeded",), ("gemini-flash",))]
    assert (large.breaker.min_requests, large.breaker.cooldown_s) == (4, 30)
    assert large.on_unsupported == "drop"


def test_keys_budgets_and_prices_keep_their_amounts(config: Config) -> None:
    budgets = {one.name: (one.usd, one.per, one.each) for one in config.budgets}
    limits = {one.name: (one.requests, one.tokens, one.concurrent) for one in config.limits}
    prices = {price.match: price for price in config.prices if hasattr(price, "match")}

    assert config.auth.admin_key.reveal() == "value-of-litellm_master_key"
    assert config.auth.mode == "keys"
    assert budgets == {
        "everything": (5000, "month", None),
        "each-key": (25, "week", "key"),
        "each-internal-user": (50, "month", "user"),
    }
    assert limits == {
        "each-key-parallel": (None, None, 8),
        "each-key": (60, 100_000, None),
        "each-team": (None, None, 20),
    }
    sonnet = prices["anthropic/claude-sonnet-4-5"]
    assert (sonnet.input, sonnet.output, sonnet.cached_input, sonnet.cache_write) == (
        3,
        15,
        0.3,
        3.75,
    )


def test_the_cache_keeps_its_time_and_its_place(config: Config) -> None:
    kept = [model.cache for model in config.models]

    assert config.cache is not None
    assert (config.cache.store, config.cache.ttl_s) == ("redis", 600)
    assert all(one is not None and (one.ttl_s, one.when) == (600, "always") for one in kept)


@pytest.mark.parametrize(
    ("settings", "made", "listed"),
    [
        ("{cache: true, cache_params: {type: local, mode: default_off}}", 'store: "memory"', []),
        (
            "{cache: true, cache_params: {host: os.environ/H, port: 7, password: os.environ/P}}",
            'redis_url: "redis://:${P}@${H}:7"',
            [],
        ),
        ("{cache: true}", 'redis_url: "${REDIS_URL}"', ["cache"]),
        (
            "{cache: true, cache_params: {type: redis, ttl: 5}}",
            'redis_url: "${REDIS_URL}"',
            ["cache_params.type"],
        ),
        (
            "{cache: true, cache_params: {type: redis-semantic, similarity_threshold: 0.8}}",
            "",
            ["cache", "cache_params.similarity_threshold", "cache_params.type"],
        ),
        ("{cache: false, cache_params: {ttl: 5}}", "", ["cache", "cache_params.ttl"]),
    ],
)
def test_other_caches_become_their_nearest_one_or_are_listed(
    settings: str, made: str, listed: list[str]
) -> None:
    models = "model_list: [{model_name: a, litellm_params: {model: openai/a}}]"

    found = translate(tree_of(f"{models}\nlitellm_settings: {settings}"))

    assert sorted(one.path for one in found.listed) == [f"litellm_settings.{one}" for one in listed]
    assert made in found.text
    assert ("\ncache:" in found.text) == (made != "")
    assert ("when:" in found.text) == (made != "" and "default_off" not in settings)


@pytest.mark.parametrize(
    ("entry", "task"),
    [
        ("litellm_params: {model: openai/gpt-realtime}", "realtime"),
        ("litellm_params: {model: whisper-1}", "transcription"),
        ("litellm_params: {model: azure/pics}, model_info: {mode: image_generation}", "image gen"),
    ],
)
def test_what_the_gateway_does_not_serve_becomes_no_model(entry: str, task: str) -> None:
    chat = "{model_name: a, litellm_params: {model: openai/a}}"

    found = translate(tree_of(f"model_list: [{chat}, {{model_name: b, {entry}}}]"))

    assert found.models == 1
    assert all(f"does not serve {task}" in one.reason for one in found.listed)


def test_models_that_embed_fall_back_to_no_model_for_chats() -> None:
    text = """
model_list:
  - {model_name: chat, litellm_params: {model: openai/a}}
  - {model_name: embed, litellm_params: {model: openai/e}, model_info: {mode: embedding}}
  - {model_name: other, litellm_params: {model: openai/o}}
router_settings: {default_fallbacks: [chat]}
"""

    made = translate(tree_of(text)).text.partition('name: "embed"')[2]

    assert "fallback" not in made.partition('name: "other"')[0]
    assert 'fallback: ["chat"]' in made


def test_rerankers_and_moderation_are_models_to_which_no_chat_falls_back() -> None:
    text = """
model_list:
  - {model_name: chat, litellm_params: {model: openai/a}}
  - {model_name: rank, litellm_params: {model: cohere/rerank-v3.5}, model_info: {mode: rerank}}
  - model_name: harm
    litellm_params: {model: openai/omni-moderation-latest}
    model_info: {mode: moderation}
router_settings: {default_fallbacks: [chat]}
"""

    found = translate(tree_of(text))

    assert found.models == 3
    assert "fallback" not in found.text.partition('name: "rank"')[2]


def test_headers_without_credentials_stay_and_a_text_in_place_of_a_key_is_none() -> None:
    params = (
        "{model: openai/a, api_base: 'http://h/v1', api_key: none, organization: o-1, "
        "extra_headers: {X-Title: team}}"
    )

    found = translate(tree_of(f"model_list: [{{model_name: a, litellm_params: {params}}}]"))

    assert found.listed == ()
    assert found.variables == ()
    assert "api_key" not in found.text
    for made in ('"X-Title": "team"', '"openai-organization": "o-1"'):
        assert made in found.text


def test_customers_become_end_users() -> None:
    text = """
model_list: [{model_name: a, litellm_params: {model: openai/a}}]
general_settings: {user_header_name: X-OpenWebUI-User-Id}
litellm_settings: {max_end_user_budget: 0.5}
"""
    made = translate(tree_of(text)).text

    assert "header:X-OpenWebUI-User-Id" in made
    assert 'each: "end_user"' in made
    assert "usd: 0.5" in made
    assert 'per: "total"' in made


def test_secrets_of_the_input_are_in_no_output(tmp_path: Path) -> None:
    file = tmp_path / "litellm.yaml"
    entry = "{{model_name: {0}, litellm_params: {{model: openai/{0}, api_key: {1}}}}}"
    entries = ", ".join((entry.format("a", "sk-first-1"), entry.format("b", "sk-second-2")))
    file.write_text(f"model_list: [{entries}]\ngeneral_settings: {{master_key: sk-third-3}}\n")

    imported = run("import", "litellm", str(file))

    assert imported.exit_code == 0
    assert not re.search("sk-(first|second|third)", imported.output)
    assert '"${OPENAI_API_KEY}"' in imported.stdout
    assert '"${OPENAI_API_KEY_2}"' in imported.stdout  # the second key is another one
    assert "set the environment variable OPENAI_API_KEY_2 to its value" in imported.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("model_list: [", "litellm.yaml"),
        ("", "no entry that can be translated"),
        ("model_list: [{model_name: a, litellm_params: {model: sagemaker/x}}]", "no adapter"),
    ],
)
def test_an_input_without_usable_models_is_an_error_with_its_reasons(
    tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / "litellm.yaml"
    file.write_text(text)
    imported = run("import", "litellm", str(file))
    assert imported.exit_code == 1
    assert said in imported.stderr


def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    target = tmp_path / "config.yaml"
    target.write_text("mine")
    imported = run("import", "litellm", str(THIRTY), "-o", str(target))
    assert imported.exit_code == 1
    assert target.read_text() == "mine"


def test_retries_of_the_vendors_client_are_retries_of_the_model() -> None:
    entry = "{model_name: a, litellm_params: {model: openai/a, api_key: k, max_retries: 4}}"

    found = translate(tree_of(f"model_list: [{entry}]"))

    assert found.translated["model_list[0].litellm_params.max_retries"] == "models[].retry.attempts"
    assert "attempts: 5" in found.text


@pytest.mark.parametrize("strategy", ["usage-based-routing", "usage-based-routing-v2"])
def test_routing_by_usage_is_listed_with_the_nearest_policy(strategy: str) -> None:
    entry = "{model_name: a, litellm_params: {model: openai/a, api_key: k, rpm: 7}}"

    found = translate(
        tree_of(f"model_list: [{entry}]\nrouter_settings: {{routing_strategy: {strategy}}}")
    )

    (listed,) = (one for one in found.listed if one.path == "router_settings.routing_strategy")
    assert "weighted by their rpm or tpm" in listed.reason
    assert "models[].policy: least_busy" in listed.remedy


MERGED = """
shared: &shared {api_key: os.environ/KEY, timeout: 9}
azure: &azure {api_version: "2024-10-21", timeout: 5}
model_list:
  - model_name: a
    litellm_params: {<<: [*shared, *azure], model: openai/a}
  - model_name: b
    litellm_params:
      <<: *shared
      model: openai/b
      timeout: 7
"""


def test_merge_keys_of_the_input_add_their_entries(tmp_path: Path) -> None:
    file = tmp_path / "litellm.yaml"
    file.write_text(MERGED)
    target = tmp_path / "config.yaml"

    imported = run("import", "litellm", str(file), "-o", str(target))

    assert imported.exit_code == 0, imported.output
    config = load_config(target, environment(target.read_text()))
    totals = {one.timeouts.total_s for one in config.providers}
    assert totals == {9, 7}  # the entry's own key wins, and the first mapping of a list
    assert all(one.api_key is not None for one in config.providers)


def test_a_merge_key_without_a_mapping_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "litellm.yaml"
    file.write_text("model_list:\n  - <<: text\n")

    imported = run("import", "litellm", str(file))

    assert imported.exit_code == 1
    assert ":2:9: model_list[0]: <<: expected a mapping" in imported.stderr


KEYS: st.SearchStrategy[str] = st.sampled_from(
    """
    model_list model_name litellm_params model api_base api_key
    rpm weight order timeout model_info input_cost_per_token
    mode router_settings routing_strategy fallbacks num_retries default_fallbacks
    model_group_alias allowed_fails cooldown_time litellm_settings drop_params callbacks
    cache_params max_budget budget_duration default_key_generate_params rpm_limit general_settings
    master_key database_url redis_host environment_variables x-y a.b
    """.split()  # noqa: SIM905
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-5, 10**9)
    | st.floats(allow_nan=False)
    | st.sampled_from(["a", "openai/gpt-4o", "azure/x", "gpt-4o", "*", "os.environ/X", "30d"])
    | st.text(max_size=8)
)
TREES: st.SearchStrategy[Tree] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5)
)
PARAMETERS: Sequence[str] = """
api_base api_key rpm tpm weight order
timeout temperature num_retries max_retries extra_headers vertex_project aws_region_name
api_version
""".split()  # noqa: SIM905
ENTRY: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {
        "model_name": st.sampled_from(["a", "b", "c*"]) | TREES,
        "litellm_params": st.fixed_dictionaries(
            {"model": st.sampled_from(["gpt-4o", "azure/x", "ollama/y", "c*"])},
            optional=dict.fromkeys(
                PARAMETERS,
                TREES,
            ),
        ),
    },
    optional={"model_info": TREES},
)
DOCUMENTS: st.SearchStrategy[Any] = TREES | st.fixed_dictionaries(
    {"model_list": st.lists(ENTRY, max_size=4)},
    optional={
        key: st.dictionaries(KEYS, TREES, max_size=6)
        for key in ("router_settings", "litellm_settings", "general_settings")
    },
)


@settings(max_examples=examples(40))
@given(DOCUMENTS)
def test_every_leaf_of_any_document_is_translated_or_listed(tree: Tree) -> None:
    found = translate(tree)
    listed = {one.path for one in found.listed}
    assert set(found.translated) | listed == {shown(leaf) for leaf in leaves(tree)}
    assert not set(found.translated) & listed
    assert msgspec.convert(tree_of(found.text), dict[str, object])["models"] is not None
