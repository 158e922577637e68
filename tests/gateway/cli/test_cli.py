"""The `strowger` command: help, output, errors, exit statuses."""

import json
import re
import sys
from pathlib import Path

import pytest
import trustme
from click import Context

from strowger_gateway.gateway.cli.doctor import cpu_flags, last_line
from strowger_gateway.gateway.cli.main import strowger
from strowger_gateway.gateway.cli.routes import shares
from strowger_gateway.gateway.console.admin.backends import ExperimentView, VariantView
from tests.gateway.cli.command_line import run

ROOT = Path(__file__).parents[3]
GOOD = """
providers:
  - {name: openai, adapter: openai, api_key: "${OPENAI_API_KEY}"}
models:
  - name: chat
    aliases: [talk, gpt]
    backends:
      - {provider: openai, model: gpt-4o, weight: 3}
      - {provider: openai, model: gpt-4o-mini, weight: 1}
      - {provider: openai, model: o3, weight: 0}
    fallback: [backup]
    retry: {attempts: 4}
  - name: backup
    policy: in_order
    backends: [{provider: openai, model: a}, {provider: openai, model: b}]
"""
ENV = {"OPENAI_API_KEY": "sk-cli-secret"}


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(GOOD)
    return path


def uncommented(text: str) -> str:
    """Uncomment the examples of a text: the lines after `# Example` up to a blank line."""
    lines: list[str] = []
    example = False
    for line in text.splitlines():
        example = bool(line.strip()) and (example or line.strip().startswith("# Example"))
        is_yaml = re.match(r" *# +(- )?[a-z_]+:( |$)", line) or re.match(r" *#  +- \{", line)
        lines.append(line.replace("# ", "", 1) if example and is_yaml else line)
    return "\n".join(lines)


def test_the_default_configuration_is_fine() -> None:
    result = run("check", str(ROOT / "config.yaml"))

    assert result.exit_code == 0
    counted = "1 provider, 2 models; hash [0-9a-f]{12}"
    assert re.fullmatch(rf"{ROOT / 'config.yaml'}: OK \({counted}\)\n", result.output)


def test_the_default_configuration_is_fine_with_every_example_in_use(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(uncommented((ROOT / "config.yaml").read_text(encoding="utf-8")))
    (tmp_path / "certs").mkdir()
    authority = trustme.CA()
    ours = authority.issue_cert("gateway.test")
    authority.cert_pem.write_to_path(tmp_path / "certs" / "mindie-ca.pem")
    ours.cert_chain_pems[0].write_to_path(tmp_path / "certs" / "gateway.pem")
    ours.private_key_pem.write_to_path(tmp_path / "certs" / "gateway.key")
    env = {
        "TEAM_A_KEY": "team-a-secret",
        "OPENAI_API_KEY": "sk-1",
        "DATABRICKS_HOST": "dbc.test",
        "DATABRICKS_TOKEN": "dapi-1",
        "MINDIE_HOST": "npu.test",
        "TRITON_HOST": "gpu.test",
    }

    result = run("check", str(path), env=env)

    assert result.output.startswith(f"{path}: OK (5 providers, 5 models, 1 key; hash ")


def test_engines_on_several_hosts_count_as_the_one_provider_that_they_are(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(
        "auth: {mode: none}\n"
        "providers:\n"
        "  - {name: pool, adapter: local, engines: {hosts: ['127.0.0.1:7001', '127.0.0.1:7002']}}\n"
        "models: [{name: chat, backends: [{provider: pool, model: m}]}]\n"
    )

    result = run("check", str(path))

    assert result.output.startswith(f"{path}: OK (1 provider, 1 model; hash ")


def test_every_problem_goes_to_stderr_and_the_exit_status_is_1(good: Path) -> None:
    good.write_text(GOOD.replace("provider: openai, model: o3", "provider: opnai, model: o3"))

    result = run("check", str(good))

    assert result.exit_code == 1
    assert result.stdout == ""
    assert re.sub(r":[0-9]+:[0-9]+: ", ": ", result.stderr) == (
        f"{good}: providers[0].api_key: the environment variable OPENAI_API_KEY is not set; "
        "set it, or give a default with ${OPENAI_API_KEY:-…}\n"
        f'{good}: models[0].backends[2].provider: no provider is named "opnai"; '
        'did you mean "openai"?\n'
    )


def test_what_can_never_match_goes_to_stderr_and_is_not_an_error(good: Path) -> None:
    rule = "when: [{features: [tools, suffix], backends: [openai/o3]}]"
    good.write_text(
        f"{GOOD}  - {{name: ruled, backends: [{{provider: openai, model: o3}}], {rule}}}\n"
    )

    result = run("check", str(good), env=ENV)

    lines = result.stderr.splitlines(keepends=True)
    timeless = "".join(line for line in lines if "the model retire" not in line)
    assert result.exit_code == 0, result.output
    assert re.sub(r":[0-9]+:[0-9]+: ", ": ", timeless) == (
        f"warning: {good}: models[2].when[0].features: no type of request has all of these, so the "
        "rule never matches\n"
    )


def test_an_unreadable_tokenizer_is_reported_before_anything_is_served(
    good: Path, tmp_path: Path
) -> None:
    bad = tmp_path / "tokenizer.json"
    bad.write_text("{}")
    good.write_text(GOOD.replace("adapter: openai", f"adapter: openai, tokenizer: {bad}"))

    result = run("check", str(good), env=ENV)

    assert result.exit_code == 1
    assert result.stderr.startswith(f"{bad}: cannot load a tokenizer: ")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("adapter: azure, base_url: 'https://a.openai.azure.com/openai'", "no api-version"),
        (f"adapter: openai, tls: {{ca_file: {ROOT / 'README.md'}}}", "README.md"),
    ],
)
def test_what_only_shows_when_it_is_built_is_reported_by_the_check(
    good: Path, change: str, told: str
) -> None:
    good.write_text(GOOD.replace("adapter: openai", change))
    before = sorted(good.parent.iterdir())

    result = run("check", str(good), env=ENV)

    assert result.exit_code == 1
    assert told in result.stderr
    assert "Traceback" not in result.stderr
    assert sorted(good.parent.iterdir()) == before


