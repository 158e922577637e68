"""`strowger explain` shows where a request in a file would be routed, without sending it."""

import json
from pathlib import Path

import msgspec
import pytest

from strowger_gateway.gateway.console.explain.explanation import Explanation, Reason
from tests.gateway.cli.command_line import run, table

CONFIG = """
providers:
  - {name: openai, adapter: openai, api_key: sk-of-the-operator}
  - {name: other, adapter: mistral, api_key: y}
  - {name: npu, adapter: mindie, base_url: "http://127.0.0.1:9"}
  - {name: trt, adapter: triton-tokens, base_url: "http://127.0.0.1:9"}
  - {name: here, adapter: local, engine: {models: [{name: tiny-chat, path: "bundled:tiny-chat"}]}}
auth:
  mode: keys
  keys: [{name: team-a, key: k1, models: [chat], max_priority: 3}, {name: team-b, key: k2}]
models:
  - name: chat
    aliases: [talk]
    backends:
      - {provider: openai, model: gpt, weight: 89}
      - {provider: openai, model: mini, weight: 11}
      - {provider: here, model: tiny-chat, weight: 0}
    fallback: [backup]
    deadline_s: 60
    retry: {attempts: 4, on: [connect, rate_limit]}
    fallback_by_error: [{codes: [context_length_exceeded, content_filter], models: [long]}]
    when:
      - {header: {x-tier: "prem*"}, key: team-b, backends: [openai/best]}
      - {features: [tools], backends: [other/haiku]}
      - {tokens_over: 50, backends: [other/haiku]}
  - name: backup
    policy: in_order
    overrides: {temperature: 0}
    backends: [{provider: openai, model: a}, {provider: other, model: b}]
  - {name: long, backends: [{provider: other, model: long}]}
  - {name: cheap, policy: lowest_cost, backends: [{provider: openai, model: dear},
      {provider: openai, model: cheap}, {provider: openai, model: free}]}
  - {name: sticky, policy: sticky, backends: [{provider: openai, model: a},
      {provider: openai, model: b}]}
  - {name: thirds, backends: [{provider: openai, model: a}, {provider: openai, model: b},
      {provider: openai, model: c}]}
  - {name: raced, hedge_after_s: 1.5, mirror: {backend: other/new, share: 0.05},
      backends: [{provider: openai, model: a}]}
  - {name: tokens, backends: [{provider: trt, model: m}, {provider: npu, model: m}]}
  - {name: "gpt-*", backends: [{provider: openai, model: "*"}]}
prices:
  - {match: openai/dear, input: 5, output: 15}
  - {match: openai/cheap, input: 1, output: 2}
"""
HELLO = [{"role": "user", "content": "Hello"}]
TOOL = {"type": "function", "function": {"name": "f"}}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    return path


def explained(config: Path, body: object, *words: str, status: int = 0) -> Explanation:
    """Explain a request from standard input."""
    result = run(
        *("explain", "-", "--config", str(config), "--json", *words), typed=json.dumps(body)
    )
    assert result.exit_code == status, result.output
    return msgspec.json.decode(result.stdout, type=Explanation)


def chat(model: str = "chat", **more: object) -> dict[str, object]:
    return {"model": model, "messages": HELLO, **more}


def backends(found: Explanation) -> list[str]:
    return [one.backend for one in found.candidates]


def reasons(found: Explanation) -> dict[str, tuple[Reason, ...]]:
    return {f"{one.route}: {one.backend}": one.reasons for one in found.ruled_out}


def test_the_candidates_are_in_order_with_their_share_of_all_draws(
    config: Path,
) -> None:
    found = explained(config, chat())

    assert [(one.route, one.backend, one.share) for one in found.candidates] == [
        ("chat", "openai/gpt", 0.89),
        ("chat", "openai/mini", 0.11),
        ("chat", "here/tiny-chat", 0.0),
        ("backup", "openai/a", 1.0),
        ("backup", "other/b", 0.0),
    ]
    assert [one.why for one in found.candidates] == [
        "weight 89 of 100",
        "weight 11 of 100",
        "weight 0: tried last",
        "position 1 in the list",
        "position 2 in the list",
    ]


def test_shares_of_thirds_are_thirds(config: Path) -> None:
    found = explained(config, chat("thirds"))

    assert [one.share for one in found.candidates] == [0.3333, 0.3333, 0.3333]


@pytest.mark.parametrize(
    ("model", "route", "how"),
    [("chat", "chat", "exact"), ("talk", "chat", "alias"), ("gpt-9", "gpt-*", "wildcard")],
)
def test_how_the_route_was_found(config: Path, model: str, route: str, how: str) -> None:
    found = explained(config, chat(model))

    assert (found.route, found.found) == (route, how)


def test_a_wildcard_hands_the_name_on(config: Path) -> None:
    found = explained(config, chat("gpt-9"))

    assert [(one.backend, one.model) for one in found.candidates] == [("openai/gpt-9", "gpt-9")]


