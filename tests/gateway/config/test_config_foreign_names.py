"""Names from other gateways are rejected or warned of, with ours as a hint."""

import sys

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

ARMS = "[{name: a, backend: openai/gpt, weight: 1}, {name: b, backend: here/tiny, weight: 1}]"
BOTH = "[{provider: openai, model: gpt}, {provider: here, model: tiny}]"


@pytest.mark.parametrize(
    "key",
    ["os.environ/OPENAI_API_KEY", "env::OPENAI_API_KEY", "env.OPENAI_API_KEY", "$OPENAI_API_KEY"],
)
def test_a_variable_as_others_write_it_is_never_taken_for_a_credential(key: str) -> None:
    told = "looks like the name of a variable; write it as ${NAME}"

    assert faults_of_provider(f"adapter: openai, api_key: '{key}'") == [
        f"providers[0].api_key: {told}"
    ]
    assert faults(f"{GOOD}auth: {{admin_key: '{key}'}}\n") == [f"auth.admin_key: {told}"]


def test_a_credential_that_was_filled_in_may_look_like_anything() -> None:
    config = read(f"{GOOD}auth: {{admin_key: '${{KEY}}'}}\n", env={"KEY": "$OPENAI_API_KEY"})

    assert config.auth.admin_key.reveal() == "$OPENAI_API_KEY"


def test_the_word_in_front_of_a_key_is_not_part_of_it() -> None:
    (told,) = faults_of_provider("adapter: openai, api_key: 'Bearer sk-0123'")
    (other,) = faults(f"{GOOD}auth: {{mode: keys, keys: [{{name: a, key: 'bearer sk-0123'}}]}}\n")

    assert told.endswith("starts with the word Bearer, which is not part of a key; remove it")
    assert other.startswith("auth.keys[0].key: starts with the word Bearer")


def test_a_base_url_is_not_a_single_route_and_has_a_v1() -> None:
    one = "adapter: openai, base_url: 'http://127.0.0.1:8000"
    (route,) = faults_of_provider(f"{one}/v1/chat/completions'")
    bare = warnings(GOOD.replace("adapter: openai", f"{one}'"))
    whole = warnings(GOOD.replace("adapter: openai", f"{one}/v1'"))

    assert route == ("providers[0].base_url: ends with a route; give only the part before it")
    assert bare == [
        "providers[0].base_url: has no path; OpenAI-compatible servers usually use HOST/v1"
    ]
    assert whole == []


MODELS = [
    ("fallback: chat", "fallback: expected a list, found text; put it between [ and ]"),
    ("fallback: [openai/gpt-5]",
     'fallback[0]: no model is named "openai/gpt-5"; fallback lists models; add a backend to '
     "backends, with weight 0"),
    ("retry: 3",
     'retry: expected a mapping, found a number; its keys: "attempts", "on", "backoff_s", '
     '"max_backoff_s", "wait_for_s"'),
    ("num_retries: 3", 'num_retries: unknown key; did you mean "retry"?'),
    ("timeout: 30", 'timeout: unknown key; did you mean "deadline_s"?'),
    ("policy: round_robin",
     'policy: expected one of "in_order", "weighted", "least_busy", "lowest_latency", '
     '"lowest_cost", "sticky", "prefix_affinity", found "round_robin"; did you mean "weighted"?'),
    ("fallback_by_error: {content_filter: [chat]}",
     "fallback_by_error: expected a list, found a mapping; each entry is a mapping with the keys "
     '"codes", "models"'),
    ("fallback_by_error: [{codes: [content_policy_violation], models: [chat]}]",
     'fallback_by_error[0].codes[0]: unknown error code "content_policy_violation"; did you mean '
     "\"content_filter\"? Write a vendor's own code as \"vendor:content_policy_violation\""),
    ("when: [{features: [vision], backends: [openai/gpt]}]",
     'when[0].features[0]: unknown feature "vision"; did you mean "messages.image"?'),
    ("when: [{header: 'x-tier: gold', backends: [openai/gpt]}]",
     "when[0].header: expected a mapping, found text; write it as {NAME: VALUE}"),
    ("mirror: here/tiny",
     'mirror: expected a mapping, found text; its keys: "backend", "share"'),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "told"), MODELS)
