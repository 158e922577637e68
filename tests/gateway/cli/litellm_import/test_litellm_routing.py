"""`strowger import litellm`: fallbacks, order, deadlines and switches mean what they did."""

from pathlib import Path

import pytest

from strowger_gateway.gateway.config.load import load_config
from strowger_gateway.gateway.config.schema.config import Config, Model
from tests.gateway.cli.command_line import run

MODELS = "\n".join(
    f"  - {{model_name: {name}, litellm_params: {{model: openai/{name}, api_key: os.environ/K}}}}"
    for name in "abcd"
)


def imported(tmp_path: Path, settings: str, models: str = MODELS) -> tuple[Config, str]:
    """The configuration, which `strowger check` accepts, and what was listed."""
    source, target = tmp_path / "litellm.yaml", tmp_path / "config.yaml"
    source.write_text(f"model_list:\n{models}\n{settings}\n")
    found = run("import", "litellm", str(source), "-o", str(target))
    assert found.exit_code == 0, found.stderr
    env = {"K": "a-value-of-it"}
    checked = run("check", str(target), env=env)
    assert checked.exit_code == 0, checked.output
    return load_config(target, env), found.stderr


def by_name(config: Config) -> dict[str, Model]:
    return {model.name: model for model in config.models}


def test_the_first_fallbacks_of_a_model_win(tmp_path: Path) -> None:
    config, listed = imported(
        tmp_path,
        """
router_settings:
  fallbacks: [{a: [b]}, {a: [c]}]
  context_window_fallbacks: [{a: [c]}, {a: [d]}]
""",
    )

    model = by_name(config)["a"]
    assert model.fallback == ("b",)
    assert [rule.models for rule in model.fallback_by_error] == [("c",)]
    for path in ("fallbacks[1].a[0]", "context_window_fallbacks[1].a[0]"):
        assert f"{path}: the first entry of a model wins" in listed


@pytest.mark.parametrize(
    ("settings", "omitted"),
    [
        ('router_settings: {fallbacks: [{a: [b]}, {"*": [d]}]}', None),
        (
            'router_settings: {fallbacks: [{a: [b]}, {"*": [c]}], default_fallbacks: [d]}',
            "router_settings.fallbacks[1].*[0]: later fallbacks of all models win",
        ),
    ],
)
def test_fallbacks_of_all_models_are_for_those_without_their_own(
    tmp_path: Path, settings: str, omitted: str | None
) -> None:
    config, listed = imported(tmp_path, settings)

    found = {name: model.fallback for name, model in by_name(config).items()}
    assert found == {"a": ("b",), "b": ("d",), "c": ("d",), "d": ()}
    assert omitted is None or omitted in listed


def test_an_alias_may_be_a_fallback(tmp_path: Path) -> None:
    config, listed = imported(
        tmp_path, "router_settings: {model_group_alias: {long: c}, fallbacks: [{a: [long, b]}]}"
    )

    assert by_name(config)["a"].fallback == ("c", "b")
    assert "not translated" not in listed


def test_order_counts_although_the_first_backends_have_no_weight(tmp_path: Path) -> None:
    entry = (
        "  - {{model_name: a, litellm_params: {{model: openai/{0}, api_key: os.environ/K, {1}}}}}"
    )

    config, _ = imported(
        tmp_path,
        "",
        "\n".join((entry.format("x", "order: 2, rpm: 60"), entry.format("y", "order: 1"))),
    )

    weights = {one.model: one.weight for one in config.models[0].backends}
    assert weights == {"x": 0, "y": 1}


def test_a_deadline_does_not_cut_the_timeout_of_a_backend(tmp_path: Path) -> None:
    entry = (
        "  - {{model_name: {0}, litellm_params: {{model: openai/{0}, api_key: os.environ/K, {1}}}}}"
    )

    config, _ = imported(
        tmp_path,
        "router_settings: {fallbacks: [{a: [b]}]}",
        "\n".join(
            entry.format(name, f"timeout: {time}")
            for name, time in zip("abc", (30, 1800, 30), strict=True)
        ),
    )

    deadlines = {name: model.deadline_s for name, model in by_name(config).items()}
    assert deadlines == {"a": 1800, "b": 1800, "c": None}


@pytest.mark.parametrize(
    ("word", "outcome"), [("yes", "drop"), ("On", "drop"), ("off", "error"), ("maybe", None)]
)
def test_switches_are_those_of_yaml_1_1(tmp_path: Path, word: str, outcome: str | None) -> None:
    config, listed = imported(tmp_path, f"litellm_settings: {{drop_params: {word}}}")

    assert config.models[0].on_unsupported == (outcome or "error")
    assert ("litellm_settings.drop_params: no equivalent" in listed) == (outcome is None)


def test_an_order_beyond_the_second_is_listed(tmp_path: Path) -> None:
    models = "\n".join(
        f"  - {{model_name: m, litellm_params: "
        f"{{model: openai/{name}, api_key: os.environ/K, order: {order}}}}}"
        for order, name in enumerate("abc", 1)
    )

    config, listed = imported(tmp_path, "", models)

    assert [one.weight for one in by_name(config)["m"].backends] == [1, 0, 0]
    assert "model_list[2].litellm_params.order: the backends of a model have two levels" in listed
    assert "model_list[1].litellm_params.order" not in listed
