"""`strowger import litellm`: what needs prices has them, as LiteLLM has a price list of its own."""

from pathlib import Path

import pytest

from tests.gateway.cli.command_line import run

MODELS = """
model_list:
  - {model_name: a, litellm_params: {model: openai/gpt-4o, api_key: os.environ/K}}
  - model_name: b
    litellm_params: {model: openai/mine, api_key: os.environ/K}
    model_info: {input_cost_per_token: 7e-6, output_cost_per_token: 9e-6}
"""


@pytest.mark.parametrize(
    "settings",
    [
        "litellm_settings: {max_budget: 100, budget_duration: 30d}",
        "router_settings: {routing_strategy: cost-based-routing}",
        "router_settings: {routing_strategy: least-busy}",
    ],
)
def test_what_is_imported_has_published_prices_as_litellm_has(
    tmp_path: Path, settings: str
) -> None:
    source, target = tmp_path / "litellm.yaml", tmp_path / "config.yaml"
    source.write_text(MODELS + settings)
    env = {"K": "a-key-of-openai"}

    imported = run("import", "litellm", str(source), "-o", str(target))
    checked = run("check", str(target), env=env)
    shown = run("prices", "--config", str(target), env=env)

    assert imported.exit_code == 0, imported.stderr
    assert checked.exit_code == 0, checked.output
    known, own = shown.stdout.splitlines()[1:]
    assert "genai-prices" in known
    assert own.split()[2:4] == ["7", "9"]