def test_spellings_of_other_gateways_in_a_model_are_reported_with_ours(
    fields: str, told: str
) -> None:
    assert faults_of_model(fields) == [f"models[2].{told}"]


def test_the_error_for_a_backend_in_one_word_names_its_keys() -> None:
    keys = '"provider", "model", "weight", "discover"'

    assert faults(GOOD.replace("{provider: openai, model: gpt}", "openai/gpt")) == [
        f"models[0].backends[0]: expected a mapping, found text; its keys: {keys}"
    ]


def test_an_adapter_by_another_gateways_name_is_reported_with_ours() -> None:
    (told,) = faults_of_provider("adapter: azure_openai")

    assert told == 'providers[0].adapter: no adapter is named "azure_openai"; did you mean "azure"?'


def test_the_guardrails_of_an_experiment_are_reported_as_harm_limits() -> None:
    limits = "guardrails: [{metric: error, worse_by: 0.02}]"
    text = f"{{name: e, model: chat, variants: {ARMS}, primary: ttft_ms, {limits}}}"

    assert faults(f"{GOOD}experiments: [{text}]\n") == [
        'experiments[0].guardrails: unknown key; did you mean "harm_limits"?'
    ]


def test_a_merge_key_is_reported_as_one() -> None:
    (told,) = faults(f"{GOOD}server: {{<<: {{port: 1}}}}\n")

    assert told.startswith('server["<<"]: unknown key; YAML 1.2 has no merge keys')


def test_no_tab_may_indent() -> None:
    (told,) = faults("models:\n\t- name: chat\n")

    assert told == "not valid YAML: a tab cannot indent; indent with spaces"


def test_a_share_of_false_alarms_in_per_cent_is_refused_with_both_bounds() -> None:
    text = f"{{name: e, model: chat, variants: {ARMS}, primary: thumbs_up, alpha: 5}}"

    assert faults(f"{GOOD}experiments: [{text}]\n") == [
        "experiments[0].alpha: expected a number above 0, below 1, found 5"
    ]


def test_a_wildcard_is_not_offered_to_an_experiment() -> None:
    text = f"{{name: e, model: gpt-5, variants: {ARMS}, primary: thumbs_up}}"
    wild = f"{GOOD}  - {{name: 'gpt-*', backends: [{{provider: openai, model: '*'}}]}}\n"

    (told,) = faults(f"{wild}experiments: [{text}]\n")

    assert told.startswith('experiments[0].model: no model is named "gpt-5"; ')
    assert "gpt-*" not in told


VAIN = [
    ("retry: {attempts: 1}, fallback: [chat]",
     "retry.attempts: 1 attempt is shared by all backends and fallbacks, so fallback \"chat\" "
     "is only used while others are unavailable; set at least 2"),
    (f"retry: {{attempts: 2}}, fallback: [chat], backends: {BOTH}",
     "retry.attempts: 2 attempts are shared by all backends and fallbacks, so fallback \"chat\" "
     "is only used while others are unavailable; set at least 3"),
    (f"retry: {{attempts: 1}}, policy: in_order, backends: {BOTH}",
     "retry.attempts: 1 attempt is shared by all backends and fallbacks, so backends[1] "
     "is only used while others are unavailable; set at least 2"),
    ("retry: {attempts: 1}, fallback_by_error: [{codes: [content_filter], models: [chat]}]",
     "retry.attempts: 1 attempt is shared by all backends and fallbacks, so fallback_by_error "
     "is only used while others are unavailable; set at least 2"),
    ("hedge_after_s: 1, backends: [{provider: openai, model: gpt}]",
     "hedge_after_s: has no effect: the model has one backend and no fallback"),
    (f"hedge_after_s: 1, retry: {{attempts: 1}}, backends: {BOTH}",
     "hedge_after_s: has no effect: a hedge is an attempt, and retry.attempts is 1; set at least "
     "2"),
    (f"hedge_after_s: 30, deadline_s: 10, backends: {BOTH}",
     "hedge_after_s: has no effect: it is not less than deadline_s (10)"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "told"), VAIN)
def test_what_can_never_come_to_pass_is_a_warning(fields: str, told: str) -> None:
    assert warnings(with_model(fields)) == [f"models[2].{told}"]


