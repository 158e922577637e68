"""Tags come from headers and bodies, are few and short, and nothing that was left out is silent."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.governance.attribution.tags import (
    CUT,
    LONGEST,
    MOST_TAGS,
    request_tags,
)


def sent(*, metadata: object = None, **headers: str) -> tuple[str, ...]:
    fields = {name.replace("_", "-").encode(): text.encode() for name, text in headers.items()}
    body = b"" if metadata is None else json.dumps(metadata).encode()
    return request_tags(fields, body, ("customer", "urgent"))


def test_the_gateways_own_header_has_tags_between_commas() -> None:
    assert sent(x_gateway_tags=" team=search, nightly ,, nightly") == ("nightly", "team=search")


def test_what_clients_of_other_gateways_send_is_understood() -> None:
    assert sent(x_litellm_tags="prod,us-east-1") == ("prod", "us-east-1")
    assert sent(metadata={"tags": ["jobID:7", "nightly", 3]}) == ("jobID:7", "nightly")
    assert sent(metadata={"tags": "jobID:7, nightly"}) == ("jobID:7", "nightly")
    databricks = json.dumps({"project": "chatbot", "beta": True, "odd": ["no tag"]})
    assert sent(databricks_ai_gateway_request_tags=databricks) == ("beta=true", "project=chatbot")


def test_only_the_fields_of_metadata_that_the_operator_names_become_tags() -> None:
    found = sent(metadata={"customer": "acme", "urgent": 1, "user_id": "4711", "other": "x"})

    assert found == ("customer=acme", "urgent=1")


def test_tags_of_all_places_are_one_set() -> None:
    assert sent(x_gateway_tags="a,b", x_litellm_tags="b,c", metadata={"tags": ["c"]}) == (
        "a",
        "b",
        "c",
    )


@pytest.mark.parametrize("odd", ["[]", "{", '"text"', "null", "[" * 9_000])
def test_what_is_no_object_has_no_tags_and_does_no_harm(odd: str) -> None:
    assert sent(databricks_ai_gateway_request_tags=odd, x_gateway_tags="a") == ("a",)
    assert request_tags({}, odd.encode()) == ()


def test_a_mark_shows_that_a_tag_was_cut_or_that_there_were_more() -> None:
    (long,) = sent(x_gateway_tags="x" * (LONGEST + 1))
    many = sent(x_gateway_tags=",".join(f"tag-{place:02}" for place in range(MOST_TAGS + 1)))

    assert long == "x" * (LONGEST - 1) + CUT
    assert len(many) == MOST_TAGS + 1
    assert many[-1] == CUT


@given(st.text(), st.text(), st.recursive(st.text(), st.lists))
def test_tags_are_few_short_and_printable(own: str, other: str, tags: object) -> None:
    found = sent(x_gateway_tags=own, x_litellm_tags=other, metadata={"tags": tags})

    assert len(found) <= MOST_TAGS + 1
    assert all(0 < len(one) <= LONGEST and one.isprintable() for one in found)
    assert list(found[:MOST_TAGS]) == sorted(set(found[:MOST_TAGS]))
