"""Misspelt names in lists of known names are rejected; what can never match is a warning."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from strowger_gateway.gateway.config.error_codes import CODES, NO_ATTEMPTS
from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.server.asgi.exchange import ClientGone
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.schemas.errors import GatewayError
from tests.gateway.config.configs import (
    GOOD,
    faults,
    faults_of_model,
    read,
    warnings,
    with_model,
    without_places,
)

ROOT = Path(__file__).parents[4]
KEYS = "auth: {mode: keys, keys: [{name: team-a, key: sk-a-0123456789}]}\n"
ARMS = "[{name: a, backend: openai/gpt, weight: 1}, {name: b, backend: here/tiny, weight: 1}]"


def after(codes: str) -> str:
    return f"fallback_by_error: [{{codes: [{codes}], models: [chat]}}]"


CODE_FAULTS = [
    ("context_lenght_exceeded",
     'unknown error code "context_lenght_exceeded"; did you mean "context_length_exceeded" or '
     "\"rate_limit_exceeded\"? Write a vendor's own code as \"vendor:context_lenght_exceeded\""),
    ("upstream_time",
     'unknown error code "upstream_time"; did you mean "upstream_timeout", "upstream_failed" or '
     "\"upstream_lost\"? Write a vendor's own code as \"vendor:upstream_time\""),
    ("model_not_found",
     '"model_not_found" is returned before any attempt, so a fallback has no effect; the code of '
     'backends is "upstream_model_unknown"'),
    ("deadline_exceeded",
     '"deadline_exceeded" leaves no time to retry; the code of backends is "upstream_timeout"'),
    ("'vendor:'",
     "\"vendor:\" contains no code; write the vendor's after the colon"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "told"), CODE_FAULTS)
def test_a_code_that_no_failure_has_is_refused_with_the_closest(code: str, told: str) -> None:
    found = faults_of_model(after(f"content_filter, {code}"))

    assert found == [f"models[2].fallback_by_error[0].codes[1]: {told}"]


def test_a_code_like_no_other_is_refused_with_all_there_are() -> None:
    (told,) = faults_of_model(after("xyz"))

    assert all(f'"{code}"' in told for code in CODES)
    assert told.endswith('Write a vendor\'s own code as "vendor:xyz"')


@pytest.mark.parametrize("code", [*sorted(CODES), "'vendor:invalid_prompt'"])
def test_a_code_that_a_failure_can_have_is_taken(code: str) -> None:
    assert read(with_model(after(code))).models[2].fallback_by_error


def kinds(kind: type[GatewayError] = GatewayError) -> Iterator[type[GatewayError]]:
    yield kind
    for one in kind.__subclasses__():
        yield from kinds(one)


def test_every_code_of_ours_is_known_for_what_it_is() -> None:
    written = re.compile(r'(?<![\w-])code="([a-z_]+)"')
    folders = ("schemas", "adapters", "gateway", "local_engine")
    sources = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    raised = {code for path in sources for code in written.findall(path.read_text("utf-8"))}
    own = {kind.code for kind in kinds() if kind.__module__.startswith("strowger_gateway.")}

    assert {ClientGone.code, StoreUnavailable.code} <= own
    assert raised | own <= CODES | NO_ATTEMPTS.keys()
    assert not CODES & NO_ATTEMPTS.keys()


def test_every_code_is_documented() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    table = text.partition("\n## Error codes\n")[2].partition("\n## ")[0]

    assert set(re.findall(r"^\| `([a-z_]+)` \| [^|]*\|$", table, re.MULTILINE)) == CODES


def test_a_rule_for_a_key_that_the_file_lacks_is_a_warning_because_it_may_be_issued() -> None:
    rules = "when: [{key: team-b, backends: [openai/gpt]}, {key: 'team-*', backends: [openai/gpt]}]"

    assert warnings(KEYS + with_model(rules)) == [
        'models[2].when[0].key: no key of the file is named "team-b", so the rule only matches if '
        'one of this name is issued; did you mean "team-a"?'
    ]


METRIC_FAULTS = [
    ("error_rate", '"error_rate" is not a metric of the gateway; did you mean "error"?'),
    ("latency", '"latency" is not a metric of the gateway; did you mean "latency_ms"?'),
    ("cost", '"cost" is not a metric of the gateway; did you mean "cost_usd"?'),
    ("comment", "a comment has no measurable value; name another metric"),
]


@pytest.mark.parametrize(("name", "told"), METRIC_FAULTS)
@pytest.mark.parametrize("place", ["primary", "harm_limits[0].metric"])
def test_a_metric_that_would_never_have_a_value_is_refused(
    place: str, name: str, told: str
) -> None:
    primary = name if place == "primary" else "thumbs_up"
    limited = name if place != "primary" else "error"
    text = (
        f"experiments: [{{name: e, model: chat, variants: {ARMS}, primary: {primary}, "
        f"harm_limits: [{{metric: {limited}, worse_by: 0.1}}]}}]\n"
    )

    (found,) = faults(GOOD + text)

    assert found.startswith(f"experiments[0].{place}: {told}")


NEVER = [
    ("when: [{key: team-a, backends: [openai/gpt]}]",
     "when[0].key: with auth.mode none no request has a key, so the rule never matches"),
    ("when: [{features: [tools, suffix], backends: [openai/gpt]}]",
     "when[0].features: no type of request has all of these, so the rule never matches"),
    ("when: [{features: [suffix], metadata: {a: b}, backends: [openai/gpt]}]",
     "when[0].features: only chat requests have metadata, and none has these, so the rule never "
     "matches"),
    ("when: [{header: {x-tier: 'gold '}, backends: [openai/gpt]}]",
     "when[0].header.x-tier: starts or ends with a blank, which no header value does, so the "
     "rule never matches"),
    ("when: [{header: {x-tier: 'g*'}, backends: [openai/gpt]}, "
     "{header: {X-Tier: gold}, tokens_over: 5, backends: [here/tiny]}]",
     "when[1]: never decides: when[0] matches every request that it matches"),
    ("policy: sticky, sticky_by: api_key",
     "sticky_by: with auth.mode none no request has a key, so every request is assigned by weight"),
    ("defaults: {reasoning_effort: hgih}",
     'defaults.reasoning_effort: "hgih" is not a known level; did you mean "high"?'),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "told"), NEVER)
def test_what_can_never_match_is_a_warning(fields: str, told: str) -> None:
    assert warnings(with_model(fields)) == [f"models[2].{told}"]


def test_what_can_match_is_not_a_warning() -> None:
    rules = (
        "when: [{header: {x-tier: gold}, features: [tools, stream], backends: [openai/gpt]}, "
        "{header: {x-tier: 'g*'}, backends: [openai/gpt]}, {metadata: {a: b}, key: 'team-*', "
        "features: [response_format], backends: [openai/gpt]}], defaults: {reasoning_effort: low}"
    )
    prices = "prices: [{match: 'openai/*', input: 1, output: 2}]\n"

    assert warnings(KEYS + with_model(rules) + prices) == []


@pytest.mark.parametrize("origin", ["app.test", "https://app.test/x", "https://App.test", "https:"])
def test_an_origin_that_no_page_has_is_refused(origin: str) -> None:
    (told,) = faults(f"{GOOD}server: {{cors: {{allow_origins: ['*', '{origin}']}}}}\n")

    assert told.startswith(f'server.cors.allow_origins[1]: "{origin}" is not an origin')


def test_an_origin_as_browsers_send_it_is_taken() -> None:
    origins = "['https://app.test', 'https://app.test:8443/', 'null', 'http://localhost:3000', 'chrome-extension://abcdef']"

    assert read(f"{GOOD}server: {{cors: {{allow_origins: {origins}}}}}\n").server.cors


def test_a_price_next_to_a_backend_without_one_is_a_warning() -> None:
    rows = "{match: here/tiny, input: 1, output: 2}, {match: openai/gtp, input: 1, output: 2}"

    assert warnings(f"{GOOD}prices: [{rows}]\n") == [
        'prices[1].match: no model has the backend "openai/gtp", but "openai/gpt" has no price; '
        "did you mean that?"
    ]


def test_an_experiment_without_possible_participants_is_a_warning() -> None:
    text = (
        f"experiments: [{{name: e, model: chat, variants: {ARMS}, primary: thumbs_up, "
        "assign_by: api_key, harm_limits: [{metric: thumbs_upp, worse_by: 0.1}]}]\n"
    )

    assert warnings(GOOD + text) == [
        "experiments[0].assign_by: with auth.mode none no request has a key, so the experiment "
        "would have no units",
        'experiments[0].harm_limits[0].metric: "thumbs_upp" resembles "thumbs_up", the primary '
        "metric, but is a separate metric that needs its own feedback",
    ]


def test_a_field_that_a_backend_cannot_honour_is_a_warning_where_it_is_set() -> None:
    text = """
providers:
  - {name: a, adapter: anthropic, api_key: key-of-anthropic}
  - {name: o, adapter: openai, api_key: key-of-openai}
models:
  - {name: spare, backends: [{provider: o, model: z}]}
  - {name: m, backends: [{provider: a, model: x}, {provider: o, model: y}], fallback: [spare],
     defaults: {max_tokens: 100, seed: 1}, overrides: {temperature: 1.5}}
experiments:
  - name: e
    model: m
    primary: error
    variants:
      - {name: c, backend: o/y, weight: 1, set: {seed: 5}}
      - {name: t, backend: a/x, weight: 1, set: {seed: 5, top_k: 3}}
"""
    told: list[str] = []
    read_config(text, source="c", env={}, warn=told.append)

    assert without_places(told) == [
        "c: models[1].defaults.seed: is not supported by a/x (adapter anthropic), which gets no "
        "request with it while another backend supports it",
        "c: models[1].overrides.temperature: is 1.5, at most 1 is supported by a/x (adapter "
        "anthropic), which gets no request with it while another backend supports it",
        "c: experiments[0].variants[1].set.seed: is not supported by a/x (adapter anthropic), so "
        "other backends answer for this variant",
    ]
