"""Responses of the Databricks surface: answers with their header, errors with their codes."""

from io import BytesIO

import msgspec
import pytest
from databricks.sdk.errors import platform
from databricks.sdk.errors.base import DatabricksError
from databricks.sdk.errors.parser import (
    _Parser as Parser,  # pyright: ignore[reportPrivateUsage]  # the SDK reads errors nowhere else
)
from requests import Request, Response

from strowger_gateway.gateway.surfaces.base import Inbound, Surface
from strowger_gateway.gateway.surfaces.databricks.errors import CODES, OTHER_4XX, error_body
from strowger_gateway.gateway.surfaces.databricks.surface import (
    CHAT,
    COMPLETIONS,
    EMBEDDINGS,
    INVOCATIONS,
    ROUTES,
)
from strowger_gateway.gateway.surfaces.hot_route import TemplatedPaths
from strowger_gateway.gateway.surfaces.openai.surface import CHAT as OPENAI
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.errors import (
    BodyTooLarge,
    DeadlineExceeded,
    Forbidden,
    GatewayError,
    InvalidRequest,
    MethodNotAllowed,
    ModelNotFound,
    RequestTimeout,
    RouteNotFound,
    Throttled,
    Unauthenticated,
    Unavailable,
    UnsupportedMediaType,
    UpstreamBroken,
    UpstreamBusy,
    UpstreamRejected,
    UpstreamTimeout,
)
from strowger_gateway.schemas.events import Finished, TextDelta, Usage
from strowger_gateway.schemas.requests import ChatRequest, CompletionRequest, EmbeddingsRequest
from tests.gateway.surfaces.answers import folded, payloads
from tests.gateway.surfaces.databricks.databricks_seed import BODIES

REQUEST_ID = "01936f2e-1234-7abc-8def-0123456789ab"
EVENTS = (TextDelta(text="hi"), Finished(reason="stop"), Usage(prompt_tokens=1))
SURFACES: tuple[Surface, ...] = (INVOCATIONS, CHAT, COMPLETIONS, EMBEDDINGS)
CONFLICT = UpstreamRejected("no", status=409, upstream="a")
UNPROCESSABLE = UpstreamRejected("no", status=422, upstream="a")
ERRORS: tuple[tuple[GatewayError, str, type[DatabricksError]], ...] = (
    (InvalidRequest("no"), "BAD_REQUEST", platform.BadRequest),
    (Unauthenticated("no"), "UNAUTHENTICATED", platform.Unauthenticated),
    (Forbidden("no"), "PERMISSION_DENIED", platform.PermissionDenied),
    (ModelNotFound("no"), "RESOURCE_DOES_NOT_EXIST", platform.ResourceDoesNotExist),
    (RouteNotFound("no"), "NOT_FOUND", platform.NotFound),
    (MethodNotAllowed("no", allow=()), "INVALID_PARAMETER_VALUE", platform.InvalidParameterValue),
    (RequestTimeout("no"), "DEADLINE_EXCEEDED", DatabricksError),
    (BodyTooLarge("no"), "INVALID_PARAMETER_VALUE", platform.InvalidParameterValue),
    (UnsupportedMediaType("no"), "INVALID_PARAMETER_VALUE", platform.InvalidParameterValue),
    (Throttled("no"), "REQUEST_LIMIT_EXCEEDED", platform.RequestLimitExceeded),
    (UpstreamBusy("no", upstream="a"), "REQUEST_LIMIT_EXCEEDED", platform.RequestLimitExceeded),
    (CONFLICT, "RESOURCE_CONFLICT", platform.ResourceConflict),
    (UNPROCESSABLE, "INVALID_PARAMETER_VALUE", platform.BadRequest),
    (GatewayError("no"), "INTERNAL_ERROR", platform.InternalError),
    (UpstreamBroken("no", upstream="a"), "INTERNAL_ERROR", DatabricksError),
    (Unavailable("no"), "TEMPORARILY_UNAVAILABLE", platform.TemporarilyUnavailable),
    (DeadlineExceeded("no"), "DEADLINE_EXCEEDED", platform.DeadlineExceeded),
    (UpstreamTimeout("no", upstream="a"), "DEADLINE_EXCEEDED", platform.DeadlineExceeded),
)


