"""Which errors say something about a backend: a list of every class, and of the places that raise.

What the gateway's own queues, limits, guardrails or shutdown cause, and what a client causes, moves
no circuit, cooldown or latency, and is not asked again of the same backend.
"""

import asyncio
import importlib
import re
from functools import cache
from pathlib import Path
from typing import Final, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.backends.upstream.base import Call
from strowger_gateway.gateway.config.schema.failover import RetryRule
from strowger_gateway.gateway.routing.execution.attempt import Attempt, start_attempt
from strowger_gateway.gateway.routing.planning.candidate import Candidate
from strowger_gateway.gateway.routing.planning.plan import Plan
from strowger_gateway.gateway.routing.planning.route import Backend
from strowger_gateway.gateway.routing.request_record import RequestRecord
from strowger_gateway.gateway.routing.resilience.retry import may_fail_over, may_retry
from strowger_gateway.schemas.errors import (
    GatewayError,
    InvalidRequest,
    RetryKind,
    UpstreamError,
    UpstreamFailed,
    UpstreamRefused,
    UpstreamRejected,
    UpstreamSilent,
    UpstreamTimeout,
)
from strowger_gateway.schemas.requests import CompletionRequest
from tests.gateway.routing.backends import backend

ROOT: Final = Path(__file__).parents[4]

BACKEND: Final = {
    "GuardrailFailed": "a guardrail that is a backend; it does not count",
    "UpstreamBroken": "an unreadable or truncated answer",
    "UpstreamBusy": "the vendor's limit; an engine's full queue does not count (engine_link.py)",
    "UpstreamError": "the base, never raised",
    "UpstreamFailed": "a 5xx, or a vendor's marker",
    "UpstreamLost": "an engine has ended, or its connection",
    "UpstreamOverloaded": "the vendor is overloaded for all",
    "UpstreamRefused": "account, address or model; what a client chooses does not count",
    "UpstreamSilent": "a limit of time, unless the gateway's own queues took a tenth of it",
    "UpstreamStarting": "an engine that is not ready",
    "UpstreamTimeout": "as UpstreamSilent",
    "UpstreamUnreachable": "no connection; an empty set of replicas does not count",
}
"""Errors that count for the circuit breaker, with their exceptions."""

OURS: Final = {
    "AnswerTooLarge": "a limit of ours on the size of an answer",
    "BodyTooLarge": "a limit of ours on requests",
    "BudgetExceeded": "a budget",
    "CallerError": "the base, never raised",
    "ClientGone": "the client has hung up",
    "ConcurrentImport": "the store",
    "Conflict": "the client",
    "CopyFault": "the operator",
    "ConnectionsInUse": "the queue for a provider's connections",
    "ContentBlocked": "a guardrail",
    "ConversationNotFound": "the client",
    "DeadlineExceeded": "the request's own deadline, or a queue that it passed in",
    "EarlierItemsNeeded": "a step of parsing",
    "EarlyToken": "the client",
    "ExpiredToken": "the client",
    "FieldNotAllowed": "the client",
    "Forbidden": "the client",
    "GatewayError": "a bug of ours",
    "InvalidConfig": "the operator",
    "InvalidRequest": "the client; another backend may support it",
    "IssuerUnavailable": "an identity provider",
    "LimitExceeded": "a limit",
    "MethodNotAllowed": "the client",
    "ModelNotFound": "the client",
    "NoRole": "the client",
    "PriceUnknown": "a budget",
    "PromptNotFound": "the client",
    "ProviderUnavailable": "an identity provider",
    "RateLimited": "follows from earlier answers, which were counted",
    "RefusedByProvider": "an identity provider",
    "RefusedToken": "the client",
    "RequestTimeout": "the client is slow",
    "ResponseNotFound": "the client",
    "RouteNotFound": "the client",
    "StoreFull": "the store",
    "StoreUnavailable": "the store",
    "TemplateRefusal": "the client",
    "Throttled": "a limit of ours",
    "TokenNotAllowed": "the client",
    "TooManyValues": "a limit of ours on the values of an answer",
    "Unauthenticated": "the client",
    "Unavailable": "the gateway: draining, closing connections, no memory, no backend",
    "Uncountable": "nothing counts tokens exactly",
    "UnsupportedMediaType": "the client",
    "UpgradeRefused": "the client",
    "UpstreamRejected": "the client's request, as the backend sees it",
    "WrongAttempt": "the client",
    "WrongKey": "the client",
    "WrongToken": "the client",
}
"""Errors that say nothing about a backend, with their cause."""

