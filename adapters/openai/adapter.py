"""OpenAI, and every server that speaks its dialect: chat, completions and embeddings.

For api.openai.com the fields of OpenAI's reference are supported, and a token limit that the client
did not name is sent as `max_completion_tokens`. For any other host the fields that our own OpenAI
surface adds (`top_k`, `min_p`, …) are forwarded as well, because servers such as vLLM accept them;
a vendor with known differences has a row in `adapters/openai/vendor_profiles.py`.
https://github.com/openai/openai-openapi
"""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar
from urllib.parse import urlsplit

from msgspec.structs import replace

from strowger_gateway.adapters.base import (
    EVERY_MODEL,
    Continues,
    Endpoint,
    Framing,
    Outbound,
    Range,
    Supports,
)
from strowger_gateway.adapters.capabilities import offered
from strowger_gateway.adapters.client_fields.denied import ANY, withheld
from strowger_gateway.adapters.error_message import Problem, problem
from strowger_gateway.adapters.errors import error_from, error_inside, unreadable
from strowger_gateway.adapters.headers import Headers, accept, merged_headers
from strowger_gateway.adapters.json_objects import NULL, UNREADABLE, read_object
from strowger_gateway.adapters.openai.answer_head import usage_from
from strowger_gateway.adapters.openai.cache_marks import with_cache_marks
from strowger_gateway.adapters.openai.cited_pages import CitedPagesDecoder
from strowger_gateway.adapters.openai.decode import OpenAIDecoder
from strowger_gateway.adapters.openai.encode import (
    CHAT_FIELDS,
    CHAT_SAMPLING,
    COMPLETION_FIELDS,
    COMPLETION_SAMPLING,
    EMBEDDINGS_FIELDS,
    Body,
    BodyFields,
    body_fields,
    chat_body,
    completion_body,
    embeddings_body,
    encode_body,
    mark_prefix,
)
from strowger_gateway.adapters.openai.plain_answer import read_plain
from strowger_gateway.adapters.openai.reasoning import with_thoughts
from strowger_gateway.adapters.openai.trailer_fields import TrailerFieldDecoder
from strowger_gateway.adapters.openai.vendor_profile import (
    COMPATIBLE,
    COMPLETIONS_ONLY,
    REFERENCE_ONLY,
    VendorProfile,
)
from strowger_gateway.adapters.openai.vendor_profiles import OPENAI
from strowger_gateway.adapters.openai.wire import read_vector, read_vectors
from strowger_gateway.adapters.repairs.parallel_calls import parallel_calls
from strowger_gateway.adapters.repairs.rule import Repair
from strowger_gateway.adapters.tasks.form import TaskForms
from strowger_gateway.adapters.tool_repairs.withheld_tools import withheld_tools
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.errors import GatewayError, InvalidRequest, UpstreamBroken
from strowger_gateway.schemas.events import Usage
from strowger_gateway.schemas.fields import MESSAGES, Task, task_of
from strowger_gateway.schemas.plain_answer import PlainAnswer
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    Continuing,
    EmbeddingsRequest,
    GenerateRequest,
    Request,
    expected_choices,
)
from strowger_gateway.schemas.tasks.task import TaskAnswer, TaskRequest

Vector = list[float] | str
"""Numbers, or base64."""

TASKS: tuple[Task, ...] = ("chat", "completion", "embeddings")
PATHS = ("/chat/completions", "/completions", "/embeddings")

CHAT = frozenset(
    {
        *CHAT_SAMPLING,
        *CHAT_FIELDS,
        *MESSAGES,
        "max_tokens",
        "tools",
        "tools.opaque",
        "tool_choice",
        "response_format",
    }
)
COMPLETION = frozenset(
    {
        *COMPLETION_SAMPLING,
        *COMPLETION_FIELDS,
        "logprobs",
        "top_logprobs",
        "prompt.tokens",
        "prompt.batch",
    }
)
EMBEDDINGS = frozenset({*EMBEDDINGS_FIELDS, "input.tokens"})


