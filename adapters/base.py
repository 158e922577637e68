"""What an adapter is: the seam that every provider dialect, ours or a third party's, fits.

An adapter does no I/O: no socket, clock, log or environment. It turns requests into bytes and
bytes into events, and says beforehand which request fields it can honour.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Literal, Protocol, runtime_checkable

from msgspec import Struct

from adapters.client_fields.carried import Carries
from adapters.client_fields.denied import ANY
from adapters.client_fields.patterns import ClientFields
from schemas.answers import Embeddings
from schemas.errors import GatewayError
from schemas.events import Event
from schemas.fields import Task
from schemas.messages import ThoughtKind
from schemas.requests import EmbeddingsRequest, GenerateRequest, Request
from schemas.secret import Secret

Framing = Literal["sse", "sse-unmarked", "ndjson", "eventstream"]
"""`sse-unmarked`: without an end mark in the dialect; where the body ends, the stream is whole."""

STRAY = "\x00stray"
"""The event name under which lines that are no SSE field reach a decoder (a bare JSON error)."""


class Endpoint(Struct, frozen=True, kw_only=True):
    """One configured account at a provider.

    name:     the provider's configured name; it starts every error message.
    base_url: scheme, authority and path prefix, without a trailing slash.
    headers:  sent with every request, after the adapter's own.
    """

    name: str
    base_url: str
    key: Secret = Secret("")
    headers: tuple[tuple[str, str], ...] = ()


class Outbound(Struct, frozen=True, kw_only=True, gc=False):
    """One HTTP request, ready to be sent.

    target:  the origin-form request target: path prefix, path and query.
    headers: all but host, content-length and accept-encoding, which the transport sets.
    stream:  the answer will be streamed, so first_token_s and between_tokens_s apply.
    """

    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    method: str = "POST"
    stream: bool = False

    def __repr__(self) -> str:
        return f"Outbound({self.method} {self.target}, {len(self.body)} bytes)"


def unauthenticated(status: int, body: bytes) -> bool:
    """What RFC 9110 means by 401: the credentials, and nothing else, are not accepted."""
    return status == 401


class TokenEndpoint(Struct, frozen=True, kw_only=True):
    """Where a vendor's OAuth tokens come from: a path at the base URL's host, and what to ask.

    lapsed: whether an answer of 401 or 403, by status and body, says that a token is not valid
            (any more), so that another one may be accepted.
    """

    path: str
    scope: str = ""
    lapsed: Callable[[int, bytes], bool] = unauthenticated


class Range(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a backend takes for a field; `None` is unbounded. Items: the most list entries."""

    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    below: float | None = None
    items: int | None = None


class Ceilings(Struct, frozen=True, kw_only=True):
    """The most tokens that models of a vendor answer with.

    by_model:  beginnings of names, and the ceiling; the longest that fits counts.
    otherwise: of a model that none fits: what every model of the vendor's takes.
    """

    by_model: Mapping[str, int] = {}
    otherwise: int = 4096

    def of(self, model: str) -> int:
        fitting = [name for name in self.by_model if model.startswith(name)]
        return self.by_model[max(fitting, key=len)] if fitting else self.otherwise


ALL_THOUGHTS: frozenset[ThoughtKind] = frozenset({"text", "signed", "encrypted"})
READABLE: frozenset[ThoughtKind] = frozenset({"text", "signed"})
"""Thoughts of which a backend reads the text, whoever thought them."""

PROVEN: frozenset[ThoughtKind] = frozenset({"signed", "encrypted"})
"""Thoughts that a backend reads only with the vendor's own proof."""