class Said(msgspec.Struct, frozen=True, kw_only=True):
    content: str | None = None


class Place(msgspec.Struct, frozen=True, kw_only=True):
    delta: Said = Said()
    text: str | None = None
    finish_reason: str | None = None


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """usage: required, null or not."""

    choices: list[Place]
    usage: dict[str, object] | None

    @property
    def said(self) -> str:
        return "".join(one.text or one.delta.content or "" for one in self.choices)


def without_usage(stream: bytes) -> list[dict[str, object]]:
    """The chunks of a stream that has ended, without their counts."""
    *chunks, end = payloads(stream)
    assert end == b"[DONE]"
    found = [msgspec.json.decode(chunk, type=dict[str, object]) for chunk in chunks]
    return [{name: value for name, value in chunk.items() if name != "usage"} for chunk in found]


@pytest.mark.filterwarnings("ignore:The 'retry_after_secs' parameter:DeprecationWarning")
@pytest.mark.parametrize(("error", "code", "kind"), ERRORS, ids=lambda one: type(one).__name__)
def test_an_error_is_what_the_sdk_takes_it_for(
    error: GatewayError, code: str, kind: type[DatabricksError]
) -> None:
    response = Response()
    response.status_code = error.status
    response.raw = BytesIO(INVOCATIONS.error(error))
    response.url = "http://gateway.test/serving-endpoints/m/invocations"
    response.request = Request("POST", response.url).prepare()

    seen = Parser().get_api_error(response)

    assert msgspec.json.decode(response.content) == {"error_code": code, "message": error.message}
    assert isinstance(seen, kind)
    assert str(seen) == error.message


def test_mlflow_knows_every_code() -> None:
    """Imported here because that takes seconds."""
    from mlflow.exceptions import ERROR_CODE_TO_HTTP_STATUS

    assert {*CODES.values(), OTHER_4XX} <= set(ERROR_CODE_TO_HTTP_STATUS)


@pytest.mark.parametrize(
    ("param", "word"),
    [("template", "use_raw_prompt"), ("append_suffix", "suffix is text appended")],
)
def test_errors_name_a_field_as_the_client_does(param: str, word: str) -> None:
    body = error_body(InvalidRequest(f"a/m: {param} is not supported", param=param))

    assert word in msgspec.json.decode(body)["message"]


def test_a_stream_that_fails_ends_with_an_error_for_both_kinds_of_client() -> None:
    renderer = INVOCATIONS.renderer(ChatRequest(model="m", messages=()), REQUEST_ID)

    (data,) = payloads(renderer.error(UpstreamBroken("cut", upstream="a", code="x")))

    assert msgspec.json.decode(data) == {
        "error_code": "INTERNAL_ERROR",
        "message": "a: cut",
        "error": {"message": "a: cut", "type": "api_error", "param": None, "code": "x"},
    }


