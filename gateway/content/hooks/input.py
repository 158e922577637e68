"""Guardrails over the request."""

from collections.abc import Iterator
from functools import partial
from typing import cast

from msgspec import UNSET, Raw, Struct

from strowger_gateway.gateway.content.hooks.contract import Edited, HookRefusal
from strowger_gateway.gateway.content.hooks.guards import Rail, RequestGuards
from strowger_gateway.gateway.content.hooks.request_text import has_tokens, measure_arguments
from strowger_gateway.gateway.content.repeated_names import repeated_name
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.measured_json import Meter, TooComplex
from strowger_gateway.schemas.requests import EmbeddingsRequest, Request

PLACE = "request"


async def guard_request(guards: RequestGuards, request: Request, size: int) -> Request:
    """Return the request as backends may receive it.

    size: bytes of a large body, which is examined in a thread; 0 of any other. Raises
    ContentBlocked, InvalidRequest for what cannot be examined, Throttled and Unavailable.
    """
    _refuse_unreadable(guards, request)
    if any(rail.enforces for rail in guards.input):
        meter = Meter()
        await guards.run(partial(_check_forms, request, meter if size else None), size)
        inside = meter.weight.size + 2 * meter.size
        guards.claim(inside)
        size += inside
    for rail in guards.input:
        if rail.waits and not rail.enforces:
            guards.in_background(_examine(guards, rail, request, size))
        else:
            request = await _examine(guards, rail, request, size)
    return request


async def _examine(guards: RequestGuards, rail: Rail, request: Request, size: int) -> Request:
    found = await guards.call(rail, PLACE, rail.hook.before, request, size)
    if found is None or found is request:
        return request
    if isinstance(found, HookRefusal):
        guards.report(rail, PLACE, found.rules or ("refused",), blocks=True)
        return request
    rules = (found.rules or ("edited",)) if isinstance(found, Edited) else ("edited",)
    guards.report(rail, PLACE, rules)
    if not rail.enforces:
        return request
    return found.request if isinstance(found, Edited) else found


def _refuse_unreadable(guards: RequestGuards, request: Request) -> None:
    """Refuse what a guardrail would not see as a backend does.

    Token ids have no text, log probabilities repeat it, and of a name that an object has twice, a
    backend may read the value that is not examined.
    """
    if has_tokens(request):
        for rail in (*guards.input, *guards.output):
            if rail.enforces:
                raise InvalidRequest(
                    f"the guardrail {rail.settings.name!r} examines text, and this request has "
                    "token ids; send text",
                    code="content_not_readable",
                )
            guards.report(rail, PLACE, ("not_readable",))
    if isinstance(request, EmbeddingsRequest) or request.sampling.logprobs in (UNSET, None, False):
        return
    for rail in guards.output:
        if rail.enforces:
            raise InvalidRequest(
                f"the guardrail {rail.settings.name!r} may mask the answer, and logprobs would "
                "repeat it; leave logprobs out",
                param="logprobs",
                code="content_not_readable",
            )


def _check_forms(request: Request, meter: Meter | None) -> None:
    """Raise InvalidRequest for JSON of which a guardrail would not see all, or too much.

    meter: of a large request; a small one has too little to decode.
    """
    _refuse_repeated_names(request)
    if meter is None:
        return
    try:
        measure_arguments(request, meter)
    except TooComplex as exc:
        raise InvalidRequest(
            f"a guardrail cannot examine the arguments of tool calls in this request: {exc.problem}"
            "; shorten the arguments of earlier calls",
            param="messages",
            code="body_too_complex",
        ) from None


def _refuse_repeated_names(request: Request) -> None:
    for raw in _raws(request):
        name = repeated_name(bytes(raw))
        if name is not None:
            raise InvalidRequest(
                f"an object has {name[:64]!r} twice, and a guardrail examines only one of its "
                "values; send each name once",
                code="content_not_readable",
            )


def _raws(value: object) -> Iterator[Raw]:
    """The JSON that a request keeps as its client sent it: nothing else can repeat a name."""
    match value:
        case Raw():
            yield value
        case Struct():
            for name in value.__struct_fields__:
                yield from _raws(getattr(value, name))
        case dict():
            for one in cast("dict[object, object]", value).values():
                yield from _raws(one)
        case tuple() | list():
            for one in cast("tuple[object, ...]", value):
                yield from _raws(one)
        case _:
            pass
