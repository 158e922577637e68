"""`strowger import litellm --database` with the tables of LiteLLM's own migrations.

All of them are applied in order, as its proxy does. Digests and ciphertexts are by its functions.
`make nightly-clients` installs the package (tests/clients/packages.py) and runs this.
"""

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TypedDict

import httpx
import psycopg
import pytest
from click.testing import Result

from tests.clients.packages import LITELLM
from tests.gateway.cli.command_line import run
from tests.gateway.cli.litellm_import.litellm_tables import insert
from tests.gateway.content.stored_responses.archives import counts
from tests.gateway.forked_commands import forked
from tests.stand_ins.postgres import running_postgres
from tests.stand_ins.provider import provider

pytestmark = [pytest.mark.anyio, pytest.mark.nightly]

SCRIPT = Path(__file__).parent / "scripts" / "litellm_rows.py"
SALT = "sk-salt-of-the-proxy"
MANY = 50


class Made(TypedDict):
    """What the script prints."""

    migrations: str
    sealed: str
    tokens: list[str]


async def test_the_keys_of_a_real_schema_work_unchanged(tmp_path: Path) -> None:
    if not LITELLM.installed:
        pytest.skip("python -m tests.clients.install litellm")
    secrets = [f"sk-{number:022d}" for number in range(MANY)]
    script = await asyncio.create_subprocess_exec(
        LITELLM.interpreter, SCRIPT, SALT, "sk-vendor", *secrets, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await asyncio.wait_for(script.communicate(), 300)
    made: Made = json.loads(said.decode().splitlines()[-1])
    with running_postgres() as server:
        url = server.new_database()
        migrations = migrated(url, Path(made["migrations"]))
        read, written, text, answers = await moved(url, tmp_path, made, secrets)

    assert migrations > 100
    assert read.exit_code == written.exit_code == 0, read.output + written.output
    assert "sk-vendor" in text
    assert [one.status_code for one in answers] == [200] * MANY + [429, 401]
    assert "without counterpart" not in read.stderr


def migrated(url: str, folder: Path) -> int:
    """Apply all migrations; return how many there are."""
    migrations = sorted(folder.glob("*/migration.sql"))
    with psycopg.connect(url, autocommit=True) as connection:
        for migration in migrations:
            connection.execute(migration.read_bytes())
    return len(migrations)


async def moved(
    url: str, folder: Path, made: Made, secrets: list[str]
) -> tuple[Result, Result, str, list[httpx.Response]]:
    """Fill the database, import it, and ask with every key, the first one twice, and a wrong one.

    Returns what the two commands said, the file of secrets, and the answers.
    """
    by = {"created_by": "admin", "updated_by": "admin"}
    insert(url, "BudgetTable", {"budget_id": "b", "max_budget": 9, "budget_duration": "7d", **by})
    insert(url, "TeamTable", {"team_id": "t", "team_alias": "red", "models": ["chat"], "spend": 1})
    rows = [
        {
            "token": token,
            "key_name": f"sk-...{secret[-4:]}",
            "key_alias": f"key-{place}",
            "models": ["all-team-models"],
            "team_id": "t",
            "budget_id": "b",
            "rpm_limit": 1 if place == 0 else None,
        }
        for place, (token, secret) in enumerate(zip(made["tokens"], secrets, strict=True))
    ]
    insert(url, "VerificationToken", *rows)
    async with AsyncExitStack() as stack:
        remote = await stack.enter_async_context(provider(counts))
        params = {"model": "openai/m", "api_key": made["sealed"], "api_base": remote.base_url}
        insert(
            url,
            "ProxyModelTable",
            {"model_id": "1", "model_name": "chat", "litellm_params": params, **by},
        )
        file = folder / "config.yaml"
        env = {"LITELLM_MASTER_KEY": "sk-master-1234", "OPENAI_API_KEY": "sk-vendor"}
        address = ("import", "litellm", "--database", url)
        read = run(*address, "--salt-key", SALT, "-o", str(file), "--env", f"{folder}/env")
        written = run(*address, "--write", "--config", str(file), env=env)
        secrets_file = (folder / "env").read_text()
        text = file.read_text().replace('"0.0.0.0"', '"127.0.0.1"')
        up = await stack.enter_async_context(forked(file, text, env=env))
        client = await stack.enter_async_context(httpx.AsyncClient(base_url=up.url, timeout=60))
        body = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
        answers = [
            await client.post(
                "/v1/chat/completions", json=body, headers={"authorization": f"Bearer {secret}"}
            )
            for secret in (*secrets, secrets[0], "sk-of-nobody-at-all-000")
        ]
    return read, written, secrets_file, answers
