"""`strowger import litellm --database`: a company's keys work here, with their budgets."""

import asyncio
import json
import subprocess
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from strowger_gateway.gateway.cli.litellm_import.database.ciphertexts import decrypted
from strowger_gateway.gateway.cli.litellm_import.database.rules import duration_s, rules_of
from strowger_gateway.gateway.config.load import load_config
from strowger_gateway.gateway.storage.sql.open import open_store
from tests.gateway.cli.command_line import run
from tests.gateway.cli.litellm_import.litellm_tables import create, insert, token
from tests.gateway.content.stored_responses.archives import counts
from tests.gateway.forked_commands import forked
from tests.stand_ins.postgres import Postgres
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

SALT = "sk-salt-1234"
SEALED = "UNLU2DDTYnqquHmEOhLuIdUSDKmcaKrLmcnW0Rw_Vw3sKBV4KIza6PAeDZZQ7OprsSSEFp5-9iLMzJBkH8_xsA=="
"""`sk-the-key-of-openai-123` by PyNaCl's SecretBox, as LiteLLM's encrypt_value_helper."""

GCM = "v2:gcm:kEVN2R8FwU-lHCAZfSsn6ZCWvbutlUNO6_RtR7WYHwJwW0f8MWVhSJYsEQ=="
"""`sk-openai-key-1` by LiteLLM 1.110.2 with `encryption_algorithm: aes-256-gcm`."""

ENV = {"LITELLM_MASTER_KEY": "sk-master-1234", "OPENAI_API_KEY": "k"}
MANY = 50
NOW = datetime.now(UTC).replace(tzinfo=None)


def secret(number: int) -> str:
    return f"sk-{number:022d}"


def key(number: int, **fields: object) -> dict[str, object]:
    shown = f"sk-...{secret(number)[-4:]}"
    named: dict[str, object] = {"token": token(secret(number)), "key_name": shown}
    unset: dict[str, object] = {"models": [], "metadata": {}, "aliases": {}}
    return {**named, **unset, "key_alias": f"key-{number}", **fields}


