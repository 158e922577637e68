"""A conversation with a model of a running gateway: its messages, and the next answer."""

import asyncio
from collections.abc import Callable, Mapping

import msgspec

from strowger_gateway.adapters.framing import SSEParser
from strowger_gateway.gateway.cli.address import Address
from strowger_gateway.gateway.cli.chat.apis import APIS, ApiName, ChatApi, Message
from strowger_gateway.gateway.cli.config_loading import Faults
from strowger_gateway.gateway.cli.http_client import CONNECT_S, Site, error_text, upstream_faults

CHUNK_TIMEOUT_S = 600.0
"""Timeout per chunk; the gateway's own timeouts are shorter, and its comments are chunks."""

LARGEST_ERROR = 1024 * 1024
SHOWN = ("x-gateway-", "x-request-id", "server-timing")
"""Prefixes of the headers that describe how the gateway answered."""


class Conversation:
    """messages: without the system message. headers: the gateway's, of the last answer."""

    def __init__(
        self, address: Address, model: str, *, key: str = "", user: str = "", api: ApiName = "chat"
    ) -> None:
        self.model = model
        self.system = ""
        self.messages: list[Message] = []
        self.headers: dict[str, str] = {}
        self._address = address
        self._key = key
        self._user = user
        self._api = APIS[api]

    def clear(self) -> None:
        """Remove all messages except the system message."""
        self.messages.clear()

    def ask(self, text: str, on_text: Callable[[str, bool], None]) -> str:
        """Return the answer to `text`. on_text: called with each chunk and whether it is reasoning.

        Raises Faults without a complete answer; KeyboardInterrupt cancels it. A partial answer
        stays in the conversation; a question without any answer is removed.
        """
        self.headers = {}
        self.messages.append(Message(role="user", content=text))
        pieces: list[str] = []

        def collect(words: str, thought: bool) -> None:
            if not thought:
                pieces.append(words)
            on_text(words, thought)

        try:
            asyncio.run(self._answer(collect))
        finally:
            answer = "".join(pieces)
            if answer:
                self.messages.append(Message(role="assistant", content=answer))
            else:
                self.messages.pop()
        return answer

    async def _answer(self, on_text: Callable[[str, bool], None]) -> None:
        site = Site(self._address)
        clock = asyncio.get_running_loop().time
        body = self._api.body(self.model, self.system, self.messages, self._user)
        outbound = site.outbound(self._api.path, key=self._key, body=body, stream=True)
        try:
            with upstream_faults(site.url):
                reply = await site.transport.exchange(
                    outbound, connect_by=clock() + CONNECT_S, head_by=clock() + CHUNK_TIMEOUT_S
                )
                try:
                    self.headers = _gateway_headers(reply.headers)
                    if reply.status != 200:
                        data = await reply.body(clock() + CONNECT_S, LARGEST_ERROR)
                        raise Faults((error_text(reply.status, data) + self._remedy(reply.status),))
                    parser = SSEParser("gateway")
                    while data := await reply.chunk(clock() + CHUNK_TIMEOUT_S):
                        if _ended(self._api, parser.feed(data), on_text):
                            return
                    raise Faults(("the answer ended early",))
                finally:
                    await reply.aclose()
        finally:
            await site.transport.aclose()

    def _remedy(self, status: int) -> str:
        return "; give --key or STROWGER_API_KEY" if status == 401 and not self._key else ""


def _gateway_headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.startswith(SHOWN)}


def _ended(
    api: ChatApi, frames: list[tuple[str, bytes]], on_text: Callable[[str, bool], None]
) -> bool:
    """Pass on the content of frames; true at the stream's end. Raises Faults for an error."""
    for _, data in frames:
        try:
            if api.piece(data, on_text):
                return True
        except msgspec.DecodeError as exc:
            raise Faults((f"invalid chunk in the answer: {exc}",)) from exc
    return False
