"""`strowger import litellm --database`: rows that no API would write again, of years of use."""

import json
import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest
from msgspec import Struct

from strowger_gateway.gateway.config.load import load_config
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.storage.sql.key_rows import IssuedKey
from strowger_gateway.gateway.storage.sql.open import open_store
from tests.gateway.cli.command_line import run
from tests.gateway.cli.litellm_import.litellm_tables import create, insert, token
from tests.stand_ins.postgres import Postgres

ENV = {"LITELLM_MASTER_KEY": "sk-master-1234", "OPENAI_API_KEY": "k"}
NOW = datetime.now(UTC).replace(tzinfo=None)
MONTH = {"max_budget": 1, "budget_duration": "30d", "spend": 5}


class Odd(Struct, frozen=True, kw_only=True):
    """What an import of odd rows has made. spent: US dollars by budget."""

    config: Config
    keys: dict[str, IssuedKey]
    listed: str
    spent: dict[str, float]
    again: str


def fill(url: str) -> None:
    create(url)
    insert(
        url,
        "TeamTable",
        {"team_id": "gone", "team_alias": "gone", "models": ["chat", "a-model-that-was"]},
        {"team_id": "none", "team_alias": "none", "models": ["no-default-models"]},
        {"team_id": "long", "team_alias": "x" * 400, "models": []},
        {
            "team_id": "rules",
            "team_alias": "rules",
            "metadata": {"model_rpm_limit": {"chat": 5, "was": 5}},
        },
        {"team_id": "both", "team_alias": "both", "models": ["all-proxy-models"]},
    )
    insert(
        url,
        "UserTable",
        {"user_id": "u" * 300, "max_budget": 1},
        {"user_id": "n" * 250, "max_budget": 1},
        {"user_id": "", "max_budget": 1},
        {"user_id": "wide", "models": ["chat", "gpt-*"]},
    )
    insert(
        url,
        "BudgetTable",
        {"budget_id": "raised", "max_budget": 1, "temp_budget_increase": 5},
        {"budget_id": "member", "allowed_models": ["chat"]},
    )
    insert(url, "TeamMembership", {"user_id": "m", "team_id": "both", "budget_id": "member"})
    rows: dict[str, dict[str, object]] = {
        "unnamed-model": {"metadata": {"model_rpm_limit": {"": 2, "chat": 5}}},
        "unnamed-budget": {"model_max_budget": {"": 5}},
        "names": {"models": ["chat", "", "a" * 900]},
        "crowd": {"models": [f"m{place}" for place in range(1_200)]},
        "ended": {**MONTH, "budget_reset_at": NOW - timedelta(days=1)},
        "running": {**MONTH, "budget_reset_at": NOW + timedelta(days=1)},
        "endless": {"max_budget": 1e300, "spend": 1e300},
        "unreal": {"max_budget": math.inf, "spend": math.nan},
        "below": {"rpm_limit": -1},
        "of-a-long-user": {"user_id": "u" * 300},
        "narrower": {"user_id": "wide", "models": ["gpt-mini", "other"]},
        "wider": {"user_id": "wide", "models": ["gpt-m*", "ch*"]},
        "member": {"user_id": "m", "team_id": "both", "models": ["all-team-models"]},
        "raised": {"budget_id": "raised"},
        "orphan": {"team_id": "deleted"},
    }
    insert(
        url,
        "VerificationToken",
        *({"token": token(f"sk-{name}"), "key_alias": name, **row} for name, row in rows.items()),
    )
    params = {"model": "openai/x", "input_cost_per_token": 1e-6, "output_cost_per_token": 1e-6}
    insert(url, "ProxyModelTable", {"model_name": "chat", "litellm_params": params})


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres) -> Odd:
    folder, database = tmp_path_factory.mktemp("odd"), postgres.new_database()
    file = folder / "config.yaml"
    fill(database)
    address = ("import", "litellm", "--database", database)
    made = run(*address, "-o", str(file), env=ENV)
    assert made.exit_code == 0, made.output
    write = (*address, "--write", "--config", str(file))
    issued, again = run(*write, env=ENV), run(*write, env=ENV)
    assert issued.exit_code == again.exit_code == 0, issued.output + again.output
    budgets = run("budgets", "--json", "--config", str(file), env=ENV)
    config = load_config(file, ENV)
    store = open_store(config.store.url)
    keys = {key.name: key for key in store.issued_keys.all()}
    store.close()
    return Odd(
        config=config,
        keys=keys,
        listed=made.stderr,
        spent={one["budget"]: one["spent"] for one in json.loads(budgets.stdout)["budgets"]},
        again=again.stderr,
    )