class OpenAIAdapter:
    """vendor: its profile; by default the one for the endpoint's host."""

    name: ClassVar[str] = "openai"
    framing: ClassVar[Framing] = "sse"

    def __init__(self, endpoint: Endpoint, vendor: VendorProfile | None = None) -> None:
        base = urlsplit(endpoint.base_url)
        host = base.hostname or ""
        official = host == "api.openai.com" or host.endswith(".api.openai.com")
        self.vendor = vendor or (OPENAI if official else COMPATIBLE)
        self.endpoint = endpoint
        self._continues: Continuing | None = endpoint.continues
        if self._continues is None and self.vendor.prefix_path:
            self._continues = "prefix"
        path, query = base.path.rstrip("/"), f"?{base.query}" if base.query else ""
        self._targets = {one: f"{path}{one}{query}" for one in PATHS}
        root = path.removesuffix("/v1").removesuffix(self.vendor.prefix_path)
        self._prefixed = f"{root}{self.vendor.prefix_path}/chat/completions{query}"
        self._tasks = TaskForms(endpoint, path, self.vendor.tasks)
        self._supports = self._tasks.declared(self.supported())
        self._body_fields: dict[Task, BodyFields] = {
            task: body_fields(task, self.vendor, fields)
            for task in TASKS
            if (fields := offered(self._supports, task)) is not None
        }
        self._headers = {
            stream: merged_headers(self.credentials(), accept(stream), endpoint.headers)
            for stream in (False, True)
        }

    @property
    def supports(self) -> Supports:
        return self._supports

    def encode(self, request: Request, model: str) -> Outbound:
        match request:
            case ChatRequest() if "chat" in self._body_fields:
                if request.original is not None and self.vendor.cache_marks(model):
                    request = with_cache_marks(request)
                if self.vendor.thoughts is not None:
                    request = with_thoughts(request, self.vendor.thoughts)
                body = chat_body(request, model, self._body_fields["chat"])
                if request.begun and self._continues is not None:
                    return self._continued(body, request, self._continues)
                return self._outbound("/chat/completions", body, request, stream=request.stream)
            case CompletionRequest() if "completion" in self._body_fields:
                body = completion_body(request, model, self._body_fields["completion"])
                return self._outbound("/completions", body, request, stream=request.stream)
            case EmbeddingsRequest() if "embeddings" in self._body_fields:
                body = embeddings_body(request, model, self._body_fields["embeddings"])
                return self._outbound("/embeddings", body, request, stream=False)
            case TaskRequest():
                target, encoded = self._tasks.encode(request, model)
                return Outbound(target=target, headers=self._headers[False], body=encoded)
            case _:
                task = task_of(request)
                raise InvalidRequest(f"{self.endpoint.name} does not offer {task}", param="model")

    def decoder(self, request: GenerateRequest) -> OpenAIDecoder:
        vendor, choices = self.vendor, expected_choices(request)
        decoder: OpenAIDecoder
        if request.stream and vendor.trailer_field:
            decoder = TrailerFieldDecoder(
                self.endpoint, choices=choices, trailer_field=vendor.trailer_field
            )
        else:
            kind = CitedPagesDecoder if vendor.cites_pages else OpenAIDecoder
            decoder = kind(self.endpoint, stream=request.stream, choices=choices)
            decoder.marked = vendor.marked
        decoder.by_block = type(request) is ChatRequest and request.original is not None
        return decoder

    @property
    def read_plain(self) -> Callable[[bytes], PlainAnswer | None] | None:
        """See PlainReader. A variant of the dialect that decodes otherwise reads none."""
        return read_plain if type(self).decoder is OpenAIAdapter.decoder else None

    def embeddings(self, request: EmbeddingsRequest, body: bytes) -> Embeddings:
        try:
            vectors = read_vectors(body)
            items = [(one.index, read_vector(one.embedding)) for one in vectors.data]
        except UNREADABLE as exc:
            raise self._unreadable(body) from exc
        return Embeddings(
            vectors=self._in_order(items, len(request.inputs)),
            model=vectors.model or "",
            id=vectors.id or "",
            usage=Usage() if vectors.usage == NULL else usage_from(vectors.usage),
        )

    def decode_task(self, request: TaskRequest, body: bytes) -> TaskAnswer:
        """See TaskDecoder."""
        return self._tasks.decode(request, body)

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> GatewayError:
        return error_from(self.endpoint, status, headers, body)

    def credentials(self) -> Headers:
        key = self.endpoint.key.reveal()
        return (("authorization", f"Bearer {key}"),) if key else ()

    def finish_body(self, body: Body, request: Request) -> bytes:
        """Encode the body; variants of the dialect change it here."""
        return encode_body(body)

    def supported(self) -> Supports:
        vendor = self.vendor
        named, omitted = vendor.names.keys() - EMBEDDINGS, vendor.omitted_fields
        by_reference = omitted >= REFERENCE_ONLY
        bounds = {
            **vendor.ranges,
            "stop": Range(items=vendor.stop),
            "n": Range(maximum=vendor.choices),
        }
        return Supports(
            cache_marks=vendor.claude_marks,
            thoughts=vendor.read_thoughts,
            chat=(CHAT | named) - omitted - (COMPLETIONS_ONLY if by_reference else frozenset())
            if vendor.chat
            else None,
            completion=(COMPLETION | named) - omitted if vendor.completion else None,
            embeddings=EMBEDDINGS - omitted if vendor.embeddings else None,
            inputs=vendor.inputs,
            extra=True,
            client_fields=ANY if vendor is COMPATIBLE else withheld(self.vendor.name),
            ranges={name: bound for name, bound in bounds.items() if bound != Range()},
            translated=vendor.translated,
            continues=self._continuing(),
            repairs=(*vendor.repairs, *self._lacking_switches()),
        )

    def _continuing(self) -> Continues | None:
        """What is configured may say little about white space at the end, and repetition."""
        if self.endpoint.continues is None:
            return Continues(model=EVERY_MODEL) if self.vendor.prefix_path else None
        trimmed = self.endpoint.continues == "assistant_turn"
        return Continues(model=EVERY_MODEL, trimmed=trimmed, may_repeat=True)

    def _continued(self, body: Body, request: ChatRequest, how: Continuing) -> Outbound:
        """Return the request whose last message is the beginning of the answer."""
        if how == "continue_final_message":
            body.update({"continue_final_message": True, "add_generation_prompt": False})
        elif how != "assistant_turn":
            mark_prefix(body, how)
        sent = self._outbound("/chat/completions", body, request, stream=request.stream)
        if how == "prefix" and self.vendor.prefix_path:
            return replace(sent, target=self._prefixed)
        return sent

    def _lacking_switches(self) -> tuple[Repair, ...]:
        """Return the rules for what the vendor has no word for."""
        lacking = self.vendor.unsupported
        source = (self.vendor.sources or OPENAI.sources)[0].url
        found = parallel_calls(source) if "parallel_tool_calls" in lacking else ()
        return (*found, withheld_tools(source)) if "tool_choice" in lacking else found

    def _outbound(self, path: str, body: Body, request: Request, *, stream: bool) -> Outbound:
        return Outbound(
            target=self._targets[path],
            headers=self._headers[stream],
            body=self.finish_body(body, request),
            stream=stream,
        )

    def _in_order(
        self, vectors: Sequence[tuple[int | None, Vector]], count: int
    ) -> tuple[Vector, ...]:
        """Order by `index`, or as received if the server sends none; exactly one per input."""
        placed = {
            place if index is None else index: vector
            for place, (index, vector) in enumerate(vectors)
        }
        if set(placed) != set(range(count)) or len(vectors) != count:
            raise UpstreamBroken(
                f"{len(vectors)} vectors for {count} inputs", upstream=self.endpoint.name
            )
        return tuple(placed[place] for place in range(count))

    def _unreadable(self, body: bytes) -> GatewayError:
        """Return the error inside a 200, or UpstreamBroken for an unreadable answer."""
        try:
            fields = read_object(body)
        except UNREADABLE:
            fields = {}
        if fields and "data" not in fields and problem(body) != Problem():
            return error_inside(self.endpoint, body)
        return unreadable(self.endpoint, body)
