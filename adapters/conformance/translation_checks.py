"""Checks that `Supports` describes exactly what an encoder does.

Each field is sent alone, and the change in the body is compared with the declaration; then
arbitrary fields together, of which all that are not reported must be in the body.
"""

import re
from collections.abc import Collection, Mapping, Sequence

import msgspec
from msgspec import Raw

from strowger_gateway.adapters.base import Adapter, Supports
from strowger_gateway.adapters.capabilities import offered, required, unsupported
from strowger_gateway.adapters.conformance.json_paths import (
    Places,
    changed,
    leads,
    parent,
    places,
    places_of,
    within,
)
from strowger_gateway.adapters.conformance.openai_field_names import openai_field
from strowger_gateway.adapters.conformance.sample_requests import (
    bare_request,
    request_with,
    request_with_all,
    with_field,
    with_needs,
)
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.fields import MESSAGES, NOT_OMITTABLE, Task, sent_fields, without
from strowger_gateway.schemas.requests import Request

REPLACES = MESSAGES.union(
    {"tools", "tools.opaque", "prompt.tokens", "prompt.batch", "input.tokens"},
    {"input.images", "conversations", "messages"},
)
"""Fields that replace other content, or add neighbouring fields."""

_REMARK = re.compile(r" \([^)]*\)")

Way = tuple[str, ...]

Models = Mapping[str, Mapping[str, Raw]]
"""The provider's models, each with the fields that it requires."""

ANY_MODEL: Models = {"m": {}}


def ways_of(translated: str) -> tuple[Way, ...]:
    """Parse a value of `Supports.translated`: alternatives, each of one place or more."""
    return tuple(tuple(way.split(" + ")) for way in _REMARK.sub("", translated).split(" or "))


def check_translations(adapter: Adapter, task: Task, models: Models = ANY_MODEL) -> None:
    """Check that fields are where `translated` says, and others as in the client's dialect.

    models: one for each place of a field, if that depends on the model.
    """
    supports = adapter.supports
    supported = offered(supports, task) or frozenset[str]()
    translated = supports.translated.get(task, {})
    for field in sorted(supported):
        own = field not in translated
        ways = ((openai_field(task, field)[0],),) if own else ways_of(translated[field])
        seen = [_way(adapter, task, field, one, ways, extra) for one, extra in models.items()]
        unseen = set(ways) - set(seen)
        assert not unseen, f"{task}: {field} is not sent as {unseen} to {', '.join(models)}"


def check_together(
    adapter: Adapter,
    task: Task,
    fields: Collection[str],
    implied: Collection[str] = (),
    model: str = "m",
) -> None:
    """Check any fields of a task together: sent = translated + reported (samples of each).

    Exactly the unsupported fields are reported; without them the request is encoded, and every
    other field is where it is when sent alone. Content cannot be omitted, and is tried separately.
    implied: fields that others imply.
    """
    supports = adapter.supports
    supported = offered(supports, task)
    request = completed(supports, request_with_all(task, fields))
    sent = sent_fields(request)
    named = {one.field for one in unsupported(request, supports)}
    if supported is None:
        assert named == {task}, f"{task} is not offered, but unsupported() names {named}"
        return
    assert named == sent - supported, f"{task}: of {sorted(sent)} these are reported: {named}"
    content = named & NOT_OMITTABLE
    if content:
        _check_content_stays(request, named)
        fields = set(fields) - content
        request = completed(supports, request_with_all(task, fields))
    body = places(adapter.encode(without(request, named - content), model).body)
    left = {field: _main_places(supports, task, field) for field in with_needs(fields) - named}
    for field, at in left.items():
        found = any(within(body, place) for place in at)
        if not found and field not in implied:
            absent = _absent_alone(adapter, task, field, model, at)
            assert absent, f"{task}: {field} is lost among {sorted(sent)}"
        shared = any(at & others for one, others in left.items() if one != field)
        if not shared and field not in supports.translated.get(task, {}) and field not in REPLACES:
            there = _words_at(task, field, body)
            assert there, f"{task}: {field} is changed among {sorted(sent)}"


def _check_content_stays(request: Request, named: Collection[str]) -> None:
    try:
        without(request, named)
    except InvalidRequest:
        return
    raise AssertionError(f"content can be omitted from a request: {named}")


def _main_places(supports: Supports, task: Task, field: str) -> frozenset[str]:
    """Return the first place of each alternative: the others belong to it."""
    translated = supports.translated.get(task, {}).get(field)
    if translated is None:
        return frozenset({openai_field(task, field)[0]})
    return frozenset(way[0] for way in ways_of(translated))


def _absent_alone(
    adapter: Adapter, task: Task, field: str, model: str, at: Collection[str]
) -> bool:
    """Return whether the field is expressed by the absence of a value."""
    alone = completed(adapter.supports, request_with(task, field)[0])
    body = places(adapter.encode(alone, model).body)
    return not any(within(body, place) for place in at)


def completed(supports: Supports, request: Request) -> Request:
    """Return the request with the fields that this adapter always requires."""
    for field in required(supports, request.task):
        request = with_field(request, field)
    return request


def _way(
    adapter: Adapter,
    task: Task,
    field: str,
    model: str,
    ways: Sequence[Way],
    extra: Mapping[str, Raw],
) -> Way:
    """Return the alternative that applies to this model."""
    needed = field in required(adapter.supports, task)
    pair = (bare_request(task),) * 2 if needed else request_with(task, field)
    after, before = (
        places(
            adapter.encode(
                msgspec.structs.replace(completed(adapter.supports, one), extra={**extra}), model
            ).body
        )
        for one in pair
    )
    where = frozenset(after) if needed else changed(before, after)
    found = [way for way in ways if _covers(way, where, field, required=needed)]
    assert len(found) == 1, f"{task}: {field} changes {sorted(where)} for {model}, not {ways}"
    translated = field in adapter.supports.translated.get(task, {})
    words = _words_at(task, field, after)
    if translated and len(ways) == 1 and ways[0] == (openai_field(task, field)[0],):
        assert not words, f"{task}: {field} is sent as in the client's dialect, not translated"
    elif not translated:
        assert words, f"{task}: {field} is neither sent as in the client's dialect nor translated"
    return found[0]


def _words_at(task: Task, field: str, body: Places) -> bool:
    """Return whether the field's own place has the value of the client's dialect."""
    place, value = openai_field(task, field)
    return _exact(within(body, place)) == _exact(places_of(value, place))


def _exact(found: Places) -> Mapping[str, list[tuple[bool, object]]]:
    """Make values comparable: `true` is not 1."""
    return {path: [(isinstance(one, bool), one) for one in leaf] for path, leaf in found.items()}


def _covers(way: Way, where: frozenset[str], field: str, *, required: bool) -> bool:
    """Return whether every place changed, and every change is in one of them.

    The `type` next to a place belongs to it, as do the neighbours of a kind of content. A required
    field can only be checked for its presence.
    """
    if not all(any(leads(path, place) for path in where) for place in way):
        return False
    neighbours = {
        place: ((parent(place) or place) if field in REPLACES else place) for place in way
    }
    return required or all(
        any(
            leads(path, neighbours[place]) or path == f"{parent(place)}.type".lstrip(".")
            for place in way
        )
        or (field in REPLACES and any(_held_instead(path, place) for place in way))
        for path in where
    )


def _held_instead(path: str, place: str) -> bool:
    """Return whether a list, or an object of another kind, replaced a string."""
    return place.startswith(path)