RAISED: Final = {
    "gateway/routing/health_checks/checks.py": "a check of its own; no request's attempt",
    "gateway/routing/health_checks/path_check.py": "a check of its own; no request's attempt",
    "gateway/backends/gauges/poller.py": "a poll of its own; no request's attempt",
    "gateway/routing/execution/empty_answer.py": "an answer of nothing; not counted",
    "gateway/routing/execution/seam.py": "after the attempt; the answer cannot be joined",
    "gateway/surfaces/kserve/outputs.py": "after the attempt",
    "gateway/surfaces/openai/bodies.py": "after the attempt",
    "gateway/content/compaction/summary_text.py": "after the attempt; a conversation may cause it",
    "gateway/content/hooks/whole_answer.py": "after the attempt; a guardrail's limit",
    "gateway/backends/upstream/credentials/auto_refresh.py": "the provider's token service",
    "gateway/backends/upstream/credentials/aws_signing.py": "the provider's credentials",
    "gateway/backends/upstream/credentials/botocore_keys.py": "the provider's credentials",
    "gateway/backends/upstream/credentials/client_credentials.py": "the provider's token service",
    "gateway/backends/upstream/credentials/library_http.py": "the provider's token service",
    "gateway/backends/upstream/credentials/library_tokens.py": "the provider's token service",
    "gateway/backends/upstream/engine_link.py": "the engine is lost; its full queue is not counted",
    "gateway/backends/upstream/event_reader.py": "silent for longer than a limit of time",
    "gateway/backends/upstream/http.py": "a web page or a redirect instead of an answer",
    "gateway/backends/upstream/httpx_transport.py": (
        "the exchange; its queue raises ConnectionsInUse"
    ),
    "gateway/backends/upstream/large_answers.py": "limits of ours, which are not counted",
    "gateway/backends/upstream/key_pool/pool.py": "all keys rest for refusals that were counted",
    "gateway/backends/upstream/local_count.py": "the engine's count is missing",
    "gateway/backends/upstream/local_engine.py": "the engine does not answer",
    "gateway/backends/upstream/no_replicas.py": "no address is known; not counted",
    "gateway/backends/upstream/own_limits.py": "what our tokenizer cannot express; not counted",
    "gateway/backends/upstream/transport.py": "limits of ours, which are not counted",
    "gateway/backends/upstream/wire/connection.py": "the exchange",
    "gateway/backends/upstream/wire/dialing.py": "DNS, TCP and TLS",
    "gateway/backends/upstream/wire/faults.py": "the exchange",
    "gateway/backends/upstream/wire/transport.py": "limits of ours, which are not counted",
    "gateway/content/guardrails/own_moderation.py": "our own guardrails; not counted",
    "local_engine/peft/lora_cache.py": "a full cache of the engine; not counted (engine_link.py)",
    "local_engine/server/connection.py": "the worker does not read; not counted (engine_link.py)",
    "local_engine/server/embedding_service.py": "the engine; its full queue is not counted",
    "local_engine/server/queue_places.py": "the engine's full queue; not counted (engine_link.py)",
    "local_engine/server/service.py": "as queue_places.py",
}
"""Files outside of adapters, which judge vendors' answers, that raise an UpstreamError, and why."""


_CLASS: Final = re.compile(r"^class (\w+)\(([^)]*)\)", re.MULTILINE)
_CALL: Final = re.compile(r"(?<![\w.])(?<!class )(?<!case )([A-Z]\w+)\(")


@cache
def _walked() -> tuple[dict[str, str], dict[str, set[str]]]:
    """Return the file of each error class, and the UpstreamErrors that each file creates."""
    bases, where, calls = dict[str, set[str]](), dict[str, str](), dict[str, set[str]]()
    for package in ("schemas", "gateway", "adapters", "local_engine"):
        for path in sorted((ROOT / package).rglob("*.py")):
            file, text = str(path.relative_to(ROOT)), path.read_text()
            for name, of in _CLASS.findall(text):
                bases[name] = set(re.split(r"[\s,]+", of))
                where.setdefault(name, file)
            calls[file] = set(_CALL.findall(text))
    errors = _family("GatewayError", bases)
    upstream = _family("UpstreamError", bases)
    raising = {file: names & upstream for file, names in calls.items() if names & upstream}
    return {name: where[name] for name in errors}, raising


def _family(root: str, bases: dict[str, set[str]]) -> set[str]:
    found = {root}
    while more := {name for name, of in bases.items() if of & found} - found:
        found |= more
    return found


def test_every_error_class_is_said_to_be_evidence_or_not() -> None:
    errors, _ = _walked()

    assert not BACKEND.keys() & OURS.keys()
    assert set(errors) == BACKEND.keys() | OURS.keys(), (
        "a new error: does it say anything about a backend? List it in BACKEND or OURS"
    )


