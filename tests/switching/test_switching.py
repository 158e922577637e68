"""A conversation that one vendor began goes on at every other, as it was, without what is not its.

Each vendor of the first answer and each of the second: every run has each such conversation once,
in one client dialect and form (which answer, streamed or whole, how it goes back), and each pair of
forms, clients and vendors somewhere; the nights have them all.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Final

import pytest

from tests.switching.backends import BACKENDS
from tests.switching.clients import CLIENTS
from tests.switching.exempt import EXEMPT, Exempt, unexplained
from tests.switching.reply import ECHOES
from tests.switching.scene import SceneName
from tests.switching.setting import Setting, every_backend
from tests.switching.switch import Case, switched

pytestmark = pytest.mark.anyio

SCENES: Final[Mapping[str, Sequence[SceneName]]] = {
    one.name: [scene.name for scene in one.scenes()] for one in BACKENDS
}
NAMES: Final = [one.name for one in BACKENDS]
WAYS: Final = (False, True)


@pytest.fixture(scope="module")
async def setting(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Setting, None]:
    async with every_backend(tmp_path_factory.mktemp("run")) as one:
        yield one


def parts(case: Case) -> tuple[object, ...]:
    """Return what pairs are made of."""
    return (case.client, case.first, case.second, case.scene, case.stream, case.echo)


def pairs(case: Case) -> set[tuple[int, int, object, object]]:
    form = parts(case)
    return {(a, b, form[a], form[b]) for a, b in combinations(range(len(form)), 2)}


def chosen() -> Iterator[Case]:
    """Yield a form of each conversation: with the most pairs that are new, else what is rare."""
    seen = set[tuple[int, int, object, object]]()
    uses = Counter[object]()

    def worth(case: Case) -> tuple[int, int]:
        return len(pairs(case) - seen), -sum(uses[part] for part in parts(case))

    for place, (first, second) in enumerate(product(NAMES, repeat=2)):
        forms = [
            Case(
                client=client,
                first=first,
                second=second,
                scene=scene,
                stream=stream,
                echo=echo,
                alias=place % 5 == 0,
            )
            for client, scene, stream, echo in product(CLIENTS, SCENES[first], WAYS, ECHOES)
        ]
        best = max(forms, key=worth)
        seen |= pairs(best)
        uses.update(parts(best))
        yield best


CHOSEN: Final = list(chosen())


@pytest.mark.parametrize("case", CHOSEN, ids=str)
async def test_a_conversation_goes_on_at_another_vendor(setting: Setting, case: Case) -> None:
    problems = await switched(setting, case)

    assert unexplained(problems, case.client, (case.first, case.second)) == []


@pytest.mark.parametrize("exempt", EXEMPT, ids=lambda one: f"{one.vendor}: {one.because}")
async def test_what_is_exempt_is_still_wrong(setting: Setting, exempt: Exempt) -> None:
    case = exempt.example
    vendors = (case.first, case.second)

    problems = await switched(setting, case)

    assert [one for one in problems if exempt.covers(one, case.client, vendors)]


def test_every_pair_of_forms_clients_and_vendors_is_among_those_of_each_run() -> None:
    possible = [
        (client, first, second, scene, stream, echo)
        for client, first, second in product(CLIENTS, NAMES, NAMES)
        for scene, stream, echo in product(SCENES[first], WAYS, ECHOES)
    ]
    run = [parts(one) for one in CHOSEN]

    for a, b in combinations(range(len(run[0])), 2):
        missing = {(one[a], one[b]) for one in possible} - {(one[a], one[b]) for one in run}
        assert not missing


@pytest.mark.nightly
@pytest.mark.parametrize("first", NAMES)
@pytest.mark.parametrize("client", CLIENTS)
async def test_a_conversation_goes_on_in_every_form(
    setting: Setting, client: str, first: str
) -> None:
    problems: dict[str, list[str]] = {}
    for second, scene, stream, echo in product(NAMES, SCENES[first], WAYS, ECHOES):
        case = Case(
            client=client, first=first, second=second, scene=scene, stream=stream, echo=echo
        )
        found = unexplained(await switched(setting, case), client, (first, second))
        if found:
            problems[str(case)] = found

    assert problems == {}
