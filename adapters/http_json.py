"""The base of adapters whose vendor has an API of its own, with JSON bodies.

Variants of OpenAI's dialect have another base,
`strowger_gateway.adapters.openai.adapter.OpenAIAdapter`.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar
from urllib.parse import urlsplit

from msgspec.structs import replace

from strowger_gateway.adapters.base import Endpoint, Framing, Outbound, Supports
from strowger_gateway.adapters.errors import error_from
from strowger_gateway.adapters.headers import Headers, merged_headers
from strowger_gateway.adapters.tasks.form import AnyTaskForm, TaskForms
from strowger_gateway.schemas.errors import GatewayError, InvalidRequest, UpstreamBroken
from strowger_gateway.schemas.fields import task_of
from strowger_gateway.schemas.requests import EmbeddingsRequest, Request
from strowger_gateway.schemas.tasks.task import TaskAnswer, TaskRequest

_JSON = "application/json"
_STREAMED: Mapping[Framing, str] = {
    "sse": "text/event-stream",
    "sse-unmarked": "text/event-stream",
    "ndjson": "application/x-ndjson",
    "eventstream": "application/vnd.amazon.eventstream",
}


class HttpJsonAdapter:
    """Builds requests with JSON bodies; subclasses encode and decode them.

    tasks: how the vendor offers those of `schemas/tasks`.
    """

    framing: ClassVar[Framing] = "sse"

    tasks: ClassVar[tuple[AnyTaskForm, ...]] = ()

    def __init__(
        self, endpoint: Endpoint, supports: Supports, base: str, credentials: Headers | None = None
    ) -> None:
        """base: the beginning of every target. credentials: `None`: the key as a bearer token."""
        self._endpoint = endpoint
        self._tasks = TaskForms(endpoint, base, self.tasks)
        self._supports = self._tasks.declared(supports)
        self._base = base
        if credentials is None:
            key = endpoint.key.reveal()
            credentials = (("authorization", f"Bearer {key}"),) if key else ()
        self._headers = {
            stream: merged_headers(
                credentials, (("content-type", _JSON), ("accept", kind)), endpoint.headers
            )
            for stream, kind in ((False, _JSON), (True, _STREAMED[self.framing]))
        }

    @property
    def supports(self) -> Supports:
        return self._supports

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> GatewayError:
        return error_from(self._endpoint, status, headers, body)

    def decode_task(self, request: TaskRequest, body: bytes) -> TaskAnswer:
        """See TaskDecoder."""
        return self._tasks.decode(request, body)

    def _task_outbound(self, request: TaskRequest, model: str) -> Outbound:
        target, body = self._tasks.encode(request, model)
        return Outbound(target=target, headers=self._headers[False], body=body)

    def _outbound(self, path: str, body: bytes, *, stream: bool = False) -> Outbound:
        return Outbound(
            target=f"{self._base}{path}", headers=self._headers[stream], body=body, stream=stream
        )

    def _not_offered(self, request: Request) -> InvalidRequest:
        return InvalidRequest(
            f"{self._endpoint.name} does not offer {task_of(request)}", param="model"
        )

    def _check_count(self, vectors: Sequence[object], request: EmbeddingsRequest) -> None:
        """Raises UpstreamBroken unless there is one vector per input."""
        if len(vectors) != len(request.inputs):
            raise UpstreamBroken(
                f"{len(vectors)} vectors for {len(request.inputs)} inputs",
                upstream=self._endpoint.name,
            )


def base_path(endpoint: Endpoint, *ignored: str) -> str:
    """Return the path of the base URL without these ends, such as `/v1`, one after the other."""
    path = urlsplit(endpoint.base_url).path.rstrip("/")
    for end in ignored:
        path = path.removesuffix(end)
    return path


def at_v1(endpoint: Endpoint) -> Endpoint:
    """Return the endpoint of the server's OpenAI dialect, whose base URL ends with `/v1`."""
    base = urlsplit(endpoint.base_url)
    return replace(
        endpoint, base_url=base._replace(path=f"{base_path(endpoint, '/v1')}/v1").geturl()
    )