def fill(url: str, base_url: str) -> None:
    create(url)
    insert(
        url,
        "BudgetTable",
        {"budget_id": "b", "max_budget": 20, "soft_budget": 15, "budget_duration": "30d"},
        {"budget_id": "member", "max_budget": 3, "budget_duration": "7d", "rpm_limit": 50},
        {"budget_id": "empty"},
    )
    insert(
        url,
        "TeamTable",
        {
            "team_id": "t1",
            "team_alias": "Red Team",
            "models": ["chat", "beta"],
            "max_budget": 100,
            "budget_duration": "30d",
            "spend": 12.5,
            "rpm_limit": 600,
            "metadata": {"guardrails": ["pii"]},
            "model_id": 1,
        },
        {"team_id": "t2", "team_alias": "Shut", "models": [], "blocked": True},
        {"team_id": "t3", "team_alias": "Spent", "models": [], "max_budget": 5, "spend": 7},
    )
    insert(url, "ModelTable", {"id": 1, "aliases": {"gpt-4": "chat"}})
    insert(
        url,
        "UserTable",
        {"user_id": "ann", "models": [], "max_budget": 50, "spend": 1.25},
        {"user_id": "bob", "models": ["other"], "spend": 0},
        {"user_id": "default_user_id", "models": [], "spend": 999},
    )
    insert(url, "TeamMembership", {"user_id": "cy", "team_id": "t1", "budget_id": "member"})
    insert(
        url,
        "VerificationToken",
        key(
            0,
            team_id="t1",
            user_id="ann",
            models=["all-team-models"],
            spend=2.5,
            rpm_limit=1,
            max_budget=10,
            budget_duration="30d",
            metadata={"tags": ["prod"], "model_tpm_limit": {"chat": 100_000}},
        ),
        key(1, key_alias=None, blocked=True, budget_id="b"),
        key(2, user_id="bob"),
        key(3, team_id="t2"),
        key(4, team_id="t3"),
        key(5, max_budget=1, budget_duration="1mo", spend=1.5),
        key(6, expires=NOW - timedelta(days=1)),
        key(7, models=["beta"], allowed_routes=["llm_api_routes"], a_later_column="set"),
        key(8, team_id="t1", user_id="cy", rpm_limit=0),
        key(9, budget_duration="12h", max_budget=4, aliases={"gpt-4": "chat"}),
        key(10, models=["no-default-models"]),
        *(key(number, team_id="t1", spend=4) for number in range(11, MANY)),
        key(99, team_id="litellm-dashboard"),
    )
    insert(
        url,
        "DeprecatedVerificationToken",
        {
            "token": token("sk-before-the-rotation"),
            "active_token_id": token(secret(11)),
            "revoke_at": NOW + timedelta(days=1),
        },
    )
    model = {"model": "openai/gpt-mini", "api_key": SEALED, "api_base": base_url}
    other = {"model": "openai/gpt-other", "api_key": "os.environ/OPENAI_API_KEY"}
    prices = {"input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6}
    info = {"access_groups": ["beta"], "id": "7f", "db_model": True, **prices}
    insert(
        url,
        "ProxyModelTable",
        {"model_name": "chat", "litellm_params": model, "model_info": info},
        {"model_name": "other", "litellm_params": {**other, "api_base": base_url}},
    )
    insert(
        url,
        "Config",
        {"param_name": "router_settings", "param_value": {"num_retries": 2}},
        {"param_name": "environment_variables", "param_value": {"OPENAI_API_KEY": GCM}},
    )
    insert(url, "OrganizationTable", {"organization_alias": "Org", "budget_id": "b"})
    insert(url, "EndUserTable", {"user_id": "customer-1", "blocked": True, "spend": 0})
    insert(url, "MCPServerTable", {"server_id": "files"})
    insert(url, "SpendLogs", {"request_id": "r"})


class Imported(Struct, frozen=True, kw_only=True):
    """A gateway that was set up from the database. listed: its stderr. config: its file."""

    url: str
    database: str
    config: Path
    listed: str
    issued: str

    async def ask(self, secret: str, model: str = "chat") -> httpx.Response:
        body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3}
        async with httpx.AsyncClient(timeout=60) as client:
            return await client.post(
                f"{self.url}/v1/chat/completions",
                json=body,
                headers={"authorization": f"Bearer {secret}"},
            )


def imported(*words: str, env: Mapping[str, str] = ENV) -> str:
    """Run the command; return stderr."""
    found = run("import", "litellm", *words, env={**env})
    assert found.exit_code == 0, found.output
    return found.stderr


@pytest.fixture(scope="module")
async def company(
    tmp_path_factory: pytest.TempPathFactory, postgres: Postgres
) -> AsyncGenerator[Imported]:
    folder, database = tmp_path_factory.mktemp("company"), postgres.new_database()
    file = folder / "config.yaml"
    async with AsyncExitStack() as stack:
        remote = await stack.enter_async_context(provider(counts))
        fill(database, f"{remote.base_url}")
        address = ("--database", f"{database}&schema=public&connection_limit=9")
        opened = ("--salt-key", SALT, "-o", str(file), "--env", str(folder / "secrets"))
        listed = imported(*address, *opened)
        env = {**ENV, "OPENAI_API_KEY_2": "sk-the-key-of-openai-123"}
        checked = await asyncio.to_thread(run, "check", str(file), env=env)
        assert checked.exit_code == 0, checked.output
        issued = imported(*address, "--write", "--config", str(file), env=env)
        text = file.read_text().replace('"0.0.0.0"', '"127.0.0.1"')
        up = await stack.enter_async_context(forked(file, text, env=env))
        yield Imported(url=up.url, database=database, config=file, listed=listed, issued=issued)


async def test_every_key_works_unchanged(company: Imported) -> None:
    answers = {number: await company.ask(secret(number)) for number in range(11, MANY)}

    assert {one.status_code for one in answers.values()} == {200}
    assert "50 keys issued, 0 changed, 0 as they were; what 5 keys" in company.issued
    assert (await company.ask("sk-before-the-rotation")).status_code == 200
    assert (await company.ask(secret(99))).status_code == 401


