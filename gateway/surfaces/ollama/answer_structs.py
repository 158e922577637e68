"""The answers of Ollama's API, for the API description. `render.py` writes them."""

from msgspec import UNSET, Raw, Struct, UnsetType

from strowger_gateway.gateway.surfaces.ollama.lines import OllamaTimes
from strowger_gateway.gateway.surfaces.openai.envelope import RivalLogprob


class OllamaLogprob(Struct, frozen=True, kw_only=True):
    """top_logprobs: if the client asked for alternatives."""

    token: str
    logprob: float
    bytes: list[int]
    top_logprobs: list[RivalLogprob] | UnsetType = UNSET


class OllamaFunction(Struct, frozen=True, kw_only=True):
    """index: of the call in its message. arguments: an object."""

    index: int
    name: str
    arguments: dict[str, Raw]


class OllamaCall(Struct, frozen=True, kw_only=True):
    id: str
    function: OllamaFunction


class OllamaMessage(Struct, frozen=True, kw_only=True):
    """thinking: the reasoning."""

    role: str
    content: str
    thinking: str | None = None
    tool_calls: list[OllamaCall] | None = None


class OllamaChatAnswer(OllamaTimes, frozen=True, kw_only=True):
    """The whole answer, or a line of it: the last one has `done: true`, the reason and the times.

    created_at: RFC 3339. done_reason: `stop`, `length`, `content_filter`, `load` or `unload`.
    Durations are nanoseconds. images: that the model has generated, in base64; image: the first.
    """

    model: str
    created_at: str
    message: OllamaMessage
    image: str | None = None
    images: list[str] | None = None
    logprobs: list[OllamaLogprob] | None = None
    done: bool
    done_reason: str | None = None


class OllamaGenerateAnswer(OllamaTimes, frozen=True, kw_only=True):
    """As OllamaChatAnswer. context: for the next request, to continue the conversation."""

    model: str
    created_at: str
    response: str
    image: str | None = None
    images: list[str] | None = None
    thinking: str | None = None
    logprobs: list[OllamaLogprob] | None = None
    done: bool
    done_reason: str | None = None
    context: list[int] | None = None
