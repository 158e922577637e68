"""Every adapter is held to samples of its vendor: a whole answer, a stream, a tool call, an error.

The contract (`test_contract.py`) reads each of them.
"""

import re
from urllib.parse import urlparse

import pytest

import strowger_gateway.schemas.errors
from strowger_gateway.adapters.conformance.recordings import recordings
from tests.adapters.conformance.samples import (
    ENDS,
    FORMS,
    KINDS,
    PAGE,
    REGISTRY,
    coverage,
    expected,
    table,
)
from tests.adapters.traffic import FIXTURES

WITHOUT: frozenset[tuple[str, str]] = frozenset({("perplexity", "tool call")})
"""Forms of which no sample was found; docs/recordings.md says where was looked. It only shrinks."""

MONTH = re.compile(r"20\d\d-(0[1-9]|1[0-2])")
LICENCES = ("MIT", "Apache-2.0", "BSD-3-Clause")
SOURCES = sorted(FIXTURES.glob("*/*/SOURCE"))


@pytest.mark.parametrize("name", REGISTRY.names)
def test_an_adapter_has_a_sample_of_each_form_or_none_was_found(name: str) -> None:
    missing = {form for form, evidence in coverage(name).items() if evidence == "none"}

    assert missing == {form for one, form in WITHOUT if one == name}


def test_only_forms_that_an_adapter_has_are_excused() -> None:
    assert {(name, form) for name in REGISTRY.names for form in expected(name)} >= WITHOUT
    assert {form for _, form in WITHOUT} <= set(FORMS)


def test_the_page_says_which_samples_there_are() -> None:
    assert table() + ENDS in PAGE.read_text(), "run python -m tests.adapters.conformance.samples"


def test_a_sample_names_its_source() -> None:
    for source in SOURCES:
        kind, where, *rest = source.read_text().split(" | ")
        if KINDS[kind] == "recorded" or kind == "docs":
            path, licence, *_ = rest
            assert (where.count("/"), "@" in where) == (1, True), source
            assert path, source
            assert licence.strip() in LICENCES, source
        else:
            month, what = rest
            assert urlparse(where).scheme == "https", source
            assert MONTH.fullmatch(month), source
            assert what.strip(), source


def test_a_sample_of_a_failure_names_the_error_that_it_becomes() -> None:
    for vendor in sorted(FIXTURES.iterdir()):
        for one in recordings(vendor):
            failed = one.status != 200 or "error" in one.name
            kind, *about = one.error.split(" ")
            assert bool(one.error) == failed, one.name
            if failed:
                assert issubclass(
                    getattr(strowger_gateway.schemas.errors, kind),
                    strowger_gateway.schemas.errors.GatewayError,
                )
                assert bool(about) == (kind == "UpstreamRefused"), one.name