class Supports(Struct, frozen=True, kw_only=True):
    """The request fields that a dialect honours, by task; `None`: the task is not offered.

    Names are those of schemas.fields: a request's own fields (`tools`, `user`), those of
    `Sampling` (`top_k`), and content kinds (`messages.image`: one that comes with its bytes,
    `messages.remote_image`, `messages.audio`, `messages.opaque`, `tools.opaque`,
    `prompt.tokens`, `prompt.batch`: more than one, `input.tokens`).
    extra:  unknown top-level fields travel on unchanged.
    extra_fields: where `extra` is false, those that do all the same, by task.
    ranges: bounds by field name, where they are narrower than the surfaces'.
    translated: by task and field, where the body says a supported field, if it is not under the
            field's own name and as OpenAI's dialect writes it
            (adapters.conformance.openai_field_names). A path, as adapters.conformance.json_paths
            writes it; ` + ` joins what is said in several places, ` or ` what depends on the model,
            and parentheses hold a remark: `output_config.effort + thinking or thinking`, `priority
            (1 … 5 as -4 … 0)`.
    requires: fields without which this backend takes no request.
    fetched_images: beginnings of image addresses that the backend reads itself where it does not
            take `messages.remote_image` in general; the others are fetched for it.
    thoughts: the kinds of thoughts, handed back by a client, that the backend reads; others are
            left out of what it gets, and named.
    proofs: formats of signatures and encrypted thoughts that it reads, of those that say whose
            they are; `None`: all, for it does not check them.
    text_of_tokens: the tokens of an answer come with their text.
    inputs: the most inputs of one request for embeddings; more are sent in several.
    client_fields: which of the fields that our schema does not have a client may send through,
            at any depth (adapters.client_fields.patterns).
    carries: which of them reach the backend; `None`: nobody has looked.
    max_tokens: what a request gets that names no bound, where the backend requires one.
    lacks: the fields of a chat that a model of the provider's, by its name, does not honour.
    """

    chat: frozenset[str] | None = None
    completion: frozenset[str] | None = None
    embeddings: frozenset[str] | None = None
    tokens: frozenset[str] | None = None
    extra: bool = False
    extra_fields: Mapping[Task, frozenset[str]] = {}
    ranges: Mapping[str, Range] = {}
    translated: Mapping[Task, Mapping[str, str]] = {}
    requires: frozenset[str] = frozenset()
    fetched_images: tuple[str, ...] = ()
    thoughts: frozenset[ThoughtKind] = frozenset()
    proofs: frozenset[str] | None = None
    text_of_tokens: bool = True
    inputs: int | None = None
    client_fields: ClientFields = ANY
    carries: Carries | None = None
    max_tokens: Ceilings | None = None
    lacks: Callable[[str], frozenset[str]] | None = None


class Decoder(Protocol):
    """Reads one answer. Both verbs return events in order and keep state between calls."""

    def feed(self, event: str, data: bytes) -> Sequence[Event]:
        """One frame (or, for an answer that is not streamed, the whole body with event "").

        Raises UpstreamBroken for a frame that cannot be read, UpstreamFailed (or another
        UpstreamError) for a vendor's marker of failure inside a 200.
        """
        ...

    def close(self) -> Sequence[Event]:
        """The body has ended. Raises UpstreamBroken if the vendor's end mark is missing."""
        ...


class Adapter(Protocol):
    """One wire format, configured for one endpoint; one instance serves all requests."""

    name: ClassVar[str]
    framing: ClassVar[Framing]

    def __init__(self, endpoint: Endpoint) -> None: ...

    @property
    def supports(self) -> Supports: ...

    def encode(self, request: Request, model: str) -> Outbound:
        """Bytes for the provider's model `model`. Raises InvalidRequest naming the field."""
        ...

    def decoder(self, request: GenerateRequest) -> Decoder:
        """A fresh decoder for the answer to `request`, streamed or not as it asks."""
        ...

    def embeddings(self, request: EmbeddingsRequest, body: bytes) -> Embeddings:
        """The vectors of a whole 200 answer. Raises UpstreamBroken if they cannot be read."""
        ...

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> GatewayError:
        """What an answer with a status of 400 or more means. Header names are lower-case."""
        ...


@runtime_checkable
class EndMarked(Protocol):
    """A decoder of streams that say themselves where they end.

    ended: the mark has come. What follows is not read, and a connection that breaks then, or is
           never closed, does no harm. Of a dialect in which totals come after the mark, not before
           they have come, too.
    """

    ended: bool


@runtime_checkable
class HeadReader(Protocol):
    """An adapter whose answers say in their header fields what the client should hear, too."""

    def decoder_of(self, request: GenerateRequest, headers: Mapping[str, str]) -> Decoder:
        """In place of `decoder`, once the head of a 200 has come. Names are lower-case."""
        ...


@runtime_checkable
class InputsByModel(Protocol):
    """An adapter whose models differ in how many inputs a request for embeddings may have."""

    def inputs_of(self, model: str) -> int:
        """In place of `Supports.inputs`; the model is the provider's."""
        ...


@runtime_checkable
class HasBaseUrl(Protocol):
    """An adapter whose vendor has one address for everybody, used where none is configured."""

    base_url: ClassVar[str]


@runtime_checkable
class HasTokenEndpoint(Protocol):
    """An adapter whose vendor gives out OAuth tokens (`providers[].oauth`)."""

    token_endpoint: ClassVar[TokenEndpoint]