async def test_limits_models_budgets_and_states_hold(company: Imported) -> None:
    first, second = await company.ask(secret(0)), await company.ask(secret(0))
    found = {number: await company.ask(secret(number)) for number in (1, 3, 6, 8, 10)}
    personal = await company.ask(secret(2)), await company.ask(secret(2), "other")
    group = await company.ask(secret(7)), await company.ask(secret(7), "other")
    spent = {number: await company.ask(secret(number)) for number in (4, 5)}

    assert [first.status_code, second.status_code] == [200, 429]
    assert {number: one.status_code for number, one in found.items()} == dict.fromkeys(found, 401)
    assert found[6].json()["error"]["code"] == "api_key_expired"
    assert [one.status_code for one in personal] == [404, 200]
    assert [one.status_code for one in group] == [200, 404]
    assert {one.json()["error"]["code"] for one in spent.values()} == {"budget_exceeded"}


async def test_what_was_spent_is_carried_over_once(company: Imported) -> None:
    env = {**ENV, "OPENAI_API_KEY_2": "k"}
    again = imported(
        "--database", company.database, "--write", "--config", str(company.config), env=env
    )
    report = run("budgets", "--json", "--config", str(company.config), env=env)
    spent = {one["budget"]: one["spent"] for one in json.loads(report.stdout)["budgets"]}

    assert "0 keys issued, 0 changed, 50 as they were; what 0 keys" in again
    assert spent["key:key-0/month"] == pytest.approx(2.5, abs=0.01)
    assert spent["team:Red Team/month"] == pytest.approx(12.5, abs=0.01)
    assert spent["user ann"] == pytest.approx(1.25, abs=0.01)
    assert spent["team:Spent/total"] == pytest.approx(7)


async def test_an_update_follows_what_has_changed_in_litellm(company: Imported) -> None:
    database, env = company.database, {**ENV, "OPENAI_API_KEY_2": "k"}
    import psycopg

    with psycopg.connect(database) as connection:
        connection.execute(
            'UPDATE "LiteLLM_VerificationToken" SET rpm_limit = 9, spend = 5 WHERE token = %s',
            [token(secret(20))],
        )
        connection.execute(
            'DELETE FROM "LiteLLM_VerificationToken" WHERE token = %s', [token(secret(21))]
        )
    words = ("--database", database, "--write", "--config", str(company.config))
    told = imported(*words, env=env)
    changed = imported(*words, "--update", env=env)
    store = open_store(load_config(company.config, env).store.url)
    key = store.issued_keys.find("key-20")
    store.close()

    assert "1 keys differ from LiteLLM's; --update changes them: key-20" in told
    assert "key key-21: LiteLLM does not have it any more; end it here" in told
    assert "0 keys issued, 1 changed, 48 as they were" in changed
    assert key is not None
    assert key.limits[0].requests == 9


@pytest.mark.parametrize(
    "words",
    [
        "team Red Team.metadata.guardrails: keys have no such field; write guardrails",
        "team Red Team.aliases.gpt-4: aliases are for every client; add 'gpt-4' to the aliases",
        "key key-9.aliases: has no counterpart; add the names to models[].aliases",
        "key key-9.max_budget: budgets have calendar periods, and 12h is none",
        "key key-8.rpm_limit: is below 1, which refuses every request; the key is disabled",
        "key key-7.allowed_routes: has no counterpart",
        "key key-7.a_later_column: has no counterpart",
        "key key-10.models: no-default-models permits none",
        "organization Org: there is no level above teams with a budget of $20",
        "end user customer-1: is blocked",
        "LiteLLM_MCPServerTable: 1 rows without counterpart",
    ],
)
async def test_what_has_no_counterpart_is_listed_with_a_remedy(
    company: Imported, words: str
) -> None:
    assert f"not translated: {words}" in company.listed


async def test_logs_and_sessions_are_not_listed(company: Imported) -> None:
    assert "SpendLogs" not in company.listed
    assert "key-99" not in company.listed
    assert "default_user_id" not in company.listed


