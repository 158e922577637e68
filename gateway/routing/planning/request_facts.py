"""What is known of a request besides its fields: its key, its headers, its length, a draw."""

from collections.abc import Iterable
from hashlib import blake2b

import msgspec
from msgspec import UNSET, Struct, UnsetType

from strowger_gateway.gateway.routing.planning.sessions import HEADERS, session_in
from strowger_gateway.schemas.messages import OpaqueTool, Tool, text_of
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    Prompt,
    Request,
    TokenRequest,
)
from strowger_gateway.schemas.tasks.task import TaskRequest

CHARACTERS_PER_TOKEN = 4.0
"""English text with current vocabularies. An estimate for prompts that are not tokens."""

PREFIX_CHARACTERS = 1024
"""The length of the prefix that requests must share to go to the same backend."""

_strings: msgspec.json.Decoder[dict[str, object]] = msgspec.json.Decoder(dict[str, object])


class RequestFacts(Struct, frozen=True, kw_only=True, gc=False):
    """The facts about one request that are not in its body.

    uniform_draw: uniform in [0, 1), drawn once per request.
    now:        the clock's seconds.
    caller:     the name of the client's key; "" without one.
    request_id: the gateway's own, unique per request.
    left_out:   why it does not fit the prompts of its experiment's variants; "" if it has that of
                its own, `None` if nothing has given it one.
    """

    uniform_draw: float = 0.0
    now: float = 0.0
    caller: str = ""
    headers: Iterable[tuple[bytes, bytes]] = ()
    request_id: str = ""
    left_out: str | None = None

    def header(self, name: str) -> str | None:
        """The first header of a name, in any case; `None` if there is none."""
        wanted = name.lower().encode("latin-1")
        for field, value in self.headers:
            if field == wanted:
                return value.decode("latin-1")
        return None


def unit_of(request: Request, facts: RequestFacts, by: str) -> str:
    """The unit that the request belongs to; "" if unknown.

    by: user, session, api_key or header:NAME.
    """
    if by == "api_key":
        return facts.caller
    if by == "session":
        for name in HEADERS:
            if session := facts.header(name):
                return session
        return session_in(request, metadata_of(request))
    if by == "user":
        user = getattr(request, "user", UNSET)
        return user if isinstance(user, str) else ""
    return facts.header(by.removeprefix("header:")) or ""


def metadata_of(request: Request) -> dict[str, str]:
    """The strings among the request's metadata; {} if it is absent or not an object."""
    if not isinstance(request, ChatRequest):
        return {}
    raw = request.metadata
    if raw is UNSET and request.original is not None:
        # Another dialect's metadata, which backends do not get under OpenAI's name.
        raw = request.original.fields.get("metadata", UNSET)
    if not isinstance(raw, msgspec.Raw):
        return {}
    try:
        found = _strings.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return {name: value for name, value in found.items() if isinstance(value, str)}


def estimated_tokens(request: Request) -> int:
    """The number of the prompt's tokens: exact for token ids, else estimated by its characters.

    Tools count with their descriptions and schemas; images and audio do not count.
    """
    match request:
        case ChatRequest():
            characters = 0
            for message in request.messages:
                content = message.content
                characters += len(content if type(content) is str else text_of(message))
            if not isinstance(request.tools, UnsetType):
                characters += sum(_characters(tool) for tool in request.tools)
            return round(characters / CHARACTERS_PER_TOKEN) + 4 * len(request.messages)
        case CompletionRequest():
            return sum(_tokens(prompt) for prompt in request.prompts)
        case TokenRequest():
            return len(request.tokens)
        case TaskRequest():
            return round(request.characters / CHARACTERS_PER_TOKEN)
        case _:
            return sum(_tokens(prompt) for prompt in request.inputs)


def searches_in(request: Request) -> int:
    """The estimated search units of a request; 0 if no vendor bills it by them."""
    return request.searches if isinstance(request, TaskRequest) else 0


def _characters(tool: Tool) -> int:
    if isinstance(tool, OpaqueTool):
        return len(bytes(tool.raw))
    schema = 0 if isinstance(tool.parameters, UnsetType) else len(bytes(tool.parameters))
    about = 0 if isinstance(tool.description, UnsetType) else len(tool.description)
    return len(tool.name) + about + schema


def _tokens(prompt: Prompt) -> int:
    return len(prompt) if isinstance(prompt, tuple) else round(len(prompt) / CHARACTERS_PER_TOKEN)


def prefix_of(request: Request, facts: RequestFacts) -> bytes:
    """A digest of the prompt's prefix: requests with the same one share an engine's prefix cache.

    Salted by the caller, as that cache is.
    """
    digest = blake2b(digest_size=16, key=blake2b(facts.caller.encode(), digest_size=32).digest())
    for piece in _beginning(request):
        digest.update(piece)
    return digest.digest()


def _beginning(request: Request) -> list[bytes]:
    """The first characters; in a chat, of each message up to the first user message."""
    match request:
        case ChatRequest():
            pieces: list[bytes] = []
            for message in request.messages:
                text = text_of(message)[:PREFIX_CHARACTERS]
                pieces += [message.role.encode(), b"\0", text.encode("utf-8", "replace"), b"\0"]
                if message.role == "user":
                    break
            return pieces
        case CompletionRequest():
            return [_first(request.prompts[0])] if request.prompts else []
        case TokenRequest():
            return [_first(request.tokens)]
        case TaskRequest():
            return [_first(text) for text in request.texts[:1]]
        case _:
            return [_first(request.inputs[0])] if request.inputs else []


def _first(prompt: Prompt) -> bytes:
    if isinstance(prompt, tuple):
        return b",".join([b"%d" % token for token in prompt[: PREFIX_CHARACTERS // 4]])
    return prompt[:PREFIX_CHARACTERS].encode("utf-8", "replace")
