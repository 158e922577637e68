"""The access log, the API, the database and the Parquet export use the same names."""

import asyncio
from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from importlib import import_module
from pathlib import Path

import pytest

from strowger_gateway.gateway.storage.sql.database import Database, listed
from strowger_gateway.gateway.storage.sql.open import driver_of
from strowger_gateway.schemas.secret import Secret
from tests.gateway.commanded import SOON_S, Commanded
from tests.gateway.forked_commands import forked, printed
from tests.gateway.serving import one_model
from tests.stand_ins.provider import provider

DATASET = import_module("pyarrow.dataset")
OPERATOR = {"authorization": "Bearer key-of-the-operator"}
CONFIG = """
store: {{url: "{url}"}}
auth: {{mode: keys, admin_key: key-of-the-operator}}
teams: [{{name: red}}]
prices: [{{match: remote/*, input: 2, output: 8}}]
budgets: [{{name: people, who: {{team: red}}, each: end_user, usd: 100}}]
"""
BEN = sha256(b"ben").hexdigest()[:32]
WHO = {"key": "web", "team": "red", "user": "ann", "end_user": BEN}


class Recorded:
    """One request of the end user `ben` with the key of `ann`, wherever it is recorded."""

    def __init__(self, up: Commanded, url: Secret) -> None:
        self._up = up
        self._database = Database(driver_of(url), lambda _: None)

    async def request(self, key: str) -> str:
        """Send it; return its id once the database has it."""
        headers = {"authorization": f"Bearer {key}"}
        body = {"model": "chat", "user": "ben", "messages": [{"role": "user", "content": "Hi"}]}
        async with self._up.client() as client:
            answer = await client.post("/v1/chat/completions", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        async with asyncio.timeout(SOON_S):
            while not self.rows("requests"):  # noqa: ASYNC110  another process writes it
                await asyncio.sleep(0.05)
        return answer.headers["x-gateway-request-id"]

    def rows(self, table: str, *columns: str) -> list[tuple[object, ...]]:
        with self._database.reading() as session:
            names = listed(columns) or "1"
            return session.rows(tuple[object, ...], f"SELECT {names} FROM {table}")

    async def line(self, request_id: str) -> Mapping[str, object]:
        """Its line of the access log."""
        async with asyncio.timeout(SOON_S):
            while True:
                for line in self._up.access:
                    if line.get("request_id") == request_id:
                        return line
                await asyncio.sleep(0.05)

    def close(self) -> None:
        self._database.close()


async def command(config: Path, *words: str) -> str:
    """Run `strowger`; return what it prints."""
    status, output, errors = await printed(*words, "--config", str(config))
    assert status == 0, errors
    return output


@pytest.mark.anyio
async def test_the_end_user_is_end_user_in_the_log_the_api_the_database_and_the_export(
    url: Secret, tmp_path: Path
) -> None:
    config, out = tmp_path / "config.yaml", tmp_path / "out"
    async with provider() as remote:
        text = one_model(remote.base_url, CONFIG.format(url=url.reveal()))
        config.write_text(text)
        key = await command(config, "keys", "create", "web", "--team", "red", "--user", "ann")
        async with forked(config, text) as up:
            recorded = Recorded(up, url)
            request_id = await recorded.request(key.strip())
            line = await recorded.line(request_id)
            async with up.client() as client:
                shown = (await client.get(f"/admin/requests/{request_id}", headers=OPERATOR)).json()
                used = (await client.get("/admin/usage?by=key,team,user", headers=OPERATOR)).json()
        await command(config, "records", "export", "--to", str(out))
    requests = recorded.rows("requests", "request_id", *WHO)
    spent = recorded.rows("spend", *WHO)
    sources = recorded.rows("attempts", "request_id", "usage_source")
    recorded.close()
    (request,) = DATASET.dataset(out / "requests", partitioning="hive").to_table().to_pylist()
    (attempt,) = DATASET.dataset(out / "attempts", partitioning="hive").to_table().to_pylist()

    assert {name: line[name] for name in WHO} == WHO
    assert {name: shown[name] for name in WHO} == WHO
    assert [(row["key"], row["team"], row["user"]) for row in used["rows"]] == [
        ("web", "red", "ann")
    ]
    assert requests == [(request_id, *WHO.values())]
    assert spent == [tuple(WHO.values())]
    assert {name: request[name] for name in WHO} == WHO
    assert line["usage_source"] == attempt["usage_source"] == "reported"
    assert sources == [(request_id, "reported")]
    same = set(line) & set(request) - {"time"}
    assert {name: line[name] for name in same} == {name: request[name] for name in same}
    assert isinstance(request["time"], datetime)
