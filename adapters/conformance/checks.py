"""Checks of an adapter's declared fields, its errors, and its handling of unreadable bytes.

A check returns nothing and raises AssertionError with a sentence that says what is wrong.
"""

from collections.abc import Mapping

from msgspec import Raw
from msgspec.structs import replace

from strowger_gateway.adapters.base import (
    Adapter,
    HasBaseUrl,
    HasTokenEndpoint,
    Outbound,
    TokenEndpoint,
)
from strowger_gateway.adapters.capabilities import (
    TOOL_PROPERTIES,
    offered,
    omitted_content,
    required,
    unsupported,
)
from strowger_gateway.adapters.client_fields.patterns import opened
from strowger_gateway.adapters.conformance.replay import translate
from strowger_gateway.adapters.conformance.sample_requests import (
    THOUGHTS,
    bare_request,
    chat_with_thought,
    request_with,
    request_with_extra,
    request_with_nulls,
)
from strowger_gateway.adapters.conformance.translation_checks import completed
from strowger_gateway.adapters.framing import FRAMING
from strowger_gateway.adapters.tasks.form import decode_task
from strowger_gateway.schemas.errors import (
    GatewayError,
    InvalidRequest,
    UpstreamBusy,
    UpstreamError,
    UpstreamRefused,
    UpstreamRejected,
    UpstreamTimeout,
)
from strowger_gateway.schemas.fields import FIELDS, REASONING, Task
from strowger_gateway.schemas.requests import EmbeddingsRequest, Request
from strowger_gateway.schemas.tasks.task import TaskRequest

KEY = "sk-contract-0123456789abcdef"
TASKS: tuple[Task, ...] = tuple(FIELDS)

STATUSES: Mapping[int, type[GatewayError]] = {
    400: UpstreamRejected,
    401: UpstreamRefused,
    403: UpstreamRefused,
    408: UpstreamTimeout,
    413: UpstreamRejected,
    422: UpstreamRejected,
    429: UpstreamBusy,
    500: UpstreamError,
    502: UpstreamError,
    503: UpstreamError,
    504: UpstreamTimeout,
    529: UpstreamError,
}
"""The error for each status if the body is empty."""

_DEEP = b"[" * 900 + b"]" * 900
_LONG = b"9" * 5000
BODIES = (
    *(b"", b"{}", b"[]", b"null", b'"text"', b"<html><title>Bad</title></html>", b"\xff\xfe"),
    *(
        shape.replace(b"@", value)
        for value in (_DEEP, _LONG, b"1e400", b'"\\ud800"')
        for shape in (
            b"@",
            b'{"error":{"message":@,"code":@,"type":@,"param":@}}',
            b'{"error":{"code":@,"message":"x"}}',
            b'{"detail":[{"loc":["body",@],"msg":"x"}]}',
            b'{"message":"x","status":@,"status_code":@}',
        )
    ),
)


_LEAK = f'{{"error": {{"message": "bad key {KEY}"}}}}'.encode()
_EVERY_STATUS = (b"", b"{}", b"<html><title>Bad</title></html>", _LEAK)
"""Tried with every status; the other bodies with those that mean something and two that do not."""


def check_shape(adapter: Adapter) -> None:
    """Check that the framing exists and addresses can be composed."""
    assert adapter.name, "name is empty"
    framings = ", ".join(FRAMING)
    assert adapter.framing in FRAMING, f"framing {adapter.framing!r} is none of {framings}"
    if isinstance(adapter, HasBaseUrl):
        url = adapter.base_url
        assert url.startswith("https://"), f"base_url {url!r} does not start with https://"
        assert not url.endswith("/"), f"base_url {url!r} ends with a slash"
    if isinstance(adapter, HasTokenEndpoint):
        path = adapter.token_endpoint.path
        assert isinstance(adapter.token_endpoint, TokenEndpoint), (
            "token_endpoint is not a TokenEndpoint"
        )
        assert not path or path.startswith("/"), (
            f"token_endpoint.path {path!r} does not start with a slash"
        )


