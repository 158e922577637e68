"""In which order a model's able and healthy backends are asked: one pure function a policy.

A policy gets the backends' weights and one draw, uniform in [0, 1), and returns indexes, first
choice first, each exactly once. Randomness and clocks come in as arguments, so that a test of a
policy is arithmetic.
"""

from collections.abc import Callable, Sequence

Policy = Callable[[Sequence[float], float], list[int]]

POLICIES: dict[str, Policy] = {}


def policy(name: str) -> Callable[[Policy], Policy]:
    """Register a policy under the name that `config.yaml` uses."""

    def register(function: Policy) -> Policy:
        POLICIES[name] = function
        return function

    return register


@policy("in_order")
def in_order(weights: Sequence[float], draw: float) -> list[int]:
    """As the configuration lists them; weights and the draw change nothing."""
    return list(range(len(weights)))


@policy("weighted")
def weighted(weights: Sequence[float], draw: float) -> list[int]:
    """First choice with probability weight / sum; the rest likewise among those left.

    Weight 0 gets no traffic of its own: such backends come last, in the listed order. What is
    left of the draw after a choice is uniform again, so one draw orders any number of backends.
    """
    rest = [index for index, weight in enumerate(weights) if weight > 0]
    order: list[int] = []
    while rest:
        total = sum(weights[index] for index in rest)
        mark = draw * total
        chosen = rest[-1]
        for index in rest:
            if mark < weights[index]:
                chosen = index
                break
            mark -= weights[index]
        draw = min(max(mark / weights[chosen], 0.0), 1.0 - 2.0**-53)
        rest.remove(chosen)
        order.append(chosen)
    return order + [index for index, weight in enumerate(weights) if weight <= 0]
