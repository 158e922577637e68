"""A conversation that switches vendors, and what is wrong with what each of them receives."""

import json
from collections.abc import Iterator, Sequence
from typing import Final

import httpx
from msgspec import Struct

from tests.gateway.backends.vendors.dialect import Json, Turn, dicts
from tests.switching.clients import EVERY_CLIENT
from tests.switching.heads import of_head
from tests.switching.marks import Said, of_marks
from tests.switching.reply import Client, Echo, Parameters, Reply
from tests.switching.scene import Scene, SceneName
from tests.switching.setting import CLOSING, Setting, Stage

QUESTION, FOLLOWING = "What is the weather, and what time is it?", "And tomorrow?"
RESULTS: Final = ("19 degrees", "half past nine")
PIXEL: Final = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAYAAABytg0kAAAAFUlEQVR42mNk"
"""An image that the user shows."""

FUNCTIONS: Final[Parameters] = {
    "weather": {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "array", "items": {"type": "integer"}},
        },
    },
    "clock": {"type": "object", "properties": {}},
}
ANSWERED: Final = "answer_after_result"
"""The repair for Mistral, which takes a user's text only after an answer to a call's result."""

ANSWER: Final = "OK."
"""What that repair lets the model say."""

Word = tuple[str, object] | tuple[str, str, Json]
"""A text with its speaker, a result, or a call with name and arguments."""

_TURNS: Final = ("message", "reasoning", "function_call", "function_call_output")


class Case(Struct, frozen=True, kw_only=True):
    """A conversation of two turns.

    echo: how the client sends the first answer back. alias: the second model's other name is used.
    """

    client: str
    first: str
    second: str
    scene: SceneName
    stream: bool
    echo: Echo
    alias: bool = False

    def __str__(self) -> str:
        way = "streamed" if self.stream else "whole"
        return f"{self.client}:{self.first}->{self.second}:{self.scene}-{way}-{self.echo}"


class Conversation:
    """A client's conversation, turn by turn. problems: what was wrong so far."""

    def __init__(
        self, setting: Setting, client: str, *, stream: bool, echo: Echo, image: str = ""
    ) -> None:
        """image: what the user shows with the first question, in base64."""
        self.problems: list[str] = []
        self._setting = setting
        self._client: Client = EVERY_CLIENT[client]
        self._stream = stream
        self._echo: Echo = echo
        self._image = image
        self._items: list[Json] = [self._client.user(QUESTION, image)]
        self._words: list[Word] = [("user", QUESTION)]
        self._said: list[Said] = []

    async def hears(self, vendor: str, scene: SceneName, model: str = "") -> None:
        """Let a vendor answer with a scene; the client adds its answer, and asks on.

        model: the gateway's, if it has not the vendor's name.
        """
        stage = self._setting.stages[vendor]
        stage.scene = stage.scenes[scene]
        answer = await self._ask(model or vendor, stage)
        stage.scene = None
        if answer is None:
            return
        played = stage.scenes[scene]
        reply = self._client.reply(answer.content, self._echo, stream=self._stream)
        self.problems += _of_reply(reply, played)
        results = RESULTS[: len(reply.calls)]
        self._items += [*reply.items, *self._client.results(reply, results)]
        self._items.append(self._client.user(FOLLOWING))
        self._words += [("assistant", played.text)] if played.text else []
        self._words += [("call", name, {**given}) for name, given in played.calls]
        self._words += [("result", text) for text in results]
        self._words.append(("user", FOLLOWING))
        echo = self._echo if self._client.proves else "plain"
        self._said.append(Said(vendor=vendor, scene=played, echo=echo))

    async def ends(self, vendor: str, model: str = "") -> None:
        """Let a vendor answer for the last time."""
        answer = await self._ask(model or vendor, self._setting.stages[vendor])
        if answer is not None:
            reply = self._client.reply(answer.content, "plain", stream=self._stream)
            if reply.text != CLOSING:
                self.problems.append(f"{vendor} says {reply.text!r} at the end")

    async def _ask(self, model: str, stage: Stage) -> httpx.Response | None:
        """Return the answer, `None` if the request failed; look at what the vendor got."""
        body = self._client.body(self._items, FUNCTIONS)
        path, sent = self._client.sends(model, body, stream=self._stream)
        answer = await self._setting.web.post(path, json=sent)
        name = stage.backend.name
        if answer.status_code != 200:
            self.problems.append(f"{name}: {answer.status_code} {answer.text}")
            return None
        received = stage.received[-1]
        self.problems += self._of_words(stage, received, answer)
        self.problems += of_marks(stage.backend, received, self._said)
        self.problems += of_head(answer.headers, received, self._items, self._said)
        return answer

    def _of_words(self, stage: Stage, body: Json, answer: httpx.Response) -> Iterator[str]:
        """Compare texts, calls, results and the image with the conversation, in order."""
        turns = stage.backend.dialect.received(_spoken(body)).turns
        repairs = answer.headers.get("x-gateway-repairs", "")
        expected = _answered(self._words) if ANSWERED in repairs else self._words
        found = list(_flat(turns))
        if found != expected:
            yield f"received {found}, not {expected}"
        calls = [call.id for turn in turns for call in turn.calls]
        results = [id for turn in turns for id, _ in turn.results]
        if calls != results or len(set(calls)) != len(calls):
            yield f"the results of calls {calls} are for {results}"
        if self._image not in json.dumps(body):
            yield "the user's image is missing"


async def switched(setting: Setting, case: Case) -> list[str]:
    """Return what is wrong with a conversation, [] if nothing."""
    setting.reset()
    second = setting.stages[case.second].backend
    talk = Conversation(
        setting,
        case.client,
        stream=case.stream,
        echo=case.echo,
        image=PIXEL if case.scene == "pictured" and second.images else "",
    )
    await talk.hears(case.first, case.scene)
    if not talk.problems:
        await talk.ends(case.second, second.alias if case.alias else "")
    return talk.problems


def _of_reply(reply: Reply, scene: Scene) -> Iterator[str]:
    """Compare the client's view of an answer with the scene."""
    if reply.text != scene.text:
        yield f"an answer says {reply.text!r}, not {scene.text!r}"
    if [(name, given) for _, name, given in reply.calls] != [*scene.calls]:
        yield f"an answer calls {reply.calls}, not {scene.calls}"


def _spoken(body: Json) -> Json:
    """Return the body without items of the vendor's own tools, which are no turns."""
    items = dicts(body.get("input"))
    kept = [one for one in items if one.get("type", "message") in _TURNS]
    return {**body, "input": kept} if items else body


def _flat(turns: Sequence[Turn]) -> Iterator[Word]:
    """Yield texts, calls and results; results before the text of the same turn."""
    for turn in turns:
        role = "assistant" if turn.role == "model" else turn.role
        for _, text in turn.results:
            yield ("result", text)
        if turn.text:
            yield (role, turn.text)
        for call in turn.calls:
            yield ("call", call.name, {**call.arguments})


def _answered(words: Sequence[Word]) -> list[Word]:
    """Return what is said, with an answer between a result and the user's next text."""
    found: list[Word] = []
    for one in words:
        if found and found[-1][0] == "result" and one == ("user", FOLLOWING):
            found.append(("assistant", ANSWER))
        found.append(one)
    return found