def test_the_first_matching_rule_decides_and_others_show_why_they_do_not_match(
    config: Path,
) -> None:
    found = explained(config, chat(tools=[TOOL]), "--header", "X-Tier: basic", "--key", "team-a")

    assert found.rule == 1
    assert [(rule.holds, rule.unmet) for rule in found.rules] == [
        (False, ("the key is 'team-a'", "the header x-tier is 'basic'")),
        (True, ()),
        (None, ()),
    ]
    assert [rule.when for rule in found.rules] == [
        "header x-tier: prem*, key team-b",
        "uses tools",
        "tokens over 50",
    ]
    assert backends(found)[0] == "other/haiku"
    assert reasons(found)["chat: openai/gpt"] == (
        Reason(words="`when` rule 2 selects other backends"),
    )
    assert reasons(found)["chat: openai/best"] == (Reason(words="is used by `when` rules only"),)


def test_a_rule_holds_for_its_key_and_header_together(config: Path) -> None:
    found = explained(config, chat(), "--header", "x-tier:premium", "--key", "team-b")

    assert (found.rule, backends(found)[0]) == (0, "openai/best")


def test_a_backend_is_ruled_out_field_by_field(config: Path) -> None:
    found = explained(config, chat(top_k=4, min_p=0.1))

    assert backends(found) == ["here/tiny-chat"]
    assert reasons(found)["chat: openai/gpt"] == (
        Reason(field="min_p", words="is not supported"),
        Reason(field="top_k", words="is not supported"),
    )


@pytest.mark.parametrize(("require", "missing"), [("", False), ("require: true, ", True)])
def test_a_field_that_the_gateway_adds_rules_no_backend_out(
    tmp_path: Path, require: str, missing: bool
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "providers: [{name: claude, adapter: anthropic, api_key: sk-of-the-operator}]\n"
        f"models: [{{name: chat, {require}backends: [{{provider: claude, model: opus}}]}}]\n"
    )

    found = explained(config, chat(logit_bias={"1": 2}), status=1)

    fields = [one.field for one in reasons(found)["chat: claude/opus"]]
    assert fields == ["logit_bias", *(["max_tokens"] if missing else [])]


def test_what_each_candidate_gets_of_the_request(config: Path) -> None:
    found = explained(config, chat(max_completion_tokens=9, temperature=0.5))

    gets = {one.backend: one for one in found.candidates}
    assert gets["other/b"].set == gets["openai/a"].set == ("temperature",)
    assert gets["openai/gpt"].set == ()
    assert gets["openai/gpt"].translated == {"max_tokens": "max_completion_tokens"}


def test_a_fallback_is_proven_without_an_outage(config: Path) -> None:
    """Promise 20."""
    found = explained(config, chat(), "--down", "openai", "--down", "here/tiny-chat")

    assert backends(found) == ["other/b"]
    assert found.candidates[0].share == 1.0
    assert set(reasons(found)) >= {"chat: openai/gpt", "chat: openai/mini", "backup: openai/a"}
    assert reasons(found)["chat: openai/gpt"][0].words == "is assumed down"


def test_with_everything_down_a_backend_is_still_tried(config: Path) -> None:
    found = explained(config, chat("long"), "--down", "other")

    assert backends(found) == ["other/long"]
    assert found.candidates[0].health.breaker == "open"


def test_fallbacks_for_certain_errors_and_the_limits_are_shown(config: Path) -> None:
    found = explained(config, chat(timeout=7))

    assert [(one.code, one.models, one.backends) for one in found.fallback_by_error] == [
        ("content_filter", ("long",), ("other/long",)),
        ("context_length_exceeded", ("long",), ("other/long",)),
    ]
    assert found.bounds is not None
    assert (found.bounds.attempts, found.bounds.retry_on) == (4, ("connect", "rate_limit"))


def test_hedges_and_later_candidates_are_shown(config: Path) -> None:
    found = explained(config, chat("raced"))

    assert found.bounds is not None
    assert found.bounds.hedge_after_s == 1.5
    assert found.mirror is not None
    assert (found.mirror.backend, found.mirror.share) == ("other/new", 0.05)
    assert found.mirror.unsupported_reason == ""


def test_what_a_mirror_does_not_support_is_shown(config: Path) -> None:
    found = explained(config, chat("raced", logit_bias={"5": 1}))

    assert found.mirror is not None
    assert found.mirror.unsupported_reason == "other/new: logit_bias is not supported"


def test_a_backend_that_lacks_optional_fields_comes_later_and_is_not_ruled_out(
    config: Path,
) -> None:
    asked = {"input_id": [5, 6]}
    both = explained(config, asked, "--surface", "/v1/models/tokens/infer_token")
    lesser_down = explained(
        *(config, asked, "--surface", "/v1/models/tokens/infer_token", "--down", "trt")
    )

    assert backends(both) == ["npu/m", "trt/m"]
    assert [one.dropped for one in both.candidates] == [(), ("answer.text",)]
    assert backends(lesser_down) == ["npu/m"]
    assert reasons(lesser_down) == {"tokens: trt/m": (Reason(words="is assumed down"),)}


