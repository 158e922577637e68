"""A conversation with a model of a running gateway: what was said, and the next answer."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from adapters.framing import SSEParser
from gateway.cli.config_loading import Faults
from gateway.cli.http_client import CONNECT_S, Site, error_text, upstream_faults

PATIENCE_S = 600.0
"""For each piece; the gateway's own timeouts are shorter, and its comments count as pieces."""

LARGEST_ERROR = 1024 * 1024
SHOWN = ("x-gateway-", "x-request-id", "server-timing")
"""How the headers begin that tell how an answer came about."""


class Said(Struct, frozen=True, kw_only=True):
    role: Literal["system", "user", "assistant"]
    content: str


class _Body(Struct, frozen=True, kw_only=True, omit_defaults=True):
    model: str
    messages: tuple[Said, ...]
    stream: bool
    user: str | UnsetType = UNSET


class _Delta(Struct):
    content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None


class _Choice(Struct):
    delta: _Delta


class _Told(Struct):
    message: str


class _Chunk(Struct):
    choices: list[_Choice] = []
    error: _Told | None = None


class Conversation:
    """said: all turns but the system's. told: the last answer's headers that tell of its way."""

    def __init__(self, url: str, model: str, *, key: str = "", user: str = "") -> None:
        self.model = model
        self.system = ""
        self.said: list[Said] = []
        self.told: dict[str, str] = {}
        self._url = url
        self._key = key
        self._user = user

    def clear(self) -> None:
        """Forget what was said; the system message stays."""
        self.said.clear()

    def ask(self, text: str, hear: Callable[[str, bool], None]) -> str:
        """The answer to `text`, which `hear` gets piece by piece: the words, and whether they are
        a thought.

        Raises Faults where there is none, or none to its end; KeyboardInterrupt cancels it. An
        answer of which something was heard stays in the conversation, a question without one goes.
        """
        self.told = {}
        self.said.append(Said(role="user", content=text))
        pieces: list[str] = []

        def heard(words: str, thought: bool) -> None:
            if not thought:
                pieces.append(words)
            hear(words, thought)

        try:
            asyncio.run(self._answer(heard))
        finally:
            answer = "".join(pieces)
            if answer:
                self.said.append(Said(role="assistant", content=answer))
            else:
                self.said.pop()
        return answer

    def _body(self) -> bytes:
        system = (Said(role="system", content=self.system),) if self.system else ()
        return msgspec.json.encode(
            _Body(
                model=self.model,
                messages=(*system, *self.said),
                stream=True,
                user=self._user or UNSET,
            )
        )

    async def _answer(self, heard: Callable[[str, bool], None]) -> None:
        site = Site(self._url)
        clock = asyncio.get_running_loop().time
        outbound = site.outbound(
            "/v1/chat/completions", key=self._key, body=self._body(), stream=True
        )
        try:
            with upstream_faults(site.url):
                reply = await site.transport.exchange(
                    outbound, connect_by=clock() + CONNECT_S, head_by=clock() + PATIENCE_S
                )
                try:
                    self.told = _telling(reply.headers)
                    if reply.status != 200:
                        data = await reply.body(clock() + CONNECT_S, LARGEST_ERROR)
                        raise Faults((error_text(reply.status, data),))
                    parser = SSEParser("gateway")
                    while data := await reply.chunk(clock() + PATIENCE_S):
                        if _ended(parser.feed(data), heard):
                            return
                    raise Faults(("the answer broke off",))
                finally:
                    await reply.aclose()
        finally:
            await site.transport.aclose()


def _telling(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.startswith(SHOWN)}


def _ended(frames: list[tuple[str, bytes]], heard: Callable[[str, bool], None]) -> bool:
    """Hand on what the frames say; true at the stream's end. Raises Faults for an error."""
    for _, data in frames:
        if data == b"[DONE]":
            return True
        try:
            chunk = msgspec.json.decode(data, type=_Chunk)
        except msgspec.DecodeError as exc:
            raise Faults((f"a piece of the answer cannot be read: {exc}",)) from exc
        if chunk.error is not None:
            raise Faults((f"the answer broke off: {chunk.error.message}",))
        for choice in chunk.choices:
            if choice.delta.reasoning:
                heard(choice.delta.reasoning, True)
            if words := choice.delta.content or choice.delta.refusal:
                heard(words, False)
    return False