def test_every_file_that_blames_a_backend_says_why() -> None:
    _, raising = _walked()

    found = {file for file in raising if not file.startswith("adapters/")}
    assert found <= RAISED.keys(), (
        "raise an error of gateway/backends/upstream/own_limits.py, or say why"
    )


def _class_of(name: str) -> type[GatewayError]:
    path = f"strowger_gateway/{_walked()[0][name].removesuffix('.py')}"
    module = importlib.import_module(path.replace("/", "."))
    found = getattr(module, name)
    assert issubclass(found, GatewayError)
    return found


def _made(kind: type[GatewayError]) -> GatewayError:
    """An error of the class as it is raised, as far as attempts look at it."""
    error = kind.__new__(kind)
    if issubclass(kind, UpstreamRejected):
        return UpstreamRejected("m", status=422, upstream="p")
    if isinstance(error, UpstreamError):
        UpstreamError.__init__(error, "m", upstream="p")
        if isinstance(error, UpstreamRefused):
            error.about = "account"
    else:
        GatewayError.__init__(error, "m", retry_after=1)
    return error


def _attempt(one: Backend, at: float) -> Attempt:
    candidate = Candidate(backend=one, breaker=one.breaker, name=one.name, model="m", weight=1.0)
    plan = Plan(
        route="m", names=(one.name,), candidates=(candidate,), retry=RetryRule(),
        deadline_s=100.0, stream_deadline_s=100.0, operator_deadline_s=100.0,
    )  # fmt: skip
    record = RequestRecord(request_id="r", started=at, attempts=[])
    entry = start_attempt(candidate, record, at)
    call = Call(model="m", deadline=at + 100.0, request_id="r", sending=entry)
    request = CompletionRequest(model="m", prompts=("hi",))
    return Attempt(candidate, request, call, record, entry, at, plan)


def _knowledge(one: Backend) -> tuple[object, ...]:
    """All that routing knows of a backend."""
    load, breaker = one.load, one.breaker
    return (
        breaker.snapshot(), breaker.failed, breaker.impaired_until, breaker.run.count,
        breaker.pauses.deprioritised_count,
        breaker.outcomes.total, load.in_flight, load.answer.measured, load.first_content.measured,
    )  # fmt: skip


_NAMES: Final = sorted(OURS)
_EVERYTHING: Final = RetryRule(on=get_args(RetryKind))


@given(st.lists(st.sampled_from([*_NAMES, "cancelled"]), min_size=1, max_size=40))
def test_whatever_is_ours_changes_nothing_that_is_known_of_a_backend(names: list[str]) -> None:
    one = backend("b")
    before = _knowledge(one)
    for place, name in enumerate(names):
        at = float(place)
        local = name != "cancelled" and _walked()[0][name].startswith("local_engine/")
        if local:
            continue
        error = asyncio.CancelledError() if name == "cancelled" else _made(_class_of(name))
        _attempt(one, at).fail(error, at + 0.5)

    assert _knowledge(one) == before


@pytest.mark.parametrize("name", [name for name in _NAMES if name != "TemplateRefusal"])
def test_what_is_ours_is_not_asked_again_of_the_same_backend(name: str) -> None:
    error = _made(_class_of(name))

    assert not may_retry(error, _EVERYTHING)
    if not isinstance(error, InvalidRequest):
        assert not may_fail_over(error, _EVERYTHING)


@pytest.mark.parametrize("name", sorted(BACKEND.keys() - {"UpstreamError"}))
def test_what_is_the_backends_is_known_afterwards(name: str) -> None:
    one = backend("b")
    before = _knowledge(one)

    _attempt(one, 0.0).fail(_made(_class_of(name)), 60.0)

    assert _knowledge(one) != before


@pytest.mark.parametrize("kind", [UpstreamTimeout, UpstreamSilent])
def test_a_timeout_after_a_queue_of_ours_is_no_failure(kind: type[UpstreamTimeout]) -> None:
    one = backend("b")
    attempt = _attempt(one, 0.0)
    attempt.entry.waited_s = 10.0

    attempt.fail(kind("m", upstream="p"), 60.0)

    assert one.breaker.failed == 0
    assert one.load.answer.measured == 50.0, "a lower bound of what the backend has taken"


def test_an_error_that_does_not_count_may_be_answered_by_another_backend() -> None:
    one = backend("b")
    error = UpstreamFailed("m", upstream="p")
    error.counts = False

    _attempt(one, 0.0).fail(error, 60.0)

    assert one.breaker.failed == 0
    assert may_fail_over(error, RetryRule())