def test_costs_decide_where_the_policy_says_so(config: Path) -> None:
    found = explained(config, chat("cheap", max_tokens=1000))

    assert [(one.backend, one.share) for one in found.candidates] == [
        ("openai/cheap", 1.0),
        ("openai/dear", 0.0),
        ("openai/free", 0.0),
    ]
    assert found.candidates[0].why == "about $0.002005"
    assert found.candidates[2].why == "no price"


def test_a_user_sticks_and_no_backend_is_drawn(config: Path) -> None:
    one = explained(config, chat("sticky", user="u-1"))
    nobody = explained(config, chat("sticky"))

    assert [each.share for each in one.candidates] == [1.0, 0.0]
    assert one.candidates[0].why == "by user 'u-1'"
    assert [each.share for each in nobody.candidates] == [0.5, 0.5]
    assert nobody.candidates[0].why == "no user in the request: weight 1 of 2"


@pytest.mark.parametrize(
    ("body", "words", "code"),
    [
        (chat("cat"), (), "model_not_found"),
        (chat("long"), ("--key", "team-a"), "model_not_allowed"),
        (chat("long", top_k=4, echo=True), (), "unsupported"),
    ],
    ids=["no such model", "not for this key", "not supported"],
)
def test_what_would_be_refused_says_so_and_exits_with_1(
    config: Path, body: object, words: tuple[str, ...], code: str
) -> None:
    found = explained(config, body, *words, status=1)

    assert found.refused is not None
    assert found.refused.code == code
    assert found.candidates == ()


@pytest.mark.parametrize(
    ("body", "words", "path", "model"),
    [
        (chat(), (), "/v1/chat/completions", "chat"),
        ({"model": "chat", "prompt": "a"}, (), "/v1/completions", "chat"),
        ({"model": "chat", "input": "a"}, (), "/v1/embeddings", "chat"),
        ({"input_id": [1, 2]}, ("--model", "chat"), "/infer_token", "chat"),
        ({"input_id": [1, 2]}, (), "/infer_token", "chat"),
        (
            {"text_input": "a", "max_tokens": 3},
            ("--model", "chat"),
            "/v2/models/chat/generate",
            "chat",
        ),
        (chat(), ("--surface", "databricks"), "/serving-endpoints/chat/completions", "chat"),
        (
            {"messages": HELLO},
            ("--surface", "/serving-endpoints/chat/invocations"),
            "/serving-endpoints/chat/invocations",
            "chat",
        ),
    ],
)
def test_the_surface_is_recognised_by_the_body_or_named(
    config: Path, body: object, words: tuple[str, ...], path: str, model: str
) -> None:
    result = run("explain", "-", "--config", str(config), "--json", *words, typed=json.dumps(body))

    found = msgspec.json.decode(result.stdout, type=Explanation)
    assert (found.path, found.model) == (path, model)


@pytest.mark.parametrize(
    ("body", "words", "told"),
    [
        ("{", (), "the body is not valid JSON"),
        ("{}", (), "the body's fields match no surface"),
        ('{"text_input": "a"}', (), "set the model, or use the full path"),
        ('{"model": "chat", "messages": 3}', (), "messages"),
        ("{}", ("--surface", "/v9"), "unknown endpoint /v9"),
        ("{}", ("--surface", "opnai"), "unknown surface 'opnai'"),
        (json.dumps(chat()), ("--key", "team-c"), 'did you mean "team-'),
        (json.dumps(chat()), ("--down", "opnai"), 'did you mean "openai"'),
    ],
)
def test_an_invalid_question_is_reported_on_stderr(
    config: Path, body: str, words: tuple[str, ...], told: str
) -> None:
    result = run("explain", "-", "--config", str(config), *words, typed=body)

    assert result.exit_code == 1
    assert told in result.stderr
    assert result.stdout == ""


def test_a_person_reads_tables(config: Path, tmp_path: Path) -> None:
    request = tmp_path / "request.json"
    request.write_text(json.dumps(chat("talk", max_completion_tokens=9)))

    result = run("explain", str(request), "--config", str(config), "--down", "other")
    longer = run("explain", str(request), "--config", str(config))

    assert result.exit_code == 0
    assert table(result.stdout, "BACKEND")[0][:2] == ["1", "openai/gpt"]
    assert table(result.stdout, "RULE")[0][:2] == ["1", "header x-tier: prem*, key team-b"]
    assert "by an alias" in result.stdout
    assert "89 %" in result.stdout
    assert "sk-of-the-operator" not in result.output
    assert "candidates in order; FIRST" in result.stdout
    assert "candidates in order (max 4 attempts); FIRST" in longer.stdout


def test_a_missing_file_is_an_error(config: Path) -> None:
    result = run("explain", "none.json", "--config", str(config))

    assert result.exit_code == 1
    assert result.stderr == "none.json: cannot read: No such file or directory\n"
