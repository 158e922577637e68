"""Clients that return less than they got have the same conversation as those that return all.

Some return ids of items, although nothing is stored; some only thoughts that have text.
"""

from collections.abc import AsyncGenerator
from typing import Final

import pytest

from tests.switching.backends import BACKENDS, Backend
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


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("backend", BACKENDS, ids=[one.name for one in BACKENDS])
async def test_a_client_that_returns_ids_has_the_same_conversation(
    setting: Setting, backend: Backend, stream: bool
) -> None:
    setting.reset()
    scenes = setting.stages[backend.name].scenes
    talk = Conversation(setting, REFERRING, stream=stream, echo="everything")

    for scene in SCENES:
        if scene in scenes:
            await talk.hears(backend.name, scene)
    await talk.ends(backend.name)

    assert unexplained(talk.problems, "responses", (backend.name,)) == []


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


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("second", ["gemini", "anthropic", "openrouter"])
async def test_signatures_of_calls_outlive_a_client_that_drops_empty_thoughts(
    setting: Setting, second: str, stream: bool
) -> None:
    setting.reset()
    talk = Conversation(setting, CODE, stream=stream, echo="everything")

    await talk.hears("gemini", "calls")
    await talk.ends(second)

    assert unexplained(talk.problems, "messages", ("gemini", second)) == []