def test_a_file_that_is_nested_beyond_reason_is_a_problem_and_no_traceback(good: Path) -> None:
    good.write_text("a: " + "[" * 5000 + "]" * 5000)

    result = run("check", str(good), env=ENV)

    assert result.exit_code == 1
    assert re.fullmatch(r".*:1:[0-9]+: nested more than 32 levels deep\n", result.stderr)


def test_the_file_may_be_named_by_a_variable(good: Path) -> None:
    assert run("check", env={**ENV, "STROWGER_CONFIG": str(good)}).exit_code == 0
    assert run("check", "--config", str(good), env=ENV).exit_code == 0


def test_a_missing_file_is_reported_without_a_traceback(tmp_path: Path) -> None:
    result = run("check", str(tmp_path / "none.yaml"))

    assert result.exit_code == 1
    assert result.stderr == f"{tmp_path}/none.yaml: cannot be read: No such file or directory\n"


def test_routes_show_what_each_model_resolves_to(good: Path) -> None:
    result = run("routes", "--config", str(good), env=ENV)

    lines = [re.split(r" {3,}", line.strip()) for line in result.stdout.splitlines()]
    assert lines == [
        ["MODEL", "ALIASES", "POLICY", "BACKEND", "SHARE", "FALLBACK"],
        ["chat", "talk, gpt", "weighted", "openai/gpt-4o", "75 %", "backup"],
        ["openai/gpt-4o-mini", "25 %"],
        ["openai/o3", "fallback only"],
        ["backup", "in_order", "openai/a", "first"],
        ["openai/b", "then"],
    ]


def test_shares_are_the_experiments_where_there_is_one_and_weights_where_they_matter() -> None:
    arms = (VariantView(name="control", backend="p/a", share=1.0),)
    trial = ExperimentView(name="e", variants=arms)

    tried = shares("weighted", {"p/a": 1.0, "p/b": 0.0}, trial)
    uneven = shares("least_busy", {"p/a": 2.0, "p/b": 1.0, "p/c": 0.0})
    even = shares("sticky", {"p/a": 1.0, "p/b": 1.0})

    assert tried == ["by an experiment", "after the variants"]
    assert uneven == ["weight 2", "weight 1", "fallback only"]
    assert even == ["", ""]


@pytest.mark.parametrize("command", [["routes", "--config"], ["check"]])
def test_no_command_prints_a_secret(good: Path, command: list[str]) -> None:
    good.write_text(f"{GOOD}server: {{host: 0.0.0.0, prt: sk-cli-secret}}\n")

    wrong = run(*command, str(good), env=ENV)
    good.write_text(GOOD)
    right = run(*command, str(good), env=ENV)

    assert (wrong.exit_code, right.exit_code) == (1, 0)
    assert "sk-cli-secret" not in wrong.output + right.output


def test_models_lists_the_adapters() -> None:
    rows = {line.split()[0]: line for line in run("models").stdout.splitlines()}

    assert "https://api.openai.com/v1" in rows["openai"]
    assert "required" in rows["databricks"]
    assert "rejected, except a few" in rows["mindie"]
    assert "this machine" in rows["local"]


