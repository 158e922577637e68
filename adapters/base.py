"""The adapter interface that every provider dialect, ours or a third party's, implements.

An adapter does no I/O: no socket, clock, log or environment. It turns requests into bytes and
bytes into events, and declares which request fields it can honour.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Literal, Protocol, runtime_checkable

from msgspec import Struct

from strowger_gateway.adapters.client_fields.carried import Carries
from strowger_gateway.adapters.client_fields.denied import ANY
from strowger_gateway.adapters.client_fields.patterns import ClientFields
from strowger_gateway.adapters.repairs.rule import Repair
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.events import Event
from strowger_gateway.schemas.fields import Task
from strowger_gateway.schemas.messages import ThoughtKind
from strowger_gateway.schemas.plain_answer import PlainAnswer
from strowger_gateway.schemas.requests import (
    ChatRequest,
    Continuing,
    EmbeddingsRequest,
    GenerateRequest,
    Request,
)
from strowger_gateway.schemas.secret import Secret
from strowger_gateway.schemas.tasks.task import TaskAnswer, TaskRequest

Framing = Literal["sse", "sse-unmarked", "ndjson", "eventstream"]
"""`sse-unmarked`: the dialect has no end mark; the stream is complete when the body ends."""

STRAY = "\x00stray"
"""The event name for lines that are not SSE fields, such as a bare JSON error."""


class Endpoint(Struct, frozen=True, kw_only=True):
    """One configured account at a provider.

    name:     the provider's configured name; every error message starts with it.
    base_url: scheme, authority and path prefix, without a trailing slash.
    headers:  sent with every request, after the adapter's own.
    contexts: the tokens of context with which a server loads a model, by the model's name; `*`: of
              all others. For Ollama, which takes it in each request.
    continues: how it continues an answer, in OpenAI's dialect; `None`: as is known of the vendor.
    """

    name: str
    base_url: str
    key: Secret = Secret("")
    headers: tuple[tuple[str, str], ...] = ()
    contexts: Mapping[str, int] = {}
    continues: Continuing | None = None


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
    """Return whether the status is 401: by RFC 9110, the credentials were not accepted."""
    return status == 401


class TokenEndpoint(Struct, frozen=True, kw_only=True):
    """A vendor's OAuth token endpoint: a path at the base URL's host, and the scope to request.

    lapsed: returns whether a 401 or 403, by status and body, means that the token is invalid or
            expired, so that a new one may be accepted.
    """

    path: str
    scope: str = ""
    lapsed: Callable[[int, bytes], bool] = unauthenticated


class Range(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The values a backend accepts; `None` is unbounded. items: the most list entries."""

    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    below: float | None = None
    items: int | None = None


class Ceilings(Struct, frozen=True, kw_only=True):
    """The largest answers, in tokens, of a vendor's models.

    by_model:  name prefix -> ceiling; the longest matching prefix applies.
    otherwise: the ceiling of all other models: one that every model of the vendor accepts.
    """

    by_model: Mapping[str, int] = {}
    otherwise: int = 4096

    def of(self, model: str) -> int:
        fitting = [name for name in self.by_model if model.startswith(name)]
        return self.by_model[max(fitting, key=len)] if fitting else self.otherwise


ALL_THOUGHTS: frozenset[ThoughtKind] = frozenset({"text", "signed", "encrypted"})
READABLE: frozenset[ThoughtKind] = frozenset({"text", "signed"})
"""Reasoning of which a backend reads the text, whichever vendor's model wrote it."""

PROVEN: frozenset[ThoughtKind] = frozenset({"signed", "encrypted"})
"""Reasoning that a backend reads only with the vendor's own proof."""


class Continues(Struct, frozen=True, kw_only=True):
    """How a backend continues a chat's answer whose beginning is the last message.

    model:   returns whether a model of the provider, by name, does.
    trimmed: the beginning may not end in white space.
    repeats: the answer starts with the beginning. may_repeat: that is not known.
    """

    model: Callable[[str], bool]
    trimmed: bool = False
    repeats: bool = False
    may_repeat: bool = False