def check_statuses(adapter: Adapter) -> None:
    """Check that every error status maps to the error tree, and no key is in the message."""
    for body in (*BODIES, _LEAK):
        for status in range(400, 600) if body in _EVERY_STATUS else (418, 599):
            error = adapter.error(status, {}, body)
            assert isinstance(error, UpstreamError | UpstreamRejected), f"{status}: {error!r}"
            assert KEY not in str(error), f"{status}: the key is in the message"
        for status, kind in STATUSES.items():
            error = adapter.error(status, {"retry-after": "7"}, body)
            assert isinstance(error, kind), f"{status} with {body!r}: {error!r}"
            if status in (429, 503):
                assert error.retry_after == 7.0, f"{status}: retry-after is lost"
            if isinstance(error, UpstreamRejected):
                assert error.status == status, f"{status}: became {error.status}"


def check_supports(adapter: Adapter) -> None:
    """Check that only fields of schemas/fields.py are declared, and at least one task."""
    supports = adapter.supports
    for task in TASKS:
        unknown = (offered(supports, task) or frozenset[str]()) - FIELDS[task]
        assert not unknown, f"{task}: no such fields: {sorted(unknown)}"
        undeclared = supports.translated.get(task, {}).keys() - (offered(supports, task) or ())
        assert not undeclared, f"{task}: translated, but not supported: {sorted(undeclared)}"
    everything = {TOOL_PROPERTIES}.union(*FIELDS.values())
    assert set(supports.ranges) <= everything, f"ranges: {set(supports.ranges) - everything}"
    assert any(offered(supports, task) is not None for task in TASKS), "offers no task"


def check_fields(adapter: Adapter, task: Task, model: str) -> None:
    """Check each field alone: sent = translated + reported, and nothing else is sent."""
    supported = offered(adapter.supports, task)
    if supported is None:
        named = {one.field for one in unsupported(bare_request(task), adapter.supports)}
        assert named == {task}, f"{task} is not offered, but unsupported() names {named}"
        return
    _check_required(adapter, task, model)
    for field in sorted(FIELDS[task] - required(adapter.supports, task)):
        with_it, without_it = (_completed(adapter, one) for one in request_with(task, field))
        named = {one.field for one in unsupported(with_it, adapter.supports)}
        if field not in supported:
            assert field in named, f"{task}: {field} is neither supported nor reported"
            continue
        allowed = field not in named or field in adapter.supports.ranges
        assert allowed, f"{task}: {field} is supported and reported"
        changed = adapter.encode(with_it, model) != adapter.encode(without_it, model)
        assert changed, f"{task}: {field} is supported but never sent"
    _check_extra(adapter, task, model)
    _check_absence(adapter, task, model)


def check_thoughts(adapter: Adapter) -> None:
    """Check that reasoning sent back by a client is sent or reported."""
    if adapter.supports.chat is None:
        return
    without_it = _completed(adapter, chat_with_thought(None))
    assert not omitted_content(without_it, adapter.supports), (
        "reasoning is reported that was not sent"
    )
    for kind, thought in THOUGHTS.items():
        with_it = _completed(adapter, chat_with_thought(thought))
        if kind not in adapter.supports.thoughts:
            assert omitted_content(with_it, adapter.supports) == (REASONING,), (
                f"{kind}: is not reported"
            )
            continue
        assert not omitted_content(with_it, adapter.supports), f"{kind}: is read and reported"
        changed = adapter.encode(with_it, "m").body != adapter.encode(without_it, "m").body
        assert changed, f"{kind}: is read but never sent"
    if adapter.supports.proofs is not None:
        _check_proofs(adapter)


OTHERS = "another-vendor-v1"
"""A proof format that no adapter reads."""