def test_models_that_are_gone_do_not_stop_the_gateway_and_are_listed(odd: Odd) -> None:
    teams = {team.name: team for team in odd.config.teams}

    assert teams["gone"].models == ("chat",)
    assert teams["none"].models == ()
    assert [limit.models for limit in teams["rules"].limits] == [("chat",)]
    assert "team gone.models: there is no model 'a-model-that-was'" in odd.listed
    assert "team none.models: there is no model 'no-default-models'" in odd.listed
    assert "its keys may use no model" in odd.listed
    assert "team rules.limits: there is no model 'was'" in odd.listed


def test_a_rule_that_cannot_be_is_listed_and_the_others_hold(odd: Odd) -> None:
    assert [limit.models for limit in odd.keys["unnamed-model"].limits] == [("chat",)]
    assert odd.keys["unnamed-budget"].budgets == ()
    assert "key unnamed-model.limits of the model '': cannot be set" in odd.listed
    assert "key unnamed-budget.budgets of the model '': cannot be set" in odd.listed
    assert odd.keys["names"].models == ("chat",)
    assert len(odd.keys["crowd"].models) == 1_000
    assert "key crowd.models: more than 1,000" in odd.listed


def test_what_was_spent_is_that_of_the_current_period(odd: Odd) -> None:
    assert odd.spent["key:ended/month"] == 0
    assert odd.spent["key:running/month"] == pytest.approx(5)
    assert odd.spent["key:endless/total"] == 1e9
    assert odd.keys["unreal"].budgets == ()
    assert "what 0 keys, teams and users have spent" in odd.again


def test_names_that_are_too_long_are_cut_or_listed(odd: Odd) -> None:
    users = [budget.who.user for budget in odd.config.budgets]

    assert "x" * 240 in [team.name for team in odd.config.teams]
    assert users == ["n" * 250]
    assert odd.keys["of-a-long-user"].user == ""
    assert "key of-a-long-user.user_id: has more than 256 characters" in odd.listed


def test_a_key_may_use_what_it_its_user_and_its_membership_permit(odd: Odd) -> None:
    assert odd.keys["narrower"].models == ("gpt-mini",)
    assert set(odd.keys["wider"].models) == {"chat", "gpt-m*"}
    assert odd.keys["member"].models == ("chat",)


def test_states_and_increases_are_told_as_they_are(odd: Odd) -> None:
    assert odd.keys["below"].disabled
    assert "key below.rpm_limit: is below 1, which refuses every request" in odd.listed
    assert "key orphan.team_id: there is no team 'deleted'" in odd.listed
    assert "budget raised.temp_budget_increase: has no counterpart" in odd.listed


@pytest.mark.parametrize("password", ["p@ss-word", "pass/word", "pass%word", "1/x?pass-word"])
def test_a_password_that_is_not_written_as_an_address_wants_it_is_not_shown(
    tmp_path: Path, password: str
) -> None:
    url = f"postgresql://u:{password}@127.0.0.1:1/x"
    copy = ("store", "copy", "--from", url, "--to", f"sqlite:///{tmp_path}/x.db")

    for command in (("import", "litellm", "--database", url), copy):
        found = run(*command)

        assert found.exit_code in (1, 2)
        assert "in the password as %XX" in found.output
        assert "word" not in found.output.replace("PASSWORD", "").replace("the password", "")
        assert cast("object", found.exception).__class__ is SystemExit
