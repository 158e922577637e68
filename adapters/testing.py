"""The contract that every adapter keeps, as checks to call from a test suite of any kind.

A check returns nothing and raises AssertionError with a sentence that says what is wrong.
"""

import random
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Raw, Struct

from adapters.base import Adapter, Endpoint, Outbound
from adapters.framing import FRAMING, Frame
from adapters.samples import (
    bare_request,
    request_with,
    request_with_extra,
    request_with_nulls,
    with_field,
)
from adapters.support import TOOL_PROPERTIES, offered, unsupported
from schemas.errors import (
    GatewayError,
    InvalidRequest,
    UpstreamBusy,
    UpstreamError,
    UpstreamRefused,
    UpstreamRejected,
    UpstreamTimeout,
)
from schemas.events import Event, Usage
from schemas.fields import FIELDS, Task
from schemas.messages import Message
from schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    GenerateRequest,
    Request,
    TokenRequest,
)
from schemas.sampling import Sampling
from schemas.secret import Secret

SMALL = 8 * 1024
"""Bytes up to which a stream is cut at every place."""

EDGE = 2 * 1024
RANDOM_CUTS = 500

KEY = "sk-contract-0123456789abcdef"
TASKS: tuple[Task, ...] = ("chat", "completion", "embeddings", "tokens")
STREAMED = (".sse", ".ndjson", ".bin")

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
"""What a status means where the body says nothing."""

BODIES = (b"", b"{}", b"[]", b"null", b'"text"', b"<html><title>Bad</title></html>", b"\xff\xfe")


_one_or_more: msgspec.json.Decoder[str | list[object]] = msgspec.json.Decoder(str | list[object])


class Case(Struct, frozen=True, kw_only=True):
    """One recorded exchange: a folder of the layout that tests/adapters/fixtures/README.md shows.

    sent: the fields of the recorded request, {} where it is not known.
    """

    name: str
    line: str
    sent: dict[str, Raw]
    body: bytes
    status: int
    headers: dict[str, str]
    streamed: bool


def cases(folder: Path) -> list[Case]:
    """Every exchange under `folder`, by name; [] where there is no such folder."""
    if not folder.is_dir():
        return []
    found = (_case(one) for one in sorted(folder.iterdir()) if one.is_dir())
    return [one for one in found if one is not None]


def request_for(case: Case) -> Request:
    """A request that such an answer may follow: its task, form, and number of choices."""
    sent = case.sent
    count = (msgspec.json.decode(sent["n"], type=int | None) if "n" in sent else 1) or 1
    sampling = Sampling(n=count) if count > 1 else Sampling()
    if "embed" in case.line or ("input" in sent and "messages" not in sent):
        return EmbeddingsRequest(
            model="m", inputs=("x",) * _entries(sent.get("input", sent.get("texts")))
        )
    if "input_id" in sent or "infer_token" in case.line:
        return TokenRequest(model="m", tokens=(1, 2, 3), stream=case.streamed)
    if "/v2/models/" in case.line:
        return _triton_request(case)
    if "messages" not in sent and ("prompt" in sent or "chat" not in case.line):
        prompts = ("x",) * _entries(sent.get("prompt"))
        return CompletionRequest(
            model="m", prompts=prompts, sampling=sampling, stream=case.streamed
        )
    hello = Message(role="user", content="hello")
    return ChatRequest(model="m", messages=(hello,), sampling=sampling, stream=case.streamed)


def _triton_request(case: Case) -> CompletionRequest | TokenRequest:
    """A model that takes text, or one that takes tensors: as JSON keys, or as a list of them."""
    limit = case.sent.get("max_tokens", case.sent.get("request_output_len", Raw(b"20")))
    bounded = Sampling(max_tokens=msgspec.json.decode(limit, type=int))
    if "input_ids" in case.sent or "inputs" in case.sent:
        return TokenRequest(
            model="m", tokens=(1, 2, 3), sampling=bounded, stream="streaming" in case.sent
        )
    return CompletionRequest(
        model="m", prompts=("x",), sampling=bounded, stream="generate_stream" in case.line
    )


def frames(adapter: Adapter, pieces: Iterable[bytes]) -> list[Frame]:
    parser = FRAMING[adapter.framing]("contract")
    found = [frame for piece in pieces for frame in parser.feed(piece)]
    return found + parser.close()


def translate(adapter: Adapter, request: GenerateRequest, pieces: Iterable[bytes]) -> list[Event]:
    """The events of an answer that arrived in these pieces. Raises what the adapter raises."""
    decoder = adapter.decoder(request)
    found = frames(adapter, pieces) if request.stream else [("", b"".join(pieces))]
    events = [event for name, data in found for event in decoder.feed(name, data)]
    return [*events, *decoder.close()]