def _check_proofs(adapter: Adapter) -> None:
    """Check that a vendor that checks proofs, and rejects other vendors', gets only its own."""
    for kind in ("signed", "encrypted"):
        foreign = replace(THOUGHTS[kind], format=OTHERS)
        request = _completed(adapter, chat_with_thought(foreign))
        body = adapter.encode(request, "m").body
        for proof in (foreign.signature, foreign.data):
            assert not proof or proof.encode() not in body, (
                f"{kind}: another vendor's proof is sent"
            )
        read = "text" in adapter.supports.thoughts and not foreign.data
        named = omitted_content(request, adapter.supports) == (REASONING,)
        assert named != read, f"{kind}: another vendor's reasoning is neither read nor reported"


def check_breaks(adapter: Adapter, task: Task) -> None:
    """Check that bytes that are not an answer raise an UpstreamError and nothing else."""
    if offered(adapter.supports, task) is None:
        return
    request = _completed(adapter, bare_request(task))
    for body in (b"", b"{", b"[1", b"\xff", b'{"choices": 5}', b"42", b"[" * 100_000):
        try:
            if isinstance(request, EmbeddingsRequest):
                adapter.embeddings(request, body)
            elif isinstance(request, TaskRequest):
                decode_task(adapter, request, body)
            else:
                translate(adapter, request, [body])
        except (UpstreamError, UpstreamRejected):
            continue
        raise AssertionError(f"{task}: {body[:20]!r} is accepted as an answer")


def _completed(adapter: Adapter, request: Request) -> Request:
    """Return the request with the fields that this adapter always requires."""
    return completed(adapter.supports, request)


def _check_required(adapter: Adapter, task: Task, model: str) -> None:
    """Check that a missing required field is reported, and not replaced."""
    for field in required(adapter.supports, task):
        request = bare_request(task)
        named = {one.field for one in unsupported(request, adapter.supports)}
        assert field in named, f"{task}: {field} is required, but not reported when missing"
        refused = _refused_field(adapter, request, model)
        assert refused == field, f"{task}: encoding without {field} is rejected naming {refused!r}"


def _refused_field(adapter: Adapter, request: Request, model: str) -> str | None:
    try:
        adapter.encode(request, model)
    except InvalidRequest as exc:
        return exc.param
    return None


def _check_extra(adapter: Adapter, task: Task, model: str) -> None:
    request = _completed(adapter, request_with_extra(task, "x_unheard_of", Raw(b'{"a":[1,null]}')))
    named = {one.field for one in unsupported(request, adapter.supports)}
    if adapter.supports.extra:
        body = adapter.encode(request, model).body
        assert b'"x_unheard_of":{"a":[1,null]}' in body, f"{task}: extra fields are lost"
    else:
        assert "x_unheard_of" in named, f"{task}: extra fields are neither sent nor reported"
    for name in adapter.supports.extra_fields.get(task, ()):
        request = _completed(adapter, request_with_extra(task, name, Raw(b'{"a":[1,null]}')))
        rules = opened(adapter.supports.client_fields, (name,), ())
        supports = replace(adapter.supports, client_fields=rules)
        assert not unsupported(request, supports), f"{task}: {name} is reported"
        body = adapter.encode(request, model).body
        assert f'"{name}":{{"a":[1,null]}}'.encode() in body, f"{task}: {name} is lost"


def _check_absence(adapter: Adapter, task: Task, model: str) -> None:
    bare = adapter.encode(_completed(adapter, bare_request(task)), model)
    assert b"null" not in bare.body, f"{task}: absent fields are sent as null"
    nulls = _completed(adapter, request_with_nulls(task))
    assert adapter.encode(nulls, model) == bare, f"{task}: null is not the same as absent"
    reported = unsupported(nulls, adapter.supports)
    assert not reported, f"{task}: a null is reported: {reported}"
    assert KEY not in _printed(bare), f"{task}: the key is in the printed form or the body"


def _printed(outbound: Outbound) -> str:
    return f"{outbound!r} {outbound.target} {outbound.body!r}"
