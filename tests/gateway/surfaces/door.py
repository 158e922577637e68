"""A door: one route by which clients come in, as the matrix of controls needs it."""

import json
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import cast

import httpx
from msgspec import Struct

from tests.stand_ins.provider import Answer, Behaviour, Received

Json = dict[str, object]
REPLY = "x-reply"
"""A word that makes the stand-in answer with the text after it."""


async def chats(request: Received, answer: Answer) -> None:
    """A backend of OpenAI's dialect that answers what the last message asks for, or `hello`."""
    messages = cast("list[dict[str, object]]", request.json["messages"])
    text = _reply(str(messages[-1]["content"]))
    if request.json.get("stream"):
        await answer.stream(text[:5], text[5:])
    else:
        await answer.chat(text)


def _reply(asked: str) -> str:
    return asked.partition(REPLY)[2].strip() or "hello"


class Door(Struct, frozen=True, kw_only=True):
    """One route.

    path:    `{model}` is the model's name. body: of a model and a text.
    user:    of a body and an end user; `None` if the API has no place for one.
    surface: as the access log names it. task: the same.
    said:    the text of a whole answer. heard: that of a stream, `None` if there are none.
    stream:  what a body needs for a stream, and whole for none.
    error:   the text of an error. adapter, base: of the provider behind it. backend: its stand-in.
    speaks:  its answers have text of a model, which guardrails examine.
    cached:  its answers can be kept.
    streams_at: the path of streams, if they have one of their own.
    """

    name: str
    path: str
    surface: str
    task: str = "chat"
    body: Callable[[str, str], Json]
    user: Callable[[Json, str], Json] | None = None
    said: Callable[[Json], str]
    heard: Callable[[str], str] | None = None
    stream: Mapping[str, object] = MappingProxyType({"stream": True})
    whole: Mapping[str, object] = MappingProxyType({})
    error: Callable[[Json], str]
    adapter: str = "openai"
    base: str = "/v1"
    backend: Behaviour = chats
    speaks: bool = True
    cached: bool = True
    streams_at: str = ""

    def at(self, model: str, *, stream: bool = False) -> str:
        path = self.streams_at if stream and self.streams_at else self.path
        return path.replace("{model}", model)

    def text_of(self, answer: httpx.Response, *, stream: bool) -> str:
        assert answer.status_code == 200, answer.text
        if stream:
            assert self.heard is not None
            return self.heard(answer.text)
        return self.said(answer.json())

    def error_of(self, answer: httpx.Response) -> str:
        return self.error(answer.json())


def events(text: str) -> Iterable[Mapping[str, object]]:
    """The events of a stream, in `data:` lines or in lines of their own."""
    for line in text.split("\n"):
        line = line.removeprefix("data:").strip()
        if line.startswith("{"):
            yield cast("Mapping[str, object]", json.loads(line))


def pieces(*path: str | int) -> Callable[[str], str]:
    """Join the texts at a path of a stream's events."""

    def heard(text: str) -> str:
        return "".join(one for event in events(text) if isinstance(one := at(event, *path), str))

    return heard


def at(value: object, *path: str | int) -> object:
    """The value at a path; `None` if there is none."""
    for step in path:
        if isinstance(step, str) and isinstance(value, dict):
            value = cast("Json", value).get(step)
        elif isinstance(step, int) and isinstance(value, list):
            entries = cast("list[object]", value)
            value = entries[step] if step < len(entries) else None
        else:
            return None
    return value


def text_at(*path: str | int) -> Callable[[Json], str]:
    def said(body: Json) -> str:
        found = at(body, *path)
        assert isinstance(found, str), body
        return found

    return said


def with_field(name: str) -> Callable[[Json, str], Json]:
    return lambda body, user: {**body, name: user}
