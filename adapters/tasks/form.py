"""How a vendor offers a task: a path, a body, and the answer, in one value.

An adapter that offers tasks has a `TaskForms` of its forms. It encodes and decodes them, and says
in the adapter's `Supports` what they honour. Vendors that differ in names only share a form.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from strowger_gateway.adapters.base import Adapter, Endpoint, Supports, TaskDecoder
from strowger_gateway.adapters.errors import error_inside, unreadable
from strowger_gateway.adapters.json_objects import UNREADABLE, read_object
from strowger_gateway.schemas.errors import GatewayError, InvalidRequest, UpstreamBroken
from strowger_gateway.schemas.fields import Task
from strowger_gateway.schemas.tasks.classify import ClassifyRequest
from strowger_gateway.schemas.tasks.moderate import ModerateRequest
from strowger_gateway.schemas.tasks.pool import PoolRequest
from strowger_gateway.schemas.tasks.rerank import RerankRequest
from strowger_gateway.schemas.tasks.score import ScoreRequest
from strowger_gateway.schemas.tasks.task import TaskAnswer, TaskRequest

Body = dict[str, object]
Target = Callable[[str, str, TaskRequest], str]
"""Returns the request target, of the base URL's path, the vendor's name of the model, and what is
asked for."""

AnyTask = TypeVar("AnyTask", bound=TaskRequest)

_encode = msgspec.json.Encoder().encode


class NotAnAnswer(Exception):
    """An answer that is readable, and not about the request. Its text says why."""


class NoResults(NotAnAnswer):
    """An answer without the member that has the results: perhaps an error."""


class TaskForm(Struct, Generic[AnyTask], frozen=True, kw_only=True):
    """kind: the request's type.

    body:    encodes a request for the vendor's model, without `extra`. Raises InvalidRequest.
    read:    decodes the body of a 200. Raises UNREADABLE, and NotAnAnswer.
    fields:  the fields and kinds of content that are honoured.
    needs:   those of them without which the vendor rejects a request.
    extra:   unknown fields that the vendor reads, if the adapter does not forward all.
    most:    documents, pairs or texts in one request; `None`: no limit is known.
    renamed: where the body has a field, if not under its own name; see `Supports.translated`.
    """

    kind: type[AnyTask]
    target: Target
    body: Callable[[AnyTask, str], Body]
    read: Callable[[AnyTask, bytes], TaskAnswer]
    fields: frozenset[str] = frozenset()
    extra: frozenset[str] = frozenset()
    needs: frozenset[str] = frozenset()
    most: int | None = None
    renamed: Mapping[str, str] = {}


AnyTaskForm = (
    TaskForm[RerankRequest]
    | TaskForm[ScoreRequest]
    | TaskForm[ClassifyRequest]
    | TaskForm[PoolRequest]
    | TaskForm[ModerateRequest]
)


class TaskForms:
    """The forms of one adapter. base: the path of its base URL."""

    def __init__(self, endpoint: Endpoint, base: str, forms: Iterable[AnyTaskForm]) -> None:
        self._endpoint = endpoint
        self._base = base
        self._forms: dict[type[TaskRequest], TaskForm[TaskRequest]] = {
            form.kind: cast("TaskForm[TaskRequest]", form) for form in forms
        }

    def declared(self, supports: Supports) -> Supports:
        """Return what the adapter supports, with its tasks."""
        forms: dict[Task, TaskForm[TaskRequest]] = {
            form.kind.task: form for form in self._forms.values()
        }
        extra: dict[Task, frozenset[str]] = {task: form.extra for task, form in forms.items()}
        items: dict[Task, int] = {
            task: form.most for task, form in forms.items() if form.most is not None
        }
        renamed: dict[Task, Mapping[str, str]] = {
            task: form.renamed for task, form in forms.items() if form.renamed
        }
        fields = {task: form.fields for task, form in forms.items()}
        return replace(
            supports,
            extra_fields={**supports.extra_fields, **{k: one for k, one in extra.items() if one}},
            items={**supports.items, **items},
            requires=supports.requires.union(*(form.needs for form in forms.values())),
            translated={**supports.translated, **renamed},
            **fields,
        )

    def encode(self, request: TaskRequest, model: str) -> tuple[str, bytes]:
        """Return the target and the body. Raises InvalidRequest naming the field."""
        form = self._form(request)
        body = form.body(request, model)
        return form.target(self._base, model, request), _encode({**body, **request.extra})

    def decode(self, request: TaskRequest, body: bytes) -> TaskAnswer:
        """See TaskDecoder."""
        try:
            return self._form(request).read(request, body)
        except UNREADABLE as exc:
            raise self._error_in(body) or unreadable(self._endpoint, body) from exc
        except NotAnAnswer as exc:
            inside = self._error_in(body) if isinstance(exc, NoResults) else None
            raise inside or UpstreamBroken(str(exc), upstream=self._endpoint.name) from exc

    def _form(self, request: TaskRequest) -> TaskForm[TaskRequest]:
        form = self._forms.get(type(request))
        if form is None:
            raise InvalidRequest(
                f"{self._endpoint.name} does not offer {request.task}", param="model"
            )
        return form

    def _error_in(self, body: bytes) -> GatewayError | None:
        """Return the error inside a 200."""
        try:
            fields = read_object(body)
        except UNREADABLE:
            return None
        if {"error", "message", "detail"} & fields.keys():
            return error_inside(self._endpoint, body)
        return None


def under(path: str) -> Target:
    """Return the target below the base URL."""
    return lambda base, model, request: f"{base}{path}"


def beside(path: str) -> Target:
    """Return the target at the server's root, whether or not the base URL ends with `/v1`."""
    return lambda base, model, request: f"{base.removesuffix('/v1')}{path}"


def at(path: str) -> Target:
    """Return the same target for every base URL of the host."""
    return lambda base, model, request: path


def sent(request: TaskRequest, *names: str, **renamed: str) -> Body:
    """Return the fields that the client has sent. renamed: the vendor's name, by ours."""
    named = {**{name: name for name in names}, **renamed}
    values = {wire: getattr(request, name) for name, wire in named.items()}
    return {wire: value for wire, value in values.items() if value is not msgspec.UNSET}


def decode_task(adapter: Adapter, request: TaskRequest, body: bytes) -> TaskAnswer:
    """Decode an answer of an adapter that offers the task. Raises as `TaskDecoder` does."""
    assert isinstance(adapter, TaskDecoder), f"{adapter.name} has no decode_task"
    return adapter.decode_task(request, body)
