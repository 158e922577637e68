"""A conversation continues in another process: another worker, another gateway, after kill -9."""

import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import cast

import openai
import pytest

from tests.gateway.commanded import connected, pid_of
from tests.gateway.content.stored_responses.archives import KEYS, Json, ask, client_of, counts
from tests.gateway.forked_commands import forked
from tests.gateway.serving import one_model
from tests.stand_ins.postgres import Postgres
from tests.stand_ins.provider import Provider, provider

pytestmark = pytest.mark.anyio

TURNS = 4


def texts(remote: Provider) -> list[object]:
    """Return the contents of the messages that were last sent."""
    messages = cast("list[Json]", remote.requests[-1].json["messages"])
    return [one["content"] for one in messages]


async def test_gateways_on_one_database_continue_each_others_conversations(
    tmp_path: Path, postgres: Postgres
) -> None:
    """One of them is killed as soon as its answer is complete, whole or streamed."""
    stored = "responses: {store: on, timeout_s: 60}"
    more = f'{KEYS}\n{stored}\nstore: {{url: "{postgres.new_database()}"}}'
    expected: list[object] = []
    last = None
    async with AsyncExitStack() as stack:
        remote = await stack.enter_async_context(provider(counts))
        config = one_model(remote.base_url, f"{more}\nserver: {{drain_delay_s: 0}}")
        folders = [tmp_path / name for name in ("one", "two", "three", "four")]
        for folder in folders:
            folder.mkdir()
        up = [
            await stack.enter_async_context(forked(folder / "config.yaml", config))
            for folder in folders[:2]
        ]
        for turn in range(TURNS):
            async with client_of(up[0].url, "key-of-ann-1") as client:
                fields = {} if last is None else {"previous_response_id": last.id}
                last = await ask(client, input=f"turn {turn}", stream=turn % 2 == 1, **fields)
            if turn in {1, 2}:
                up[0].process.kill()  # its answer has left, so the next one has it
                await up[0].process.wait()
                folder = folders[turn + 1]
                up[0] = await stack.enter_async_context(forked(folder / "config.yaml", config))
            assert last.model_dump()["store"] is True
            expected.append(f"turn {turn}")
            assert texts(remote) == expected
            expected.append(last.output_text)
            up.reverse()
        assert last is not None
        async with client_of(up[0].url, "key-of-ben-1") as stranger:
            with pytest.raises(openai.NotFoundError):
                await ask(stranger, previous_response_id=last.id)


async def test_workers_on_one_file_continue_each_others_conversations(tmp_path: Path) -> None:
    """What a worker stored is there when it is killed; a reload turns storing off and on."""
    server = "responses: {store: on, timeout_s: 60}\nserver: {drain_delay_s: 0, workers: 2}"
    async with AsyncExitStack() as stack:
        remote = await stack.enter_async_context(provider(counts))
        config = one_model(remote.base_url, server)
        up = await stack.enter_async_context(forked(tmp_path / "config.yaml", config))
        workers = [await connected(up, stack, number) for number in (0, 1)]

        previous = ""
        answer: Json = {}
        for turn in range(TURNS):
            body = {"model": "chat", "input": f"turn {turn}"}
            if previous:
                body["previous_response_id"] = previous
            answer = (await workers[turn % 2].post("/v1/responses", json=body)).json()
            assert answer["store"] is True
            assert texts(remote)[::2] == [f"turn {number}" for number in range(turn + 1)]
            previous = str(answer["id"])
        kept = await workers[1].get(f"/v1/responses/{previous}")
        await up.reload(config.replace("store: on", "store: off"))
        hidden = await workers[0].get(f"/v1/responses/{previous}")
        unstored = await workers[0].post("/v1/responses", json={"model": "chat", "input": "hi"})
        await up.reload(config)
        metrics = (await workers[0].get("/metrics")).text
        killed = pid_of(workers[1])
        os.kill(killed, signal.SIGKILL)
        found = await workers[0].get(f"/v1/responses/{previous}")

        assert found.json() == kept.json() == answer
        assert (hidden.status_code, unstored.json()["store"]) == (404, False)
        assert 'strowger_responses_stored_total{outcome="stored"} 4.0' in metrics