def test_a_first_byte_that_may_come_after_the_end_is_a_warning() -> None:
    provider = "  - {name: late, adapter: openai, base_url: 'http://h/v1', api_key: k, timeouts: "
    text = GOOD.replace("\nmodels:", f"{provider}{{first_byte_s: 90, total_s: 60}}}}\nmodels:", 1)

    assert warnings(text) == [
        "providers[2].timeouts.first_byte_s: has no effect: it is not less than total_s (60)"
    ]


def test_differences_that_no_data_could_show_are_warnings() -> None:
    limits = "[{metric: latency_ms, worse_by: 200}, {metric: error, worse_by: 2}]"
    text = (
        f"{{name: e, model: chat, variants: {ARMS}, primary: ttft_ms, smallest: 50, "
        f"harm_limits: {limits}}}"
    )

    assert warnings(f"{GOOD}experiments: [{text}]\n") == [
        "experiments[0].harm_limits[0].worse_by: 200 is relative to latency_ms and means 20,000%; "
        "0.2 means 20 % slower",
        "experiments[0].harm_limits[1].worse_by: 2 is impossible: shares of requests differ by "
        "less than 1; 0.02 means 2 %",
        "experiments[0].smallest: 50 is relative to ttft_ms and means 5,000%; 0.2 means "
        "20 % slower",
    ]


def test_an_experiment_that_ends_a_failover_is_a_warning() -> None:
    text = f"experiments: [{{name: e, model: m, variants: {ARMS}, primary: thumbs_up}}]\n"

    (told,) = warnings(with_model(f"backends: {BOTH}") + text)
    (circular,) = warnings(with_model(f"backends: {BOTH}, fallback: [chat]") + text)
    other = "  - {name: other, backends: [{provider: openai, model: other}]}\n"
    spared = warnings(with_model(f"backends: {BOTH}, fallback: [other]") + other + text)

    assert told.startswith(
        "experiments[0].model: every backend of the model and of its fallbacks belongs to a variant"
    )
    assert circular == told
    assert spared == []


@pytest.mark.parametrize(
    ("more", "port", "judged"),
    [
        ("", 8080, True),
        ("models: [tiny], ", 8080, True),
        ("models: [chat], ", 8080, False),
        ("who: {key: web}, ", 8080, False),
        ("", 8000, False),
    ],
)
def test_a_judge_that_judges_its_own_requests_is_a_warning(
    more: str, port: int, judged: bool
) -> None:
    url = f"http://127.0.0.1:{port}/v1"
    keys = "auth: {mode: keys, keys: [{name: web, key: key-of-the-web}]}\n"
    text = (
        f"{{name: kind, use: judge, {more}settings: {{base_url: '{url}', model: tiny, policy: p}}}}"
    )

    told = [one for one in warnings(f"{GOOD}{keys}guardrails: [{text}]\n") if "judge" in one]

    assert [one.partition(":")[0] for one in told] == ["guardrails[0].models"] * judged


@pytest.mark.parametrize("absent", ["torch", "transformers"])
def test_an_engine_without_its_packages_is_a_fault(
    absent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, absent, None)  # as if it were not installed

    assert faults(GOOD) == [
        "providers[1].engine: needs the packages torch and transformers; pip install "
        "'strowger-gateway[local]'"
    ]


@pytest.mark.parametrize(
    ("check", "model", "told"),
    [
        ("{path: /h}", "", "health_check: has no effect: no model has a backend of this provider"),
        ("{path: /h}", "gpt", ""),
        ("{path: /h}", "'*'", ""),
        ("{request: smallest}", "gpt", ""),
        (
            "{request: smallest}",
            "'*'",
            "health_check.request: has no effect: the provider has wildcards only, which get no "
            "requests; give path",
        ),
    ],
)
def test_a_health_check_that_is_never_sent_is_a_warning(check: str, model: str, told: str) -> None:
    provider = "  - {name: late, adapter: openai, base_url: 'http://h/v1', api_key: k"
    text = GOOD.replace("\nmodels:", f"{provider}, health_check: {check}}}\nmodels:", 1)
    if model:
        backend = f"{{provider: late, model: {model}}}"
        text += f"  - {{name: '{model.strip(chr(39))}', backends: [{backend}]}}\n"

    assert warnings(text) == ([f"providers[2].{told}"] if told else [])
