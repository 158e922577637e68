"""Explain one request against a Runtime: used by the command and by /admin."""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.config.problems import nearest
from strowger_gateway.gateway.console.explain.claimed_caller import claimed_caller
from strowger_gateway.gateway.console.explain.explain import described, explain
from strowger_gateway.gateway.console.explain.explanation import (
    ExplainedPrompt,
    Explanation,
    refusal,
)
from strowger_gateway.gateway.console.explain.simulated_outage import is_named
from strowger_gateway.gateway.content.prompts.catalogue import Prompted
from strowger_gateway.gateway.content.prompts.prepared import catalogue_of
from strowger_gateway.gateway.governance.access.auth import EVERYONE, Caller
from strowger_gateway.gateway.routing.planning.request_facts import RequestFacts
from strowger_gateway.gateway.routing.planning.route import Route
from strowger_gateway.gateway.surfaces.routes import ParsedRequest, parse_any
from strowger_gateway.schemas.errors import (
    Forbidden,
    GatewayError,
    InvalidRequest,
    ModelNotFound,
    Unauthenticated,
)


class Query(Struct, frozen=True, kw_only=True):
    """A request to explain.

    body:    as the client would send it.
    path:    of its route, or a surface's name; "" detects the surface from the body.
    model:   for routes whose path names it, if `path` does not contain it.
    key:     a client key's name, "" for none.
    claims:  of a token in place of a key, a JSON object.
    headers: the client's, names in lower case.
    down:    backends or providers to assume down.
    """

    body: bytes
    path: str = ""
    model: str = ""
    key: str = ""
    claims: bytes | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()
    down: tuple[str, ...] = ()


class Explained(Struct, frozen=True, kw_only=True):
    """An explanation, and what it is of. route: `None` if the request names no model."""

    explanation: Explanation
    parsed: ParsedRequest
    caller: Caller
    route: Route | None


def explain_query(query: Query, runtime: Runtime, now: float) -> Explained:
    """Explain the query. now: the clock's seconds. Takes milliseconds, because it makes many plans.

    Raises RouteNotFound and InvalidRequest for a body that no route accepts, and InvalidRequest
    for names that the configuration does not contain and for claims that are not an object.
    """
    _check_down(runtime, query.down)
    request = parse_any(
        query.body,
        path=query.path,
        model=query.model,
        default_model=runtime.default_model,
        max_choices=runtime.config.server.max_choices,
        headers=query.headers,
        stores=runtime.config.responses.store == "on",
        prompts=bool(runtime.config.prompts),
    )
    try:
        caller = _caller(runtime, query)
    except (Unauthenticated, Forbidden) as exc:
        found = replace(described(request, query.down), refused=refusal(exc))
        return Explained(explanation=found, parsed=request, caller=EVERYONE, route=None)
    facts = RequestFacts(
        now=now, caller=caller.name, headers=query.headers, request_id="this request"
    )
    try:
        prompted = _prompted(request, runtime, facts)
    except GatewayError as exc:
        found = replace(described(request, query.down, caller), refused=refusal(exc))
        return Explained(explanation=found, parsed=request, caller=caller, route=None)
    if prompted is not None:
        request = replace(request, request=prompted.request)
        facts = replace(facts, left_out=prompted.left_out)
    found = explain(runtime.planner, request, facts, caller, down=query.down)
    if prompted is not None and prompted.text is not None:
        text = prompted.text
        prompt = ExplainedPrompt(
            name=text.ref, digest=text.digest, why=prompted.why, repaired=prompted.repairs
        )
        found = replace(found, prompt=prompt)
    route = runtime.table.routes[found.route] if found.route else None
    return Explained(explanation=found, parsed=request, caller=caller, route=route)


def _prompted(parsed: ParsedRequest, runtime: Runtime, facts: RequestFacts) -> Prompted | None:
    """Return the request with its prompt; `None` without prompts, or without its model.

    Raises as `PromptCatalogue.prompted`.
    """
    catalogue = catalogue_of(runtime.prepared)
    if catalogue is None:
        return None
    try:
        route = runtime.table.find(parsed.request.model)
    except ModelNotFound:
        return None
    return catalogue.prompted(parsed.request, route, runtime.planner, facts)


def _caller(runtime: Runtime, query: Query) -> Caller:
    """Raises Unauthenticated and Forbidden for claims that the gateway would refuse."""
    name = query.key
    if name and query.claims is not None:
        raise InvalidRequest("key, claims: a caller has one of them", param="claims")
    if query.claims is not None:
        return claimed_caller(query.claims, runtime.config)
    if not name:
        return EVERYONE
    keyring = runtime.access.keyring
    caller = keyring.named(name)
    if caller is not None:
        return caller
    hint = nearest(name, keyring.names) or "; no keys are configured"
    raise InvalidRequest(f"key: no key is named {name!r}{hint}", param="key")


def _check_down(runtime: Runtime, names: Iterable[str]) -> None:
    backends = runtime.backends.values()
    for name in names:
        if not any(is_named(backend, name) for backend in backends):
            known = sorted({backend.name for backend in backends} | set(runtime.upstreams))
            raise InvalidRequest(
                f"down: no backend is named {name!r}{nearest(name, known)}", param="down"
            )
