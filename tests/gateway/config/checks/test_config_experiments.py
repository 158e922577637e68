"""An experiment that cannot run or be trusted is rejected, with a remedy."""

import pytest

from strowger_gateway.gateway.config.schema.experiment import Circuit
from tests.gateway.config.configs import GOOD, faults, read, warnings

ARMS = "{name: a, backend: openai/gpt, weight: 1}, {name: b, backend: here/tiny, weight: 1}"


def experiment(fields: str = "", arms: str = ARMS, name: str = "e", model: str = "chat") -> str:
    primary = "" if "primary" in fields else "primary: error, "
    return f"  - {{name: {name}, model: {model}, {primary}{fields} variants: [{arms}]}}\n"


def told(*experiments: str) -> list[str]:
    return faults(f"{GOOD}experiments:\n{''.join(experiments)}")


def test_a_whole_experiment_is_read() -> None:
    text = experiment(
        "assign_by: 'header:x-session-id', per: unit, alpha: 0.1, planned: 500, smallest: 0.02, "
        "harm_limits: [{metric: latency_ms, worse_by: 0.2}], primary: thumbs_up,",
        "{name: a, backend: openai/gpt, weight: 9},"
        "{name: b, backend: openai/gpt, weight: 1, set: {temperature: 0, system: Be brief.}}",
    )

    found = read(f"{GOOD}experiments:\n{text}").experiments[0]

    assert found.control.name == "a"
    assert found.variants[1].set.sampling.temperature == 0
    assert found.variants[1].set.system == "Be brief."
    assert (found.per, found.alpha, found.planned, found.smallest) == ("unit", 0.1, 500, 0.02)


@pytest.mark.parametrize(
    ("circuit", "rule"),
    [
        ("", Circuit(requests=20, share=0.5)),
        ("circuit: {requests: 50, share: 0.8},", Circuit(requests=50, share=0.8)),
        ("circuit: off,", None),
    ],
)
def test_every_experiment_has_a_circuit_unless_it_is_off(
    circuit: str, rule: Circuit | None
) -> None:
    found = read(f"{GOOD}experiments:\n{experiment(circuit)}").experiments[0]

    assert found.circuit_rule == rule


SAME = "{name: a, backend: openai/gpt, weight: 1}, {name: b, backend: openai/gpt, weight: 1}"
FAULTS = [
    (experiment(model="chatt"),
     'model: no model is named "chatt"; did you mean "chat"?'),
    (experiment(arms="{name: a, backend: openai/gpt, weight: 1}"),
     "variants: an experiment needs at least two variants; the first is the control"),
    (experiment(arms=ARMS.replace("name: b", "name: a")),
     'variants[1].name: "a" is already the name of variants[0]'),
    (experiment(arms=ARMS.replace("weight: 1", "weight: 0")),
     "variants: all weights are 0, so no unit can be assigned; raise one"),
    (experiment(arms=ARMS.replace("here/", "heer/")),
     'variants[1].backend: no provider is named "heer"; did you mean "here"?'),
    (experiment(arms=ARMS.replace("here/tiny", "here/tinny")),
     'variants[1].backend: the engine of here has no model named "tinny"; did you mean "tiny"?'),
    (experiment(arms=ARMS.replace("openai/gpt", "'openai/*'")),
     'variants[0].backend: "openai/*" does not name a model; write the model of this variant'),
    (experiment(arms=ARMS.replace("tiny, weight: 1", "tiny, weight: 1, set: {top_p: 2}")),
     "variants[1].set.top_p: expected a number of at least 0, at most 1, found 2.0"),
    (experiment("primary: latncy_ms,"),
     'primary: "latncy_ms" is not a metric of the gateway; did you mean "latency_ms"? A feedback '
     "metric needs a name that cannot be confused with it"),
    (experiment("harm_limits: [{metric: errors, worse_by: 0.1}],"),
     'harm_limits[0].metric: "errors" is not a metric of the gateway; did you mean "error"? A '
     "feedback metric needs a name that cannot be confused with it"),
    (experiment("circuit: false,"),
     'circuit: expected a mapping or "off", found false'),
    (experiment("circuit: {requests: 4},"),
     "circuit.requests: expected an integer from 5 to 10000, found 4"),
    (experiment("primary: cost_usd,"),
     "primary: is cost_usd, but prices is empty, so no cost is known; add prices"),
    (experiment(arms=SAME),
     "variants[1]: is identical to variants[0]; for a test of the gateway itself set aa: true"),
    (experiment("aa: true,"),
     "variants[1]: aa: true means that all variants are the same, but this one differs"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "fault"), FAULTS)
