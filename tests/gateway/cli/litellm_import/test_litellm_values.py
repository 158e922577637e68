"""`strowger import litellm`: values become what `strowger check` accepts, or are listed."""

import re
from pathlib import Path

import pytest

from strowger_gateway.gateway.config.load import load_config
from strowger_gateway.gateway.config.schema.config import Config
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


def test_an_answer_longer_than_the_context_is_listed(tmp_path: Path) -> None:
    config, listed = imported(
        tmp_path,
        """
model_list:
  - model_name: a
    litellm_params: {model: openai/x}
    model_info: {max_input_tokens: 100, max_output_tokens: 200}
  - model_name: b
    litellm_params: {model: openai/y}
    model_info: {max_output_tokens: 200}
  - model_name: c
    litellm_params: {model: openai/y}
    model_info: {max_input_tokens: 100}
""",
    )

    assert [(row.context, row.max_output) for row in config.capabilities] == [
        (100, None),
        (None, 200),
    ]
    for path in ("model_list[0].model_info.max_output_tokens", "[2].model_info.max_input_tokens"):
        assert f"{path}: prompt and answer share capabilities[].context" in listed


@pytest.mark.parametrize(
    ("params", "first", "total"),
    [
        ("timeout: 300", 300, 300),
        ("timeout: 300, stream_timeout: 20", 20, 300),
        ("stream_timeout: 20", 20, 90),
        ("request_timeout: 45", 45, 45),
        ("temperature: 0", 90, 90),
    ],
)
def test_streams_begin_within_the_timeout_unless_they_have_their_own(
    tmp_path: Path, params: str, first: float, total: float
) -> None:
    config, listed = imported(
        tmp_path,
        f"""
model_list: [{{model_name: a, litellm_params: {{model: openai/x, {params}}}}}]
router_settings: {{timeout: 90}}
""",
    )

    timeouts = config.providers[0].timeouts
    assert (timeouts.first_token_s, timeouts.total_s) == (first, total)
    assert "not translated" not in listed


def test_the_stream_timeout_of_the_router_is_of_deployments_without_their_own(
    tmp_path: Path,
) -> None:
    config, listed = imported(
        tmp_path,
        """
model_list:
  - {model_name: a, litellm_params: {model: openai/x, timeout: 300}}
  - {model_name: b, litellm_params: {model: openai/y, stream_timeout: 5}}
router_settings: {stream_timeout: 15}
""",
    )

    assert [one.timeouts.first_token_s for one in config.providers] == [15, 5]
    assert "not translated" not in listed


def test_headers_that_a_provider_does_not_accept_are_listed(tmp_path: Path) -> None:
    config, listed = imported(
        tmp_path,
        """
model_list:
  - model_name: a
    litellm_params:
      model: openai/x
      headers: {X-Team: one, X-Trace: all, X-Flag: on, Content-Length: "3"}
      extra_headers: {x-team: two, "bad name": v, anthropic-beta: "a\\nb", X-Title: "é"}
  - model_name: b
    litellm_params:
      model: vertex_ai/gemini-2.5-pro
      vertex_project: p
      vertex_location: us-central1
      api_key: sk-of-a-proxy
      extra_headers: {Authorization: Bearer x}
""",
    )

    openai, vertex = config.providers
    assert set(openai.headers) == {"x-team", "X-Trace"}
    assert (bool(vertex.api_key), vertex.headers) == (False, {})
    for path in (
        "[0].litellm_params.headers.X-Team: it is given again",
        "[0].litellm_params.headers.X-Flag: providers[].headers does not accept",
        "[0].litellm_params.headers.Content-Length: providers[].headers does not accept",
        "[0].litellm_params.extra_headers.bad name: providers[].headers does not accept",
        "[0].litellm_params.extra_headers.anthropic-beta: providers[].headers does not accept",
        "[0].litellm_params.extra_headers.X-Title: providers[].headers does not accept",
        "[1].litellm_params.api_key: Vertex AI is called with tokens",
        "[1].litellm_params.extra_headers.Authorization: the gateway's own token",
    ):
        assert f"model_list{path}" in listed


def test_addresses_and_credentials_of_aws_that_do_not_work_are_listed(tmp_path: Path) -> None:
    config, listed = imported(
        tmp_path,
        """
model_list:
  - {model_name: a, litellm_params: {model: openai/x, api_base: "localhost:8000"}}
  - {model_name: b, litellm_params: {model: bedrock/m, aws_region_name: Frankfurt}}
  - model_name: c
    litellm_params: {model: bedrock/m, aws_region_name: eu-west-1, aws_external_id: e,
                     aws_access_key_id: AKIA1, aws_role_name: reader}
  - model_name: d
    litellm_params: {model: bedrock/m, aws_region_name: eu-west-2, aws_profile_name: prod,
                     aws_access_key_id: AKIA1, aws_secret_access_key: s}
  - model_name: e
    litellm_params: {model: bedrock/m, aws_region_name: eu-west-3, api_key: os.environ/BEARER,
                     aws_access_key_id: AKIA1, aws_secret_access_key: s}
""",
    )

    assert [model.name for model in config.models] == ["c", "d", "e"]
    for path in (
        "[0].litellm_params.api_base: its address is not a URL",
        "[1].litellm_params.aws_region_name: adapter bedrock needs an address",
        "[2].litellm_params.aws_external_id: it belongs to aws_role_name",
        "[2].litellm_params.aws_access_key_id: aws_access_key_id and aws_secret_access_key belong",
        "[2].litellm_params.aws_role_name: providers[].aws.role_arn does not accept",
        "[3].litellm_params.aws_access_key_id: aws_profile_name wins",
        "[4].litellm_params.aws_secret_access_key: api_key wins",
    ):
        assert f"model_list{path}" in listed


def test_settings_out_of_bounds_are_listed(tmp_path: Path) -> None:
    config, listed = imported(
        tmp_path,
        """
model_list:
  - {model_name: a, litellm_params: {model: openai/x, stop: "${END}"}}
general_settings: {max_request_size_mb: 4096, user_header_name: "X User"}
litellm_settings: {max_budget: 10000000000, budget_duration: 30d}
""",
    )

    assert config.models[0].defaults.sampling.stop == ("${END}",)
    assert config.budgets == ()
    for path in (
        "general_settings.max_request_size_mb: more than server.max_buffered_bytes",
        "general_settings.user_header_name: end_users.sources has names of letters",
        "litellm_settings.max_budget: more than 1,000,000,000 dollars",
    ):
        assert path in listed
