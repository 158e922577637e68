"""Mistakes that people make in config.yaml: each is reported with its place, and what to write."""

import json
from pathlib import Path

import pytest

from tests.gateway.cli.command_line import run

GOOD = """\
providers:
  - name: p
    adapter: openai
    base_url: http://127.0.0.1:9/v1
    api_key: k
models:
  - name: chat
    backends: [{provider: p, model: m}]
"""
SERVER = f"{GOOD}server:\n  "


def with_model(line: str) -> str:
    """The configuration with one more line in its model."""
    return GOOD.replace("    backends: [", f"    {line}\n    backends: [")


TRIAL = """experiments:
  - {name: e, model: chat, primary: error, smallest: 0.1, assign_by: request,
     variants: [{name: a, backend: p/m, weight: 1}, {name: b, backend: %s, weight: 1}]}
"""
SYNTAX = {
    "a key indented too far": (
        "models:\n  - name: a\n     backends: []\n",
        "3:14: not valid YAML: a colon is not expected here: the line is indented more than",
    ),
    "a key indented too little": (
        "server:\n    port: 1\n  host: a\n",
        "3:3: not valid YAML: this line begins in column 3, which fits no line before it; indent "
        "it as the other keys",
    ),
    "a tab": (
        "server:\n\tport: 1\n",
        "2:1: not valid YAML: a tab cannot indent; indent with spaces",
    ),
    "a list that is not closed": (
        "models: [{name: a}\nserver: {}\n",
        "2:1: not valid YAML: a list or mapping in brackets that begins on line 1 is not closed",
    ),
    "a quote that is not closed": (
        'server: {host: "localhost}\n',
        "not valid YAML: the text in quotes that begins on line 1 is not closed",
    ),
    "a text with a colon": (
        "server:\n  host: a: b\n",
        "2:10: not valid YAML: a colon is not expected here",
    ),
    "a key without a colon": (
        "server:\n  port 8080\n  host: a\n",
        "not valid YAML: a colon is not expected here",
    ),
    "an @ at the beginning": ("server: {host: @home}\n", "has to be in quotes"),
    "an asterisk without quotes": ("models: *all\n", "* begins a reference to an anchor (&)"),
    "two documents": ("a: 1\n---\nb: 2\n", "the file has several documents"),
    "a reference in braces": ("server: {host: ${HOST}}\n", "between { and }, put ${…} in quotes"),
    "a backslash in quotes": ('server: {host: "C:\\data"}\n', "a backslash begins an escape"),
    "a list entry among keys": (
        "server:\n  port: 1\n  - host\n",
        "3:3: not valid YAML: a list entry (-) stands among the keys of the mapping that begins on "
        "line 2",
    ),
    "a key among list entries": (
        "models:\n  - name: a\n  name: b\n",
        "3:3: not valid YAML: this line belongs to no entry of the list that begins on line 2",
    ),
}
VALUES = {
    "seconds with a unit": (
        with_model("retry: {backoff_s: 30s}"),
        '8:13: models[0].retry.backoff_s: expected a number of at least 0, found "30s"; write 30, '
        "in seconds",
    ),
    "minutes": (with_model("retry: {max_backoff_s: 5m}"), '"5m"; write 300, in seconds'),
    "milliseconds": (with_model("retry: {backoff_s: 500ms}"), "write 0.5, in seconds"),
    "a size with a unit of ten": (
        f"{SERVER}max_body_bytes: 20MB\n",
        '10:3: server.max_body_bytes: expected a size such as 512MiB, found "20MB"; write 20MiB',
    ),
    "a size in lower case": (f"{SERVER}max_body_bytes: 20mb\n", "write 20MiB"),
    "a number with k": (f"{SERVER}max_in_flight: 10k\n", 'found "10k"; write 10000'),
    "a number in groups": (f"{SERVER}max_in_flight: '10,000'\n", "write 10000"),
    "per cent": (
        GOOD + "telemetry: {otlp: {endpoint: 'http://c.example:4318', sample: 10%}}\n",
        'found "10%"; write 0.1',
    ),
    "a number in quotes": (f"{SERVER}port: '8080'\n", "write 8080, without quotes"),
    "a number that is too large": (f"{SERVER}port: 70000\n", "an integer from 0 to 65535"),
    "yes for true": (GOOD + "auth: {mode: yes}\n", 'auth.mode: expected one of "none", "keys"'),
    "a mapping for a list": (
        "providers: {name: p}\nmodels: []\n",
        "1:1: providers: expected a list, found a mapping",
    ),
    "a text for a list": (
        with_model("fallback: other"),
        "models[0].fallback: expected a list, found text; put it between [ and ]",
    ),
    "nothing": ("", "is empty; it needs at least `providers` and `models`"),
}
NAMES = {
    "a key of the top": (GOOD + "modles: []\n", '9:1: modles: unknown key; did you mean "models"?'),
    "a key inside": (with_model("polcy: weighted"), "8:5: models[0].polcy: unknown key; did you"),
    "a key of another gateway": (with_model("api_base: x"), "models[0].api_base: unknown key"),
    "a key twice": (GOOD + "models: []\n", "9:1: models: already given on line 6"),
    "a provider": (
        GOOD.replace("provider: p,", "provider: pp,"),
        '8:17: models[0].backends[0].provider: no provider is named "pp"; did you mean "p"?',
    ),
    "an adapter": (GOOD.replace("adapter: openai", "adapter: opnai"), 'did you mean "openai"?'),
    "a fallback": (with_model("fallback: [chatt]"), "8:16: models[0].fallback[0]: "),
    "a circle of fallbacks": (with_model("fallback: [chat]"), "models[0].fallback"),
    "a policy": (with_model("policy: round_robin"), 'did you mean "weighted"?'),
    "a model twice": (
        GOOD + "  - {name: chat, backends: [{provider: p, model: m}]}\n",
        "9:6: models[1].name: ",
    ),
    "a variable that is not set": (
        GOOD.replace("api_key: k", 'api_key: "${NOT_SET_HERE}"'),
        "5:5: providers[0].api_key: the environment variable NOT_SET_HERE is not set",
    ),
    "LiteLLM's way to name a variable": (
        GOOD.replace("api_key: k", "api_key: os.environ/OPENAI_API_KEY"),
        "5:5: providers[0].api_key: ",
    ),
    "a variable without ${}": (
        GOOD.replace("api_key: k", "api_key: $OPENAI_API_KEY"),
        "looks like the name of a variable; write it as ${NAME}",
    ),
    "Bearer in a key": (
        GOOD.replace("api_key: k", "api_key: Bearer sk-1"),
        "starts with the word Bearer, which is not part of a key; remove it",
    ),
    "two keys of a pool with one name": (
        GOOD.replace("api_key: k", "api_keys: [{key: a, name: n}, {key: b, name: n}]"),
        "5:44: providers[0].api_keys[1].name: is also that of api_keys[0]",
    ),
    "a key and a pool": (
        GOOD.replace("api_key: k", "api_key: k\n    api_keys: [a]"),
        "6:5: providers[0].api_keys: conflicts with api_key; move that key into the list",
    ),
    "an address without a scheme": (
        GOOD.replace("http://127.0.0.1:9/v1", "127.0.0.1:9/v1"),
        "4:5: providers[0].base_url: ",
    ),
    "a LiteLLM configuration": (
        "model_list:\n  - {model_name: a, litellm_params: {model: gpt-4o}}\n",
        "1:1: model_list: is a key of LiteLLM; `strowger import litellm FILE` translates",
    ),
    "a Kubernetes manifest": (
        "apiVersion: v1\nkind: ConfigMap\n",
        "1:1: apiVersion: is a key of a Kubernetes manifest",
    ),
    "an experiment's backend": (
        GOOD + TRIAL % "pp/other",
        "11:63: experiments[0].variants[1].backend: ",
    ),
    "a guardrail's hook": (
        GOOD + "guardrails: [{name: g, use: secretz}]\n",
        "9:24: guardrails[0].use: no hook is named 'secretz'",
    ),
    "a setting of a guardrail": (
        GOOD + "guardrails: [{name: g, use: sizes, settings: {max_charcters: 1}}]\n",
        "guardrails[0]",
    ),
    "a store": (GOOD + "store: {url: 'mysql://x'}\n", "9:9: store.url: "),
    "a prompt's field": (GOOD + "teams: [{nme: a}]\n", "teams[0].nme: unknown key"),
}
WARNINGS = {
    "payloads to the store that are off": (
        GOOD + "logging: {payloads: {to: store}}\n",
        "9:22: logging.payloads.to: has no effect, because mode is off and nothing is recorded",
    ),
    "a control without a fallback": (
        GOOD.replace(
            "models:",
            "  - {name: q, adapter: openai, base_url: 'http://127.0.0.1:9', api_key: k}\nmodels:",
        )
        + TRIAL % "q/n",
        "experiments[0].model: variant a has no backend to fall back to",
    ),
    "the same key twice": (
        GOOD.replace("api_key: k", "api_keys: [key-one, key-one]"),
        "5:25: providers[0].api_keys[1].key: is the same key as api_keys[0]; remove one",
    ),
}