def test_what_cannot_be_compared_is_refused(text: str, fault: str) -> None:
    assert told(text) == [f"experiments[0].{fault}"]


def test_a_model_has_one_experiment_and_a_name_is_given_once() -> None:
    assert told(experiment(), experiment()) == [
        'experiments[1].name: "e" is already the name of experiments[0]',
        'experiments[1].model: "chat" is already the model of experiments[0]',
    ]


def test_an_alias_or_a_wildcard_is_not_a_model_of_an_experiment() -> None:
    models = (
        "  - {name: 'any-*', backends: [{provider: openai, model: '*'}]}\n"
        "  - {name: named, aliases: [nick], backends: [{provider: openai, model: x}]}\n"
    )
    wild, alias = experiment(model="'any-*'"), experiment(model="nick", name="f")

    found = faults(f"{GOOD}{models}experiments:\n{wild}{alias}")

    assert found == [
        'experiments[0].model: "any-*" is a wildcard, which can be a different model in each '
        "request; add the model of the experiment to models under its own name",
        'experiments[1].model: "nick" is an alias; write "named"',
    ]


def test_an_experiment_of_the_gateway_itself_may_have_equal_variants() -> None:
    found = read(f"{GOOD}experiments:\n{experiment('aa: true,', SAME)}")

    assert found.experiments[0].aa


THREE = (
    "{name: a, backend: openai/gpt, weight: %s}, {name: b, backend: here/tiny, weight: %s},"
    " {name: c, backend: openai/other, weight: %s}"
)


@pytest.mark.parametrize("weights", [(90, 5, 5), (0.7, 0.25, 0.05)])
def test_a_ramp_of_three_arms_whose_weights_keep_their_sum_is_warned_of(
    weights: tuple[float, float, float],
) -> None:
    (told,) = warnings(f"{GOOD}experiments:\n{experiment(arms=THREE % weights)}")

    assert told.startswith("experiments[0].variants: the weights add up to")
    assert "raise its weight and keep the others" in told


@pytest.mark.parametrize("weights", [(90, 5, 6), (1, 1, 1), (50, 50, 0)])
def test_other_weights_are_not(weights: tuple[float, float, float]) -> None:
    assert warnings(f"{GOOD}experiments:\n{experiment(arms=THREE % weights)}") == []


def test_keys_that_may_replay_are_warned_of_where_no_request_has_one() -> None:
    (told,) = warnings(f"{GOOD}experiments:\n{experiment('replay_keys: [r],')}")

    assert told.startswith("experiments[0].replay_keys: with auth.mode none no request has a key")


def test_a_standby_that_is_another_arms_server_is_warned_of() -> None:
    text = GOOD.replace(
        "{name: openai, adapter: openai}",
        "{name: openai, adapter: openai}\n"
        "  - {name: pb, adapter: vllm, base_url: 'http://b:8000/v1'}\n"
        "  - {name: pb2, adapter: vllm, base_url: 'http://b:8000/v1'}",
    ).replace("model: gpt}]", "model: gpt}, {provider: pb2, model: m}]")
    arms = "{name: a, backend: openai/gpt, weight: 1}, {name: b, backend: pb/m, weight: 1}"

    (told,) = warnings(f"{text}experiments:\n{experiment(arms=arms)}")
    fine = warnings(f"{text}experiments:\n{experiment(arms=arms.replace('pb/m', 'pb/n'))}")

    assert told.startswith('experiments[0]: "pb2/m" of model "chat" answers if a variant fails')
    assert 'variant "b" under another name' in told
    assert fine == []