def cuts(length: int) -> Iterator[int]:
    """Places to cut a body at: all of them, or the edges and a seeded choice of the rest."""
    if length <= SMALL:
        yield from range(1, length)
        return
    yield from range(1, EDGE)
    yield from random.Random(length).sample(range(EDGE, length - EDGE), RANDOM_CUTS)
    yield from range(length - EDGE, length)


def check_cuts(adapter: Adapter, case: Case) -> None:
    """However the network cuts a stream, the frames stay the same, and so do the events."""
    whole, request = frames(adapter, [case.body]), request_for(case)
    assert not isinstance(request, EmbeddingsRequest), f"{case.name}: embeddings do not stream"
    for cut in cuts(len(case.body)):
        halves = frames(adapter, [case.body[:cut], case.body[cut:]])
        assert halves == whole, f"{case.name}: cut at byte {cut} the frames differ"
    single = [case.body[place : place + 1] for place in range(len(case.body))]
    assert _outcome(adapter, request, single) == _outcome(adapter, request, [case.body]), (
        f"{case.name}: byte by byte the events differ"
    )


def check_truncation(adapter: Adapter, case: Case) -> None:
    """A body cut short is an error, unless nothing but counts came after the cut.

    A dialect without an end mark declares that by its framing; there only a cut inside a frame
    (or before the first) shows, and the transport must notice all others.
    """
    request = request_for(case)
    assert not isinstance(request, EmbeddingsRequest), f"{case.name}: embeddings do not stream"
    whole = _content(translate(adapter, request, [case.body]))
    unmarked = case.streamed and adapter.framing == "sse-unmarked"
    for cut in _truncations(case):
        if cut and unmarked and case.body[:cut].endswith(b"\n\n"):
            continue
        try:
            events = translate(adapter, request, [case.body[:cut]])
        except UpstreamError:
            continue
        problem = f"{case.name}: cut short at byte {cut} it passes for a whole answer"
        assert not unmarked, problem
        assert _content(events) == whole, problem


def check_statuses(adapter: Adapter) -> None:
    """Every error status lands in the tree, whatever the body, and no key is in its text."""
    for body in (*BODIES, f'{{"error": {{"message": "bad key {KEY}"}}}}'.encode()):
        for status in range(400, 600):
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
    """Only names that schemas.fields knows; at least one task."""
    supports = adapter.supports
    for task in TASKS:
        unknown = (offered(supports, task) or frozenset[str]()) - FIELDS[task]
        assert not unknown, f"{task}: no such fields: {sorted(unknown)}"
    everything = {TOOL_PROPERTIES}.union(*FIELDS.values())
    assert set(supports.ranges) <= everything, f"ranges: {set(supports.ranges) - everything}"
    assert any(offered(supports, task) is not None for task in TASKS), "offers no task"


def check_fields(adapter: Adapter, task: Task) -> None:
    """Sent = translated + reported, for each field by itself; and nothing that was not sent."""
    supported = offered(adapter.supports, task)
    if supported is None:
        named = {one.field for one in unsupported(bare_request(task), adapter.supports)}
        assert named == {task}, f"{task} is not offered, but unsupported() names {named}"
        return
    _check_required(adapter, task)
    for field in sorted(FIELDS[task] - adapter.supports.requires):
        with_it, without_it = (_completed(adapter, one) for one in request_with(task, field))
        named = {one.field for one in unsupported(with_it, adapter.supports)}
        if field not in supported:
            assert field in named, f"{task}: {field} is neither supported nor reported"
            continue
        allowed = field not in named or field in adapter.supports.ranges
        assert allowed, f"{task}: {field} is supported and reported"
        changed = adapter.encode(with_it, "m") != adapter.encode(without_it, "m")
        assert changed, f"{task}: {field} is supported but never leaves"
    _check_extra(adapter, task)
    _check_absence(adapter, task)


def check_breaks(adapter: Adapter, task: Task) -> None:
    """Bytes that are no answer raise UpstreamBroken or another UpstreamError, never a bug."""
    if offered(adapter.supports, task) is None:
        return
    request = _completed(adapter, bare_request(task))
    for body in (b"", b"{", b"[1", b"\xff", b'{"choices": 5}', b"42", b"[" * 100_000):
        try:
            if isinstance(request, EmbeddingsRequest):
                adapter.embeddings(request, body)
            else:
                translate(adapter, request, [body])
        except (UpstreamError, UpstreamRejected):
            continue
        raise AssertionError(f"{task}: {body[:20]!r} passes for an answer")


