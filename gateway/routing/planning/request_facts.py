"""What rules and policies may know of a request beside its fields: who asks, and its headers."""

from collections.abc import Iterable
from hashlib import blake2b

import msgspec
from msgspec import UNSET, Struct, UnsetType

from schemas.messages import OpaqueTool, Tool, text_of
from schemas.requests import ChatRequest, CompletionRequest, Prompt, Request, TokenRequest

CHARACTERS_A_TOKEN = 4.0
"""English text in today's vocabularies; an estimate, where nobody has counted."""

PREFIX_CHARACTERS = 1024
"""Of the beginning that requests must share to count as alike."""

_strings: msgspec.json.Decoder[dict[str, object]] = msgspec.json.Decoder(dict[str, object])


class RequestFacts(Struct, frozen=True, kw_only=True, gc=False):
    """draw: uniform in [0, 1). now: the clock's seconds. caller: the key's name, "" without.

    request_id: ours, another for every request.
    """

    uniform_draw: float = 0.0
    now: float = 0.0
    caller: str = ""
    headers: Iterable[tuple[bytes, bytes]] = ()
    request_id: str = ""

    def header(self, name: str) -> str | None:
        """Of several with one name, the first. Names in any case."""
        wanted = name.lower().encode("latin-1")
        for field, value in self.headers:
            if field == wanted:
                return value.decode("latin-1")
        return None


def unit_of(request: Request, facts: RequestFacts, by: str) -> str:
    """Who this request belongs to: `by` is user, api_key or header:NAME. "" where unknown."""
    if by == "api_key":
        return facts.caller
    if by == "user":
        user = getattr(request, "user", UNSET)
        return user if isinstance(user, str) else ""
    return facts.header(by.removeprefix("header:")) or ""


def metadata_of(request: Request) -> dict[str, str]:
    """The strings among the request's metadata; {} where it has none or no object."""
    if not isinstance(request, ChatRequest) or not isinstance(request.metadata, msgspec.Raw):
        return {}
    try:
        found = _strings.decode(request.metadata)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return {name: value for name, value in found.items() if isinstance(value, str)}


def estimated_tokens(request: Request) -> int:
    """The prompt's tokens: counted where it is tokens, else by its characters.

    Tools count by their descriptions and schemas; images and audio are left out.
    """
    match request:
        case ChatRequest():
            characters = sum(len(text_of(message)) for message in request.messages)
            if not isinstance(request.tools, UnsetType):
                characters += sum(_characters(tool) for tool in request.tools)
            return round(characters / CHARACTERS_A_TOKEN) + 4 * len(request.messages)
        case CompletionRequest():
            return sum(_tokens(prompt) for prompt in request.prompts)
        case TokenRequest():
            return len(request.tokens)
        case _:
            return sum(_tokens(prompt) for prompt in request.inputs)


def _characters(tool: Tool) -> int:
    if isinstance(tool, OpaqueTool):
        return len(bytes(tool.raw))
    schema = 0 if isinstance(tool.parameters, UnsetType) else len(bytes(tool.parameters))
    about = 0 if isinstance(tool.description, UnsetType) else len(tool.description)
    return len(tool.name) + about + schema


def _tokens(prompt: Prompt) -> int:
    return len(prompt) if isinstance(prompt, tuple) else round(len(prompt) / CHARACTERS_A_TOKEN)


def prefix_of(request: Request, facts: RequestFacts) -> bytes:
    """A digest of how the prompt begins: requests that share it share an engine's cached prefix.

    Salted by the caller, as the cache itself is.
    """
    digest = blake2b(digest_size=16, key=blake2b(facts.caller.encode(), digest_size=32).digest())
    for piece in _beginning(request):
        digest.update(piece)
    return digest.digest()


def _beginning(request: Request) -> list[bytes]:
    """The first characters; of a conversation, its turns up to the first of the user's."""
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
        case _:
            return [_first(request.inputs[0])] if request.inputs else []


def _first(prompt: Prompt) -> bytes:
    if isinstance(prompt, tuple):
        return b",".join([b"%d" % token for token in prompt[: PREFIX_CHARACTERS // 4]])
    return prompt[:PREFIX_CHARACTERS].encode("utf-8", "replace")