@pytest.mark.parametrize(
    "request_", [ChatRequest(model="m", messages=()), CompletionRequest(model="m", prompts=("x",))]
)
def test_answers_are_the_openai_dialects_with_the_served_model(
    request_: ChatRequest | CompletionRequest,
) -> None:
    ours, theirs = (one.renderer(request_, REQUEST_ID) for one in (INVOCATIONS, OPENAI))

    assert ours.answer(folded(*EVENTS)) == theirs.answer(folded(*EVENTS))
    assert without_usage(ours.events(EVENTS) + ours.finish()) == without_usage(
        theirs.events(EVENTS) + theirs.finish()
    )
    assert ours.headers("here/tiny") == [(b"served-model-name", b"here/tiny")]


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    "request_",
    [
        ChatRequest(model="m", messages=(), stream=True),
        CompletionRequest(model="m", prompts=("x",), stream=True),
        ChatRequest(model="m", messages=(), stream=True, include_usage=True),
    ],
)
def test_usage_is_on_every_chunk_of_a_stream_and_complete_on_the_last(
    request_: ChatRequest | CompletionRequest, late: bool
) -> None:
    """As in the recorded streams of the service; late: the backend counts after the end."""
    renderer = INVOCATIONS.renderer(request_, REQUEST_ID)
    first = Usage(prompt_tokens=5, completion_tokens=1, total_tokens=6)
    last = Usage(prompt_tokens=5, completion_tokens=2, total_tokens=7, reasoning_tokens=1)
    end = [Finished(reason="stop"), last]

    data = renderer.events([TextDelta(text="a"), *([] if late else [first])])
    data += renderer.events([TextDelta(text="b"), *([] if late else end)])
    data += renderer.events(end if late else []) + renderer.finish()

    chunks = [msgspec.json.decode(chunk, type=Chunk) for chunk in payloads(data)[:-1]]
    asked = [chunk for chunk in chunks if not chunk.choices]
    *begun, ending = (chunk for chunk in chunks if chunk.choices)
    prompt = {"prompt_tokens": 5, "completion_tokens": None, "total_tokens": None}
    assert len(asked) == request_.include_usage
    assert {"b", "a"} <= {chunk.said for chunk in begun}
    assert all(chunk.usage == (None if late else prompt) for chunk in begun)
    for chunk in (ending, *asked):
        assert chunk.usage is not None
        assert (chunk.usage["completion_tokens"], chunk.usage["total_tokens"]) == (2, 7)
    assert ending.choices[0].finish_reason == "stop"


def test_vectors_too() -> None:
    request, vectors = EmbeddingsRequest(model="m", inputs=("x",)), Embeddings(vectors=([1.0],))
    ours, theirs = (one.renderer(request, REQUEST_ID) for one in (EMBEDDINGS, OPENAI))

    assert ours.embeddings(vectors) == theirs.embeddings(vectors)
    assert ours.headers("here/tiny") == [(b"served-model-name", b"here/tiny")]


def test_a_name_that_no_header_can_carry_is_still_an_answer() -> None:
    renderer = CHAT.renderer(ChatRequest(model="m", messages=()), REQUEST_ID)

    assert renderer.headers("a/模型") == [(b"served-model-name", b"a/??")]


@pytest.mark.parametrize(("surface", "table"), [(CHAT, "chat"), (COMPLETIONS, "completions")])
def test_a_route_for_one_task_reads_that_task(surface: Surface, table: str) -> None:
    body = msgspec.json.encode({**BODIES[table], "model": "m"})

    named = surface.parse(Inbound(body=body, max_choices=1))
    invoked = INVOCATIONS.parse(Inbound(body=body, max_choices=1, model="m"))

    assert named == invoked


def test_the_operators_bound_on_choices_holds() -> None:
    body = msgspec.json.encode({**BODIES["chat"], "n": 3})

    with pytest.raises(InvalidRequest, match="n must be at most 2"):
        INVOCATIONS.parse(Inbound(body=body, max_choices=2, model="m"))


def test_a_silent_stream_is_kept_alive_by_what_mlflow_skips() -> None:
    """Its client drops blank lines, and takes any line that does not begin with `data` for an
    error, comments among them."""
    assert {surface.keep_alive.strip() for surface in SURFACES} == {b""}
    assert {surface.name for surface in SURFACES} == {"databricks"}


def test_the_openai_clients_paths_are_not_endpoints_of_these_names() -> None:
    paths = TemplatedPaths(ROUTES)

    assert paths.find("/serving-endpoints/chat/completions") == ("", "")
    assert paths.find("/serving-endpoints/chat/invocations")[1] == "chat"
    assert paths.find("/serving-endpoints/org/model/invocations")[1] == "org/model"