EVERY_MODEL: Callable[[str], bool] = lambda _: True  # noqa: E731  a value of `Continues.model`


class Supports(Struct, frozen=True, kw_only=True):
    """The request fields that a dialect honours, by task; `None`: the task is not offered.

    Names are those of schemas/fields.py: a request's own fields (`tools`, `user`), those of
    `Sampling` (`top_k`), and content kinds (`messages.image`: an image sent with its bytes,
    `messages.remote_image`, `messages.audio`, `messages.opaque`, `tools.opaque`,
    `prompt.tokens`, `prompt.batch`: more than one, `input.tokens`).
    extra:  unknown top-level fields are forwarded unchanged.
    extra_fields: if `extra` is false, the ones that are forwarded nevertheless, by task.
    ranges: bounds by field name, if narrower than the surfaces'.
    translated: by task and field, where the body carries a supported field, unless it is under the
            field's own name and in the format of OpenAI's dialect
            (adapters/conformance/openai_field_names.py). A path, as
            adapters/conformance/json_paths.py writes it; ` + ` joins several places, ` or `
            alternatives that depend on the model,
            and parentheses hold a remark: `output_config.effort + thinking or thinking`, `priority
            (1 … 5 as -4 … 0)`.
    requires: fields without which this backend rejects a request.
    fetched_images: prefixes of image addresses that the backend fetches itself although it does not
            support `messages.remote_image` in general; the gateway fetches all others.
    thoughts: the kinds of reasoning, sent back by a client, that the backend reads; others are
            omitted from its request, and reported.
    proofs: formats of signatures and encrypted reasoning that it reads, of those that name a
            format; `None`: all, because it does not check them.
    text_of_tokens: the tokens of an answer come with their text.
    inputs: the most inputs in one embeddings request; more are split over several requests.
    items:  the most documents, pairs or texts in one request of a task of `schemas/tasks`.
    client_fields: which fields outside our schema a client may send through, at any depth
            (adapters/client_fields/patterns.py).
    carries: which of those reach the backend; `None`: unknown.
    max_tokens: the limit set on a request without one, if the backend requires a limit.
    dialect: the dialect other than OpenAI's of which it reads blocks, tools and fields as a client
            wrote them (strowger_gateway.schemas.requests.Original); "": none.
    headers: fields that are headers in another dialect (schemas/hints.py), which the backend reads
            elsewhere in its own requests.
    lacks: returns the chat fields that a model of the provider, by name, does not honour.
    continues: how it continues the beginning of an answer (`ChatRequest.begun`); `None`: it does
            not. Bare prompts need nothing for that.
    repairs: rules for requests that it would refuse although it can answer them, in their order.
    cache_marks: returns whether a model of the provider, by name, caches the prompt up to marks
            (`cache_control`); `None`: none does.
    compacts: it summarises a long conversation itself (schemas/requests.py, Compaction).
    """

    chat: frozenset[str] | None = None
    completion: frozenset[str] | None = None
    embeddings: frozenset[str] | None = None
    tokens: frozenset[str] | None = None
    rerank: frozenset[str] | None = None
    score: frozenset[str] | None = None
    classify: frozenset[str] | None = None
    pool: frozenset[str] | None = None
    moderate: frozenset[str] | None = None
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
    items: Mapping[Task, int] = {}
    client_fields: ClientFields = ANY
    carries: Carries | None = None
    max_tokens: Ceilings | None = None
    dialect: str = ""
    headers: frozenset[str] = frozenset()
    lacks: Callable[[str], frozenset[str]] | None = None
    continues: Continues | None = None
    repairs: tuple[Repair, ...] = ()
    cache_marks: Callable[[str], bool] | None = None
    compacts: bool = False


