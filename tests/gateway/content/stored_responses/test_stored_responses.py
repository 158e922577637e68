"""Stored responses are continued by their ids, looked up, listed and deleted, each by its key."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import httpx
import openai
import pytest
from jsonschema import Draft202012Validator
from openai.types.responses import Response

from strowger_gateway.schemas.secret import Secret
from tests.gateway.content.stored_responses.archives import Archived, archived, ask, error_of
from tests.stand_ins.postgres import Postgres

pytestmark = pytest.mark.anyio


EACH_DATABASE = pytest.mark.parametrize("up", ["sqlite", "postgresql"], indirect=True)
"""Where the statements matter; all other tests run on PostgreSQL at night."""


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.nightly)])
async def up(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Archived]:
    url = None
    if request.param == "postgresql":
        server: Postgres = request.getfixturevalue("postgres")
        url = Secret(server.empty_database())
    async with archived(tmp_path, url=url) as found:
        yield found


@EACH_DATABASE
@pytest.mark.parametrize("stream", [False, True])
async def test_a_response_is_continued_by_its_id(up: Archived, *, stream: bool) -> None:
    first = await ask(up.ann, input="one", instructions="Be brief.", stream=stream)
    second = await ask(up.ann, input="two", previous_response_id=first.id, stream=stream)
    third = await ask(up.ann, input="three", previous_response_id=second.id, stream=stream)

    assert [one.model_dump()["store"] for one in (first, second, third)] == [True] * 3
    assert (second.previous_response_id, third.previous_response_id) == (first.id, second.id)
    assert up.sent() == [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": first.output_text},
        {"role": "user", "content": "two"},
        {"role": "assistant", "content": second.output_text},
        {"role": "user", "content": "three"},
    ]
    assert await up.ann.responses.retrieve(third.id) == third
    assert up.rows() == 3


async def test_instructions_of_the_previous_response_are_not_carried_over(up: Archived) -> None:
    first = await ask(up.ann, instructions="Be brief.")
    await ask(up.ann, input="more", instructions="Be long.", previous_response_id=first.id)

    assert [one["content"] for one in up.sent() if one["role"] == "system"] == ["Be long."]


async def test_a_stored_response_can_be_continued_without_storing_the_answer(up: Archived) -> None:
    first = await ask(up.ann, input="one")
    second = await ask(up.ann, input="two", store=False, previous_response_id=first.id)

    assert [one["content"] for one in up.sent()] == ["one", first.output_text, "two"]
    assert second.model_dump()["store"] is False
    assert up.rows() == 1


async def test_store_false_leaves_no_row(up: Archived) -> None:
    for stream in (False, True):
        answer = await ask(up.ann, store=False, stream=stream)

        assert answer.model_dump()["store"] is False
    assert up.rows() == 0


@pytest.mark.parametrize(("store", "rows"), [("absent", 1), (None, 1), (True, 1), (False, 0)])
async def test_a_plain_answer_is_stored_unless_its_client_does_not_want_it(
    up: Archived, store: object, rows: int
) -> None:
    """Answers that are not stored need no events; stored ones do."""
    answer = await (ask(up.ann) if store == "absent" else ask(up.ann, store=store))

    assert up.rows() == rows
    assert answer.model_dump()["store"] is (rows == 1)
    assert answer.output_text == "1 messages"
    if rows:
        assert await up.ann.responses.retrieve(answer.id) == answer
    else:
        with pytest.raises(openai.NotFoundError):
            await up.ann.responses.retrieve(answer.id)


async def test_an_answer_that_a_limit_cuts_off_is_stored(up: Archived) -> None:
    async def cut(request: object, answer: object) -> None:
        await answer.chat("Once", finish="length")  # pyright: ignore

    up.remote.behaviour = cut

    answer = await ask(up.ann)

    assert answer.status == "incomplete"
    assert await up.ann.responses.retrieve(answer.id) == answer


@EACH_DATABASE
async def test_items_are_listed_in_pages(up: Archived) -> None:
    first = await ask(up.ann, input=[{"role": "user", "content": "a"}])
    second = await ask(up.ann, input="b", previous_response_id=first.id)

    pages = up.ann.responses.input_items.list(second.id, limit=2, order="asc")
    items = [one async for one in pages]
    newest = await up.ann.responses.input_items.list(second.id)

    assert [one.id for one in newest.data] == [one.id for one in reversed(items)]
    assert [one.type for one in items] == ["message"] * 3
    assert [one.content[0].text for one in items] == ["a", first.output_text, "b"]  # pyright: ignore
    assert items[1].id == first.output[0].id
    assert len({one.id for one in items}) == 3


@EACH_DATABASE
async def test_a_reference_stands_for_a_stored_item(up: Archived) -> None:
    first = await ask(up.ann, input="one")
    listed = (await up.ann.responses.input_items.list(first.id)).data

    second = await ask(
        up.ann,
        input=[
            {"type": "item_reference", "id": listed[0].id},
            {"id": first.output[0].id},
            {"role": "user", "content": "two"},
        ],
    )
    sent = up.sent()
    await ask(up.ann, input="three", previous_response_id=second.id)

    assert [one["content"] for one in sent] == ["one", first.output_text, "two"]
    assert up.sent()[:3] == sent


@EACH_DATABASE
async def test_a_deleted_response_is_gone(up: Archived) -> None:
    first = await ask(up.ann)
    second = await ask(up.ann, previous_response_id=first.id)

    await up.ann.responses.delete(first.id)

    assert up.rows() == 1
    with pytest.raises(openai.NotFoundError, match="not found"):
        await up.ann.responses.retrieve(first.id)
    with pytest.raises(openai.NotFoundError, match="not stored any more"):
        await ask(up.ann, previous_response_id=second.id)


@EACH_DATABASE
async def test_what_is_left_of_a_conversation_is_listed(up: Archived) -> None:
    first = await ask(up.ann, input="one")
    second = await ask(up.ann, input="two", previous_response_id=first.id)
    third = await ask(up.ann, input="three", previous_response_id=second.id)

    await up.ann.responses.delete(first.id)

    left = await up.ann.responses.input_items.list(third.id, order="asc")
    assert [one.content[0].text for one in left.data] == [  # pyright: ignore
        "two",
        second.output_text,
        "three",
    ]


async def test_answers_match_the_api_description(up: Archived) -> None:
    answer = await ask(up.ann)
    headers = {"authorization": "Bearer key-of-ann-1"}
    async with httpx.AsyncClient(base_url=up.gateway.url, headers=headers, timeout=60) as client:
        document = (await client.get("/openapi.json")).json()
        for method, end, status in (
            ("GET", "", 200),
            ("GET", "?stream=true", 400),
            ("GET", "/input_items?include[]=message.output_text.logprobs", 200),
            ("GET", "/input_items?limit=101", 400),
            ("GET", "/input_items?order=up", 400),
            ("GET", "/input_items?after=msg_1", 400),
            ("POST", "/cancel", 400),
            ("DELETE", "", 200),
            ("DELETE", "", 404),
        ):
            got = await client.request(method, f"/v1/responses/{answer.id}{end}")

            assert got.status_code == status, (method, end, got.text)
            path = f"/v1/responses/{{response_id}}{end.partition('?')[0]}"
            described = document["paths"][path][method.lower()]["responses"][str(status)]
            schema = described["content"]["application/json"]["schema"]
            whole = {**schema, "components": document["components"]}
            Draft202012Validator(whole).validate(got.json())  # pyright: ignore[reportUnknownMemberType]  # its stubs


@pytest.mark.parametrize("id", ["resp_1", "x" * 5000, "resp_%2e%2e", "%00"])
async def test_an_id_that_was_never_issued_is_404_and_asks_no_database(
    tmp_path: Path, id: str
) -> None:
    async with (
        archived(tmp_path, url=Secret("sqlite:////missing/folder/store.db")) as up,
        httpx.AsyncClient(base_url=up.gateway.url, timeout=60) as client,
    ):
        client.headers["authorization"] = "Bearer key-of-ann-1"
        answers = [
            await client.get(f"/v1/responses/{id}"),
            await client.delete(f"/v1/responses/{id}"),
            await client.get(f"/v1/responses/{id}/input_items"),
            await client.post(
                "/v1/responses", json={"model": "chat", "input": "hi", "previous_response_id": id}
            ),
        ]

    assert [one.status_code for one in answers] == [404] * 4
    assert all(len(one.text) < 1000 for one in answers)


async def test_only_what_runs_in_the_background_can_be_cancelled(up: Archived) -> None:
    answer = await ask(up.ann)

    with pytest.raises(openai.BadRequestError, match="Cannot cancel a synchronous response"):
        await up.ann.responses.cancel(answer.id)


USES: dict[str, Callable[[openai.AsyncOpenAI, Response], Awaitable[object]]] = {
    "previous_response_id": lambda client, one: ask(client, previous_response_id=one.id),
    "item_reference of an answer": lambda client, one: ask(
        client, input=[{"type": "item_reference", "id": one.output[0].id}]
    ),
    "item_reference of a request": lambda client, one: ask(
        client, input=[{"id": f"msg_{one.id.removeprefix('resp_')}_in_0"}]
    ),
    "conversation": lambda client, one: ask(client, conversation="conv_1"),
    "retrieve": lambda client, one: client.responses.retrieve(one.id),
    "delete": lambda client, one: client.responses.delete(one.id),
    "cancel": lambda client, one: client.responses.cancel(one.id),
    "input_items": lambda client, one: client.responses.input_items.list(one.id),
}


@pytest.mark.parametrize("use", USES)
async def test_an_id_of_another_key_is_as_unknown_as_one_that_never_was(
    up: Archived, use: str
) -> None:
    answer = await ask(up.ann)
    never = answer.id[:-4] + "0000"
    unknown = answer.model_copy(update={"id": never}, deep=True)
    unknown.output[0].id = (answer.output[0].id or "").replace(answer.id[5:], never[5:])

    failures: list[tuple[int, object]] = []
    for one in (answer, unknown):
        with pytest.raises(openai.NotFoundError) as caught:
            await USES[use](up.ben, one)
        status, error = error_of(caught.value)
        failures.append((status, str(error).replace(answer.id[5:], never[5:])))

    assert failures[0] == failures[1]
    assert failures[0][0] == 404
    assert await up.ann.responses.retrieve(answer.id) == answer


async def test_while_storing_is_off_the_setting_is_named(tmp_path: Path) -> None:
    async with archived(tmp_path, "") as up:
        answer = await up.ann.responses.with_raw_response.create(
            model="chat", input="hi", store=True
        )

        assert answer.headers["x-gateway-dropped-params"] == "store"
        assert answer.parse().model_dump()["store"] is False
        with pytest.raises(openai.BadRequestError, match=r"responses\.store is off"):
            await ask(up.ann, previous_response_id="resp_1")
        with pytest.raises(openai.NotFoundError, match=r"responses\.store is off"):
            await up.ann.responses.retrieve("resp_1")
        with pytest.raises(openai.BadRequestError, match=r"responses\.store is off"):
            await ask(up.ann, conversation="conv_1")
        assert up.remote.accepted == 1