def test_models_shows_what_an_adapter_can_honour() -> None:
    rows = {
        line.split()[0]: line.split()[1:] for line in run("models", "openai").stdout.splitlines()
    }

    assert rows["FIELD"][:2] == ["CHAT", "COMPLETION"]
    assert rows["temperature"][:2] == ["yes", "yes"]
    assert rows["top_k"][:2] == ["no", "no"]


def test_models_shows_under_which_name_and_in_which_range_a_field_goes_out() -> None:
    rows = {
        (cells := re.split(r" {3,}", line.strip()))[0]: cells[1:]
        for line in run("models", "anthropic").stdout.splitlines()
    }

    assert rows["stop"] == ["as stop_sequences"]
    assert rows["messages.image"] == ["as messages[].content[].source"]
    assert rows["temperature"] == ["yes", "0 … 1"]
    assert rows["max_tokens"] == ["yes", "required, ≥ 1"]
    assert rows["seed"] == ["no"]


def test_models_shows_programs_the_same_as_people() -> None:
    every = json.loads(run("models", "--json").stdout)
    mistral = json.loads(run("models", "mistral", "--json").stdout)

    assert mistral in every
    assert mistral["base_url"] == "https://api.mistral.ai/v1"
    assert mistral["tasks"]["chat"]["seed"] == {
        "supported": True,
        "said_as": "random_seed",
        "range": {"minimum": 0},
    }
    assert mistral["tasks"]["chat"]["user"] == {"supported": False}
    assert "safe_prompt" in mistral["extra_fields"]["chat"]


def test_models_shows_the_few_unknown_fields_that_an_adapter_sends_on() -> None:
    rows = {
        line.split()[0]: line.split()[1:] for line in run("models", "mindie").stdout.splitlines()
    }

    assert rows["FIELD"][:3] == ["CHAT", "COMPLETION", "TOKENS"]
    assert rows["chat_template_kwargs"] == ["yes"]


def test_an_unknown_adapter_is_a_wrong_usage() -> None:
    result = run("models", "opnai")

    assert result.exit_code == 2
    assert "no adapter is named 'opnai'; did you mean \"openai\"?" in result.stderr


def test_doctor_shows_versions_and_devices() -> None:
    rows = dict(
        re.split(r" {3,}", line.strip(), maxsplit=1) for line in run("doctor").stdout.splitlines()
    )

    assert rows["python"].startswith(f"{sys.version_info.major}.{sys.version_info.minor}.")
    assert rows["litestar"][0].isdigit()
    assert int(rows["cpu cores"]) >= 1
    assert rows["engine"].startswith(("runs on ", "not available: torch is missing"))
    assert "kernels" in rows or "not available" in rows["engine"] or "sampling operator" in rows


def test_the_cause_is_the_last_line_of_a_traceback() -> None:
    errors = b"Traceback (most recent call last):\n  File x\nImportError: libhccl.so is missing\n"

    assert last_line(errors) == "ImportError: libhccl.so is missing"
    assert last_line(b"") == ""


def test_cpu_features_are_read_from_x86_and_arm(tmp_path: Path) -> None:
    x86, arm = tmp_path / "x86", tmp_path / "arm"
    x86.write_text("processor\t: 0\nflags\t\t: fpu avx2\n\nprocessor\t: 1\nflags\t\t: other\n")
    arm.write_text("processor\t: 0\nFeatures\t: asimd sve\n")

    assert cpu_flags(x86) == {"fpu", "avx2"}
    assert cpu_flags(arm) == {"asimd", "sve"}
    assert cpu_flags(tmp_path / "none") == frozenset()


@pytest.mark.parametrize(
    "words", [["nonsense"], ["check", "a", "b"], ["serve", "--port", "70000"], ["routes", "--nope"]]
)
def test_a_wrong_usage_exits_with_2(words: list[str]) -> None:
    assert run(*words).exit_code == 2


def test_serve_refuses_an_open_host_from_the_command_line(good: Path) -> None:
    result = run("serve", "--config", str(good), "--host", "0.0.0.0", env=ENV)

    assert result.exit_code == 1
    assert (
        'auth.mode: none serves every client that can reach server.host "0.0.0.0"' in result.stderr
    )


def test_only_commands_that_work_are_listed() -> None:
    context = Context(strowger)

    listed = strowger.list_commands(context)

    assert all(strowger.get_command(context, name) for name in listed)
    assert set(listed) == {
        "serve",
        "backends",
        "engine",
        "engines",
        "placement",
        "check",
        "schema",
        "routes",
        "explain",
        "chat",
        "agents",
        "cache",
        "traffic",
        "gateways",
        "usage",
        "audit",
        "budgets",
        "limits",
        "models",
        "doctor",
        "health",
        "import",
        "experiments",
        "prompts",
        "keys",
        "prices",
        "requests",
        "records",
        "store",
        "spend-caps",
        "config",
        "guardrails",
        "events",
        "status",
    }
