"""A conversation leaves a vendor and comes back to it, on purpose or because the vendor failed."""

from collections.abc import AsyncGenerator, Iterator
from itertools import product
from typing import Final

import pytest
from _pytest.mark import ParameterSet

from tests.switching.backends import BACKENDS
from tests.switching.clients import CLIENTS
from tests.switching.exempt import unexplained
from tests.switching.reply import ECHOES, Echo
from tests.switching.setting import EITHER, Setting, every_backend
from tests.switching.switch import Conversation

pytestmark = pytest.mark.anyio

NAMES: Final = [one.name for one in BACKENDS]
PROVING: Final = [one.name for one in BACKENDS if any(scene.proofs for scene in one.scenes())]
"""Vendors that want something back of what they answer."""

Way = tuple[str, str, str, bool, Echo]


@pytest.fixture(scope="module")
async def setting(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Setting, None]:
    async with every_backend(tmp_path_factory.mktemp("run")) as one:
        yield one


def chosen(first: list[str], others: list[str]) -> Iterator[ParameterSet]:
    """Yield clients, pairs of vendors and forms: a sixth of them in each run, others at night."""
    for (c, client), (a, one), (b, other) in product(
        enumerate(CLIENTS), enumerate(first), enumerate(others)
    ):
        if one != other:
            way = (client, one, other, bool((a + b) % 2), ECHOES[(c + b) % 2])
            nightly = () if (a + b + c) % 6 == 0 else pytest.mark.nightly
            yield pytest.param(way, id=f"{client}:{one}->{other}", marks=nightly)


@pytest.mark.parametrize("way", list(chosen(PROVING, NAMES)))
async def test_a_vendor_gets_its_proofs_back_after_a_turn_at_another(
    setting: Setting, way: Way
) -> None:
    client, one, other, stream, echo = way
    setting.reset()
    talk = Conversation(setting, client, stream=stream, echo=echo)

    await talk.hears(one, "calls")
    await talk.hears(other, "thought")
    await talk.ends(one)

    assert unexplained(talk.problems, client, (one, other)) == []


@pytest.mark.parametrize("way", list(chosen(NAMES, NAMES)))
async def test_a_vendor_stands_in_for_another_that_fails_and_then_answers_again(
    setting: Setting, way: Way
) -> None:
    client, one, other, stream, echo = way
    setting.reset()
    failing = setting.stages[one]
    model = EITHER.format(one, other)
    talk = Conversation(setting, client, stream=stream, echo=echo)

    await talk.hears(one, "calls", model)
    failing.failing = True
    await talk.hears(other, "thought", model)
    failing.failing = False
    await talk.ends(one, model)

    assert unexplained(talk.problems, client, (one, other)) == []
    assert talk.problems or len(failing.received) == 3
