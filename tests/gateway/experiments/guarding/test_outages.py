"""An outage of everything is no variant's fault: circuits stay closed where control can be seen.

A few runs always; `make nightly-statistics` has STROWGER_TRIALS runs for each cell.
"""

import numpy as np
import pytest

from strowger_gateway.gateway.experiments.guarding.circuit import Sums
from tests.gateway.experiments.guarding.outages import World, opened
from tests.gateway.statistics.test_error_rates import TRIALS, at_most

SEEN: dict[str, World] = {
    "30 of 60 units": World(),
    "3 of 60 units": World(treated=3),
    "3 of 60 units with 20 times the requests of others": World(treated=3, busier=20),
    "30 of 60 units in bursts": World(burst=10),
    "5 of 10 units in bursts": World(units=10, treated=5, burst=5),
}
ALONE: dict[str, World] = {
    "30 of 60 units, Pareto(1.2), in bursts": World(shape=1.2, burst=10),
    "3 of 60 units with half of the requests, in bursts": World(treated=3, busier=50, burst=10),
    "30 of 60 units with 95 % of the requests": World(busier=20),
    "10 of 20 units, Pareto(1.2), in long bursts": World(units=20, treated=10, shape=1.2, burst=40),
    "two units in long bursts": World(units=2, treated=1, burst=30),
}
"""One unit is alone there at times, for more requests than an outage has."""


def pauses(world: World, runs: int, requests: int, failing: float, every: int = 5) -> list[Sums]:
    rng = np.random.default_rng(1)
    found = (
        opened(rng, world, requests=requests, failing=failing, every=every) for _ in range(runs)
    )
    return [last for last in found if last is not None]


@pytest.mark.parametrize("failing", [1.0, 0.6])
def test_outages_open_no_circuit(failing: float) -> None:
    assert pauses(World(), 10, 2_500, failing) == []
    assert pauses(World(treated=3, busier=20), 10, 2_500, failing) == []


@pytest.mark.parametrize("treated", [30, 6])
def test_a_variant_that_fails_between_outages_opens_its_circuit(treated: int) -> None:
    rng = np.random.default_rng(2)
    world = World(treated=treated, shape=5)

    found = [
        opened(rng, world, requests=1_900, failing=1.0, failing_after=1_400) for _ in range(10)
    ]

    assert all(last is not None for last in found)


@pytest.mark.nightly
@pytest.mark.parametrize("every", [5, 50])
@pytest.mark.parametrize("failing", [1.0, 0.6])
@pytest.mark.parametrize("cell", [*SEEN, *ALONE])
def test_outages_of_5_000_requests_open_hardly_any_circuit(
    cell: str, failing: float, every: int
) -> None:
    found = pauses({**SEEN, **ALONE}[cell], TRIALS, 5_000, failing, every)

    alone = sum(not last.control_requests for last in found)
    print(
        f"\n{cell}, {failing:.0%} fail, checked after {every}: {100 * len(found) / TRIALS:.1f} %"
        f" paused, {100 * alone / TRIALS:.1f} % without a request of control"
    )
    if cell in SEEN:
        assert len(found) / TRIALS <= at_most(0.01, TRIALS)
    else:
        assert (len(found) - alone) / TRIALS <= at_most(0.01, TRIALS)
