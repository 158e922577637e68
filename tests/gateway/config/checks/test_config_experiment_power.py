"""What an experiment cannot see or decide with the units it has is said before it starts."""

import pytest

from tests.gateway.config.configs import GOOD, warnings

KEYS = "auth: {mode: keys, keys: [%s]}\n"
LIMIT = "harm_limits: [{metric: error, worse_by: 0.02}], "
PLANNED = "planned: 20000, "


def told(fields: str, weights: tuple[float, float] = (50, 50), keys: int = 0) -> list[str]:
    """Return the warnings on an experiment's power. keys: in auth.keys."""
    arms = ", ".join(
        f"{{name: {name}, backend: {backend}, weight: {weight}}}"
        for name, backend, weight in zip(
            ("control", "treatment"), ("openai/gpt", "here/tiny"), weights, strict=True
        )
    )
    primary = "" if "primary" in fields else "primary: error, "
    listed = ", ".join(f"{{name: k{one}, key: secret-of-key-{one}}}" for one in range(keys))
    text = f"{GOOD}{KEYS % listed if keys else ''}experiments:\n"
    text += f"  - {{name: e, model: chat, {primary}{fields} variants: [{arms}]}}\n"
    return [one for one in warnings(text) if "decide nothing" in one or "cannot see harm" in one]


@pytest.mark.parametrize(
    ("weights", "keys", "needed"), [((95, 5), 59, 60), ((50, 50), 16, 17), ((90, 10), 39, 40)]
)
def test_harm_limits_below_their_number_of_keys_are_warned_of(
    weights: tuple[float, float], keys: int, needed: int
) -> None:
    (warning,) = told(f"assign_by: api_key, {LIMIT}", weights, keys)
    enough = told(f"assign_by: api_key, {LIMIT}", weights, needed)

    assert f"cannot see harm by treatment with the {keys} keys of auth.keys" in warning
    assert f"about {needed} active units of both show it; only its circuit does" in warning
    assert enough == []


def test_without_a_circuit_the_warning_says_that_nothing_watches() -> None:
    (warning,) = told(f"assign_by: api_key, circuit: off, {LIMIT}", keys=3)

    assert "and circuit is off" in warning


def test_other_units_are_counted_by_the_plan() -> None:
    (warning,) = told(f"planned: 12, {LIMIT}")

    assert "cannot see harm by treatment with 12 planned units" in warning
    assert told(LIMIT) == []
    assert told("assign_by: api_key,", keys=3) == []


DECIDE = "decide: {better: latency_ms, not_worse: [{metric: %s, by: %g}]}, "


@pytest.mark.parametrize(
    ("metric", "by", "what"),
    [
        ("error", 0.005, "error being worse by 0.005"),
        ("thumbs_up", 0.015, "thumbs_up being worse by 0.015"),
    ],
)
def test_margins_that_the_weights_leave_undecided_are_warned_of(
    metric: str, by: float, what: str
) -> None:
    (warning,) = told(PLANNED + DECIDE % (metric, by), (95, 5))

    assert f"planned: 20,000 units decide nothing about {what}, at weights 95 to 5" in warning
    assert told(PLANNED + DECIDE % (metric, by), (50, 50)) == []


def test_a_smallest_difference_that_the_weights_leave_undecided_is_warned_of() -> None:
    fields = "primary: thumbs_up, planned: 10000, smallest: 0.02, "

    assert len(told(fields, (95, 5))) == 1
    assert told(fields, (50, 50)) == []
    assert told(fields + "adjust: [prompt_tokens], ", (95, 5)) == []


def test_a_treatment_that_has_not_begun_is_not_warned_of() -> None:
    assert told(f"{PLANNED}{LIMIT}{DECIDE % ('error', 0.005)}", (100, 0)) == []