class Decoder(Protocol):
    """Decodes one answer. Both methods return events in order and keep state between calls."""

    def feed(self, event: str, data: bytes) -> Sequence[Event]:
        """Decode one frame (or, of an answer that is not streamed, the whole body with event "").

        Raises UpstreamBroken for an unreadable frame, UpstreamFailed (or another
        UpstreamError) for a vendor's marker of failure inside a 200.
        """
        ...

    def close(self) -> Sequence[Event]:
        """Handle the end of the body. Raises UpstreamBroken if the vendor's end mark is missing."""
        ...


class Adapter(Protocol):
    """One wire format, configured for one endpoint; one instance serves all requests."""

    name: ClassVar[str]
    framing: ClassVar[Framing]

    def __init__(self, endpoint: Endpoint) -> None: ...

    @property
    def supports(self) -> Supports: ...

    def encode(self, request: Request, model: str) -> Outbound:
        """Encode a request for the provider's `model`. Raises InvalidRequest naming the field."""
        ...

    def decoder(self, request: GenerateRequest) -> Decoder:
        """Return a new decoder for the answer to `request`, streamed or not as the request says."""
        ...

    def embeddings(self, request: EmbeddingsRequest, body: bytes) -> Embeddings:
        """Decode the vectors of a complete 200 answer. Raises UpstreamBroken if that fails."""
        ...

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> GatewayError:
        """Translate an answer with a status of 400 or more. Header names are lower-case."""
        ...


@runtime_checkable
class TaskDecoder(Protocol):
    """An adapter that offers tasks of `schemas/tasks`; its `encode` encodes their requests."""

    def decode_task(self, request: TaskRequest, body: bytes) -> TaskAnswer:
        """Decode a complete 200 answer.

        Raises UpstreamBroken for one that is unreadable, or not about the request's items.
        """
        ...


@runtime_checkable
class EndMarked(Protocol):
    """A decoder of streams that contain their own end mark.

    ended: the end mark was received. Anything after it is ignored, so a connection that then
           breaks, or is never closed, does no harm. If a dialect sends totals after the mark, true
           only once they have been received as well.
    """

    ended: bool


@runtime_checkable
class HeadReader(Protocol):
    """An adapter whose answers carry data for the client in their header fields as well."""

    def decoder_of(self, request: GenerateRequest, headers: Mapping[str, str]) -> Decoder:
        """Replaces `decoder` once the head of a 200 has been received. Names are lower-case."""
        ...


@runtime_checkable
class PlainReader(Protocol):
    """An adapter that reads whole chat answers which are nothing but text, without events."""

    @property
    def read_plain(self) -> Callable[[bytes], PlainAnswer | None] | None:
        """Return what reads a body; its `None`: the body is to be decoded to events.

        An answer that it reads is the same that the decoder's events make up. `None`: this
        adapter reads none.
        """
        ...


@runtime_checkable
class InputsByModel(Protocol):
    """An adapter whose models differ in the number of inputs per embeddings request."""

    def inputs_of(self, model: str) -> int:
        """Replaces `Supports.inputs`; the model is the provider's."""
        ...


@runtime_checkable
class TokenCounter(Protocol):
    """An adapter whose vendor counts the tokens of a conversation without answering it."""

    def encode_count(self, request: ChatRequest, model: str) -> Outbound:
        """Encode the question. Raises InvalidRequest as `encode` does."""
        ...

    def counted(self, body: bytes) -> int:
        """Read the answer. Raises UpstreamBroken if that fails, Uncountable with a rough count."""
        ...


@runtime_checkable
class RecentTokenCounter(Protocol):
    """A token counter whose older servers answer the question with one of these statuses."""

    cannot_count: ClassVar[frozenset[int]]


@runtime_checkable
class HasBaseUrl(Protocol):
    """An adapter whose vendor has one address for all customers, the default base URL."""

    base_url: ClassVar[str]


@runtime_checkable
class HasTokenEndpoint(Protocol):
    """An adapter whose vendor issues OAuth tokens (`providers[].oauth`)."""

    token_endpoint: ClassVar[TokenEndpoint]