def check(text: str, folder: Path, *options: str) -> tuple[int, str, str]:
    file = folder / "config.yaml"
    file.write_text(text)
    result = run("check", str(file), *options)
    return result.exit_code, result.stdout, result.stderr.replace(str(file), "config.yaml")


MISTAKES = {**SYNTAX, **VALUES, **NAMES}


@pytest.mark.parametrize("mistake", list(MISTAKES))
def test_a_mistake_is_reported_with_its_place_and_its_cure(mistake: str, tmp_path: Path) -> None:
    text, message = MISTAKES[mistake]

    status, printed, errors = check(text, tmp_path)

    assert status == 1
    assert printed == ""
    assert message in errors
    assert all(line.startswith("config.yaml:") for line in errors.splitlines())


@pytest.mark.parametrize("mistake", list(WARNINGS))
def test_what_is_valid_and_probably_wrong_is_a_warning(mistake: str, tmp_path: Path) -> None:
    text, message = WARNINGS[mistake]

    status, printed, errors = check(text, tmp_path)

    assert status == 0, errors
    assert "OK" in printed
    assert message in errors


def test_mistakes_of_all_kinds_are_reported_in_one_pass(tmp_path: Path) -> None:
    text = (
        GOOD.replace("api_key: k", 'api_key: "${NOT_SET_HERE}"')
        + TRIAL % "pp/other"
        + "guardrails: [{name: g, use: secretz}]\nserver: {port: '80'}\nstore: {url: 'mysql://x'}\n"
    )

    _, _, errors = check(text, tmp_path)

    places = [line.split(": ")[1] for line in errors.splitlines()]
    assert {"providers[0].api_key", "guardrails[0].use", "server.port", "store.url"} <= {*places}
    assert any(place.startswith("experiments[0]") for place in places)


def test_ci_reads_json(tmp_path: Path) -> None:
    _, wrong, _ = check(GOOD + "server: {port: '80'}\n", tmp_path, "--json")
    status, right, errors = check(GOOD + "logging: {payloads: {to: store}}\n", tmp_path, "--json")

    (error,) = json.loads(wrong)["errors"]
    assert (error["line"], error["column"], error["path"]) == (9, 10, "server.port")
    assert error["message"].startswith("expected an integer from 0 to 65535")
    report = json.loads(right)
    assert (status, errors, report["ok"], report["errors"]) == (0, "", True, [])
    assert [one["path"] for one in report["warnings"]] == ["logging.payloads.to"]
