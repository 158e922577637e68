"""A rule reads any body: rules are asked alone where schemas take too long to import."""

import json
from collections.abc import Iterator

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.oracle.examples.cases import REFUSED
from tests.oracle.reading import entries, members
from tests.oracle.rules import faults_of
from tests.oracle.sent import Sent

GARBAGE: list[object] = json.loads(
    '[null, true, 5, -0.5, "", "x", [], [[]], ["x", null, {}], {}, [{"type": {}}]]'
)


def places(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of everything inside a value."""
    inside: list[tuple[str | int, object]] = [*members(value).items(), *enumerate(entries(value))]
    for step, one in inside:
        yield (*path, step)
        yield from places(one, (*path, step))


def replaced(value: object, path: tuple[str | int, ...], by: object) -> object:
    if not path:
        return by
    step, *rest = path
    copy: dict[str | int, object] = json.loads(json.dumps(value))  # or a list
    copy[step] = replaced(copy[step], tuple(rest), by)
    return copy


@settings(max_examples=examples(300))
@given(st.sampled_from(list(REFUSED.values())), st.integers(0, 10_000), st.sampled_from(GARBAGE))
def test_a_rule_reads_any_body(known: Sent, place: int, garbage: object) -> None:
    found = list(places(known.body))
    changed = replaced(known.body, found[place % len(found)], garbage)
    for _, at, fault in faults_of(msgspec.structs.replace(known, body=changed)):
        assert at
        assert fault