async def test_credentials_of_models_go_to_a_file_that_others_cannot_read(
    company: Imported,
) -> None:
    file = company.config.with_name("secrets")
    text = company.config.read_text()
    read = f'. {file}; printf %s "$OPENAI_API_KEY_2|$OPENAI_API_KEY"'
    words = ["sh", "-c", read]
    shell = await asyncio.to_thread(
        subprocess.run, words, capture_output=True, text=True, check=True
    )

    assert file.stat().st_mode & 0o777 == 0o600
    assert shell.stdout == "sk-the-key-of-openai-123|sk-openai-key-1"
    assert "sk-the-key" not in text
    assert "sk-the-key" not in company.listed


async def test_without_the_salt_key_credentials_are_listed(
    company: Imported, tmp_path: Path
) -> None:
    told = imported("--database", company.database, "-o", str(tmp_path / "a.yaml"))
    wrong = imported(
        *("--database", company.database, "-o", str(tmp_path / "b.yaml"), "--salt-key", "other")
    )

    assert "model chat.api_key: is encrypted; give --salt-key" in told
    assert "model chat.api_key: the salt key does not decrypt it" in wrong


async def test_a_report_has_every_key_and_what_was_not_translated(
    company: Imported, tmp_path: Path
) -> None:
    file = tmp_path / "report.json"
    imported(
        *("--database", company.database, "-o", str(tmp_path / "c.yaml"), "--report", str(file))
    )
    report = json.loads(file.read_text())

    assert {one["name"] for one in report["keys"]} >= {"key-0", "key-49"}
    assert report["teams"] == ["Red Team", "Shut", "Spent"]
    assert all(one["remedy"] for one in report["not_translated"])
    assert token(secret(0)) not in file.read_text()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--write",), "--write needs --database"),
        ((), "name the FILE, or give --database"),
        (("--database", "mysql://a/b"), "must be postgresql://"),
        (("--database", "postgresql://u:pass-word@127.0.0.1:1/x"), "--database: connection"),
    ],
)
async def test_a_wrong_call_says_what_is_wrong(words: tuple[str, ...], told: str) -> None:
    found = run("import", "litellm", *words)

    assert found.exit_code in (1, 2)
    assert told in found.output
    assert "pass-word" not in found.output


async def test_a_database_that_is_not_litellms_is_refused(postgres: Postgres) -> None:
    found = run("import", "litellm", "--database", postgres.new_database())

    assert "has no table LiteLLM_VerificationToken" in found.output


async def test_both_ciphertexts_of_litellm_are_opened_with_their_key_alone() -> None:
    assert decrypted(SEALED, SALT) == "sk-the-key-of-openai-123"
    assert decrypted(GCM, SALT) == "sk-openai-key-1"
    assert decrypted(SEALED, "other") is None
    assert decrypted(GCM, "other") is None
    assert decrypted(SEALED[:-8] + "AAAAAA==", SALT) is None
    assert decrypted("gpt-5-mini", SALT) is None


@given(
    most=st.floats(min_value=0, max_value=1e12),
    count=st.integers(min_value=1, max_value=400),
    unit=st.sampled_from(["s", "m", "h", "d", "w", "mo"]),
)
def test_a_budget_is_never_larger_than_litellms(most: float, count: int, unit: str) -> None:
    duration = f"{count}{unit}"
    period = duration_s(duration)
    row = {"max_budget": most, "budget_duration": duration}
    (budget,) = rules_of(row, {}, lambda field, reason, remedy: None).budgets
    lengths = {"day": 86_400, "week": 604_800, "month": 2_592_000}
    usd, length = budget["usd"], lengths[str(budget["per"])]

    assert period is not None
    assert isinstance(usd, float)
    assert usd / max(length, period) <= max(most, 1e-9) / period * 1.001 + 1e-6
    assert 0 < usd <= 1e9


async def test_settings_for_later_keys_do_not_hold_keys_of_the_database(
    company: Imported, tmp_path: Path
) -> None:
    file, made = tmp_path / "litellm.yaml", tmp_path / "d.yaml"
    file.write_text("litellm_settings: {default_key_generate_params: {max_budget: 1}}\n")

    told = imported(str(file), "--database", company.database, "-o", str(made))

    assert "default_key_generate_params.max_budget: is for keys that are made later" in told
    assert "each-key" not in made.read_text()
