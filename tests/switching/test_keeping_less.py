"""Clients that return less than they got have the same conversation as those that return all.

Some return ids of items, although nothing is stored; some only thoughts that have text.
"""

from collections.abc import AsyncGenerator, Iterator
from itertools import product
from typing import Final

import pytest
from _pytest.mark import ParameterSet

from tests.switching.backends import BACKENDS
from tests.switching.clients import CODE, REFERRING
from tests.switching.exempt import unexplained
from tests.switching.scene import SceneName
from tests.switching.setting import Setting, every_backend
from tests.switching.switch import Conversation

pytestmark = pytest.mark.anyio

AGENT: Final = {"user-agent": "ai/6.0.1 ai-sdk/provider-utils/4.0.1 ai-sdk/openai/3.0.141"}
SCENES: Final[tuple[SceneName, ...]] = ("calls", "thought", "cited")


@pytest.fixture(scope="module")
async def setting(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Setting, None]:
    async with every_backend(tmp_path_factory.mktemp("run")) as one:
        one.web.headers.update(AGENT)
        yield one


def both_ways(*names: str) -> Iterator[ParameterSet]:
    """Yield each name with whole and with streamed answers: one of them in each run."""
    for (place, name), stream in product(enumerate(names), (False, True)):
        nightly = () if stream == bool(place % 2) else pytest.mark.nightly
        way = "streamed" if stream else "whole"
        yield pytest.param(name, stream, id=f"{name}-{way}", marks=nightly)


@pytest.mark.parametrize(("name", "stream"), list(both_ways(*[one.name for one in BACKENDS])))
async def test_a_client_that_returns_ids_has_the_same_conversation(
    setting: Setting, name: str, stream: bool
) -> None:
    setting.reset()
    scenes = setting.stages[name].scenes
    talk = Conversation(setting, REFERRING, stream=stream, echo="everything")

    for scene in SCENES:
        if scene in scenes:
            await talk.hears(name, scene)
    await talk.ends(name)

    assert unexplained(talk.problems, "responses", (name,)) == []


async def test_another_vendor_gets_what_ids_stand_for_as_well(setting: Setting) -> None:
    setting.reset()
    talk = Conversation(setting, REFERRING, stream=True, echo="everything")

    await talk.hears("anthropic", "calls")
    await talk.hears("openai-responses", "calls")
    await talk.hears("gemini", "thought")
    await talk.ends("anthropic")

    # What is left out is named after the items, which the client did not send itself.
    found = [one for one in talk.problems if "named as left out" not in one]
    assert unexplained(found, "responses", ("anthropic", "openai-responses")) == []


@pytest.mark.parametrize(("second", "stream"), list(both_ways("anthropic", "gemini", "openrouter")))
async def test_signatures_of_calls_outlive_a_client_that_drops_empty_thoughts(
    setting: Setting, second: str, stream: bool
) -> None:
    setting.reset()
    talk = Conversation(setting, CODE, stream=stream, echo="everything")

    await talk.hears("gemini", "calls")
    await talk.ends(second)

    assert unexplained(talk.problems, "messages", ("gemini", second)) == []
