"""Properties of every request body on the Databricks surface."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.surfaces.databricks.parse import parse_invocation, parse_task
from strowger_gateway.gateway.surfaces.openai.parse import (
    parse_chat,
    parse_completion,
    parse_embeddings,
)
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.requests import ChatRequest, CompletionRequest, Request
from tests.gateway.surfaces.databricks.databricks_seed import BODIES, TABLES
from tests.gateway.surfaces.test_parse_properties import JSON

NAMES = sorted(
    {
        "extra_params",
        "model",
        "messages",
        "stream_options",
        *(field.name for fields in TABLES.values() for field in fields),
    }
)
BODY = st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=5), JSON, max_size=6)
ACCEPTED = {
    table: st.fixed_dictionaries(
        {},
        optional={
            field.name: st.sampled_from(field.accepted)
            for field in fields
            if field.name not in BODIES[table]
        },
    )
    for table, fields in TABLES.items()
}
TOGETHER = {"logprobs": True, "tools": TABLES["chat"][7].beside["tools"]}
"""Fields that some of the chat fields require."""


def read(body: bytes) -> Request | InvalidRequest:
    try:
        return parse_invocation(body, model="m")
    except InvalidRequest as exc:
        return exc


@given(BODY)
def test_a_body_is_a_request_or_an_error_that_says_why(body: dict[str, object]) -> None:
    outcome = read(msgspec.json.encode(body))

    if isinstance(outcome, InvalidRequest):
        assert outcome.message
        assert outcome.param is None or outcome.param in outcome.message
    else:
        assert outcome.model == "m"


@given(st.binary(max_size=40))
def test_bytes_are_not_an_exception(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        parse_invocation(body, model="m")


@given(ACCEPTED["chat"])
def test_a_chat_means_what_it_means_to_openai(fields: dict[str, object]) -> None:
    body = msgspec.json.encode({**BODIES["chat"], **fields, **TOGETHER})

    assert parse_invocation(body, model="m") == parse_chat(body, model="m")


@given(ACCEPTED["completions"])
def test_a_completion_differs_only_in_limit_suffix_and_template(
    fields: dict[str, object],
) -> None:
    body = msgspec.json.encode({**BODIES["completions"], **fields})
    theirs = parse_completion(body, model="m", raw_prompt=False)

    ours = parse_invocation(body, model="m")

    assert isinstance(ours, CompletionRequest)
    assert ours.append_suffix == theirs.suffix
    assert ours.sampling.max_tokens == (theirs.sampling.max_tokens or None)
    same = {
        "sampling": theirs.sampling,
        "suffix": theirs.suffix,
        "append_suffix": theirs.append_suffix,
    }
    assert msgspec.structs.replace(ours, **same, optional=()) == theirs


@given(ACCEPTED["embeddings"])
def test_an_embedding_means_what_it_means_to_openai(fields: dict[str, object]) -> None:
    body = msgspec.json.encode({**BODIES["embeddings"], **fields})

    assert parse_invocation(body, model="m") == parse_embeddings(body, model="m")


@given(
    st.lists(st.sampled_from(["system", "developer", "user", "assistant"]), min_size=1, max_size=5)
)
def test_a_system_message_is_first_or_absent(roles: list[str]) -> None:
    body = msgspec.json.encode({"messages": [{"role": role, "content": "x"} for role in roles]})

    if {"system", "developer"} & set(roles[1:]):
        with pytest.raises(InvalidRequest, match="can only be the first one"):
            parse_task("chat", body, model="m")
    else:
        request = parse_task("chat", body, model="m")
        assert isinstance(request, ChatRequest)
        assert [one.role for one in request.messages] == roles
