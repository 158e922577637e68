"""Each rule refuses what it is for, which no schema does, and lets all else pass."""

import msgspec
import pytest

from tests.oracle.examples.cases import ALLOWED, REFUSED
from tests.oracle.rules import faults_of, rules
from tests.oracle.schemas import schema_faults
from tests.oracle.sent import Sent


@pytest.mark.parametrize("name", REFUSED)
def test_a_rule_refuses_what_it_is_for(name: str) -> None:
    assert name in {rule for rule, _, _ in faults_of(REFUSED[name])}


@pytest.mark.parametrize("name", REFUSED)
def test_no_schema_has_the_rule(name: str) -> None:
    assert list(schema_faults(REFUSED[name])) == []


@pytest.mark.parametrize(("name", "one"), ALLOWED)
def test_what_a_vendor_takes_breaks_nothing(name: str, one: Sent) -> None:
    assert list(schema_faults(one)) == []
    assert list(faults_of(one)) == []


def test_a_request_without_the_version_of_the_api_is_refused() -> None:
    (one,) = (one for name, one in ALLOWED if name == "anthropic")
    bare = msgspec.structs.replace(one, headers={})
    assert [rule for rule, _, _ in faults_of(bare)] == ["anthropic-version"]


def test_each_rule_has_its_example_a_source_and_a_name_of_its_own() -> None:
    names = [one.name for one in rules()]
    assert len(names) == len(set(names))
    assert set(names) - {"anthropic-version"} == REFUSED.keys()
    assert all(one.source.startswith("https://") and one.edition for one in rules())
