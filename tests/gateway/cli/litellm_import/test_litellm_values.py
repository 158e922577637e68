"""`strowger import litellm`: values become what `strowger check` accepts, or are listed."""

import re
from pathlib import Path

import pytest

from gateway.config.load import load_config
from gateway.config.schema.config import Config
from tests.gateway.cli.command_line import run


def imported(tmp_path: Path, text: str) -> tuple[Config, str]:
    """The configuration, which `strowger check` accepts, and what was listed."""
    source, target = tmp_path / "litellm.yaml", tmp_path / "config.yaml"
    source.write_text(text, encoding="utf-8")
    found = run("import", "litellm", str(source), "-o", str(target))
    assert found.exit_code == 0, found.stderr
    env = dict.fromkeys(re.findall(r"\$\{(\w+)\}", target.read_text()), "a-value-of-it")
    checked = run("check", str(target), env=env)
    assert checked.exit_code == 0, checked.output
    return load_config(target, env), found.stderr


def prices(config: Config) -> dict[str, tuple[float, float]]:
    return {row.match: (row.input or 0, row.output or 0) for row in config.prices}


def test_numbers_that_are_text_count_as_numbers(tmp_path: Path) -> None:
    config, listed = imported(
        tmp_path,
        """
model_list:
  - model_name: a
    litellm_params: {model: openai/a, timeout: "90", rpm: "30", max_retries: "4"}
    model_info: {input_cost_per_token: "2e-6", output_cost_per_token: "8e-6",
                 max_input_tokens: "1000", max_output_tokens: 500.0}
""",
    )

    assert prices(config) == {"openai/a": (2, 8)}
    assert config.providers[0].timeouts.total_s == 90
    assert config.models[0].retry.attempts == 5
    assert (config.capabilities[0].context, config.capabilities[0].max_output) == (1000, 500)
    assert "not translated" not in listed


def test_a_price_of_a_wildcard_is_not_of_other_models(tmp_path: Path) -> None:
    config, _ = imported(
        tmp_path,
        """
model_list:
  - {model_name: other, litellm_params: {model: openai/other}}
  - {model_name: gpt-4*, litellm_params: {model: openai/gpt-4*},
     model_info: {input_cost_per_token: 1e-6, max_input_tokens: 100}}
""",
    )

    assert [row.match for row in config.prices] == ["openai/gpt-4*"]
    assert [row.match for row in config.capabilities] == ["openai/gpt-4*"]


def test_another_price_of_the_same_backend_is_listed(tmp_path: Path) -> None:
    config, listed = imported(
        tmp_path,
        """
model_list:
  - model_name: a
    litellm_params: {model: openai/x, input_cost_per_token: 1e-6}
    model_info: {input_cost_per_token: 5e-6, output_cost_per_token: 2e-6}
  - model_name: b
    litellm_params: {model: openai/x}
    model_info: {input_cost_per_token: 1e-6, output_cost_per_token: 3e-6, max_input_tokens: 9}
  - model_name: c
    litellm_params: {model: openai/x}
    model_info: {max_output_tokens: 7, max_input_tokens: 8}
""",
    )

    assert prices(config) == {"openai/x": (1, 2)}  # LiteLLM prefers litellm_params
    assert [(row.context, row.max_output) for row in config.capabilities] == [(9, 7)]
    assert re.findall(r"model_list\S+: [^;]*(?:wins|another value)", listed) == [
        "model_list[0].model_info.input_cost_per_token: litellm_params wins",
        "model_list[1].model_info.output_cost_per_token: "
        "an entry before it has the same backend and another value",
        "model_list[2].model_info.max_input_tokens: "
        "an entry before it has the same backend and another value",
    ]


@pytest.mark.parametrize("name", ['"GPT 4o"', "größe", '"a\\nb"', "-a", "gpt*mini", "${HOME}"])
def test_a_name_that_no_model_can_have_is_listed(tmp_path: Path, name: str) -> None:
    config, listed = imported(
        tmp_path,
        f"""
model_list:
  - {{model_name: {name}, litellm_params: {{model: openai/x}}}}
  - {{model_name: b, litellm_params: {{model: openai/x}}}}
router_settings: {{model_group_alias: {{"an alias": b, other: b}}}}
""".replace("${HOME}", '"${HOME}"'),
    )

    assert [model.name for model in config.models] == ["b"]
    assert config.models[0].aliases == ("other",)
    assert listed.count("names of models have letters, digits") == 3


def test_request_fields_that_defaults_do_not_accept_are_listed(tmp_path: Path) -> None:
    config, listed = imported(
        tmp_path,
        """
model_list:
  - model_name: a
    litellm_params: {model: openai/x, temperature: warm, max_tokens: 0, presence_penalty: 3,
                     parallel_tool_calls: 1, logit_bias: {}, top_p: 0.5, stop: "###"}
""",
    )

    sampling = config.models[0].defaults.sampling
    assert (sampling.top_p, sampling.stop) == (0.5, ("###",))
    for key in ("temperature", "max_tokens", "presence_penalty", "parallel_tool_calls"):
        assert f"litellm_params.{key}: models[].defaults" in listed


def test_a_reference_to_no_variable_is_listed(tmp_path: Path) -> None:
    _, listed = imported(
        tmp_path,
        "model_list: [{model_name: a, litellm_params: {model: openai/x, api_key: os.environ/A-B}}]",
    )

    assert "litellm_params.api_key: a variable's name has letters, digits and _ only" in listed