def contract_endpoint(base_url: str) -> Endpoint:
    """An endpoint whose key the checks look for where no key may be."""
    return Endpoint(name="contract", base_url=base_url, key=Secret(KEY))


def _completed(adapter: Adapter, request: Request) -> Request:
    """The request with what this adapter requires of every one."""
    for field in adapter.supports.requires:
        request = with_field(request, field)
    return request


def _check_required(adapter: Adapter, task: Task) -> None:
    """What is required is reported when it is missing, and nothing is put in its place."""
    for field in adapter.supports.requires:
        request = bare_request(task)
        named = {one.field for one in unsupported(request, adapter.supports)}
        assert field in named, f"{task}: {field} is required, and missing it is not reported"
        refused = _refused_field(adapter, request)
        assert refused == field, f"{task}: encoded without {field}, the refusal names {refused!r}"


def _refused_field(adapter: Adapter, request: Request) -> str | None:
    try:
        adapter.encode(request, "m")
    except InvalidRequest as exc:
        return exc.param
    return None


def _check_extra(adapter: Adapter, task: Task) -> None:
    request = _completed(adapter, request_with_extra(task, "x_unheard_of", Raw(b'{"a":[1,null]}')))
    named = {one.field for one in unsupported(request, adapter.supports)}
    if adapter.supports.extra:
        body = adapter.encode(request, "m").body
        assert b'"x_unheard_of":{"a":[1,null]}' in body, f"{task}: extra fields get lost"
    else:
        assert "x_unheard_of" in named, f"{task}: extra fields are neither sent nor reported"
    for name in adapter.supports.extra_fields.get(task, ()):
        request = _completed(adapter, request_with_extra(task, name, Raw(b'{"a":[1,null]}')))
        assert not unsupported(request, adapter.supports), f"{task}: {name} is reported"
        body = adapter.encode(request, "m").body
        assert f'"{name}":{{"a":[1,null]}}'.encode() in body, f"{task}: {name} gets lost"


def _check_absence(adapter: Adapter, task: Task) -> None:
    bare = adapter.encode(_completed(adapter, bare_request(task)), "m")
    assert b"null" not in bare.body, f"{task}: what is absent is sent as null"
    nulls = _completed(adapter, request_with_nulls(task))
    assert adapter.encode(nulls, "m") == bare, f"{task}: null is not the same as absent"
    reported = unsupported(nulls, adapter.supports)
    assert not reported, f"{task}: a null is reported: {reported}"
    assert KEY not in _printed(bare), f"{task}: the key is in the printed form or the body"


def _printed(outbound: Outbound) -> str:
    return f"{outbound!r} {outbound.target} {outbound.body!r}"


def _outcome(
    adapter: Adapter, request: GenerateRequest, pieces: Iterable[bytes]
) -> tuple[list[Event], str]:
    """Events up to the error, if there is one, and the error's text."""
    decoder, events = adapter.decoder(request), list[Event]()
    try:
        for name, data in frames(adapter, pieces):
            events += decoder.feed(name, data)
        events += decoder.close()
    except GatewayError as exc:
        return events, f"{type(exc).__name__}: {exc}"
    return events, ""


def _content(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if not isinstance(event, Usage)]


def _truncations(case: Case) -> Iterator[int]:
    """Frame ends, and a seeded choice of other places."""
    length = len(case.body)
    for mark in (b"\n", b"\n\n"):
        place = case.body.find(mark)
        while 0 <= place < length - len(mark):
            yield place + len(mark)
            place = case.body.find(mark, place + 1)
    yield from random.Random(length).sample(range(length), min(length, 100))


def _case(folder: Path) -> Case | None:
    answers = [one for one in folder.iterdir() if one.name.startswith("response.")]
    if not answers:
        return None
    sent, headers, status, line = (
        folder / name for name in ("request.json", "headers.json", "status", "request_line")
    )
    return Case(
        name=f"{folder.parent.name}/{folder.name}",
        line=line.read_text() if line.is_file() else "",
        sent=_object(sent),
        body=answers[0].read_bytes(),
        status=int(status.read_text()) if status.is_file() else 200,
        headers=msgspec.json.decode(headers.read_bytes(), type=dict[str, str])
        if headers.is_file()
        else {},
        streamed=answers[0].suffix in STREAMED,
    )


def _object(file: Path) -> dict[str, Raw]:
    if not file.is_file():
        return {}
    return msgspec.json.decode(file.read_bytes(), type=dict[str, Raw])


def _entries(raw: Raw | None) -> int:
    """How many prompts or inputs: a list of strings or lists counts each, all else is one."""
    if raw is None:
        return 1
    value = _one_or_more.decode(raw)
    return len(value) if isinstance(value, list) and not isinstance(value[0], int) else 1
