"""`strowger experiments votes` and `remove-vote`: find and delete a wrong vote."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from strowger_gateway.gateway.cli.main import strowger
from strowger_gateway.gateway.experiments.state_poller import ExperimentPoller
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.rows import FeedbackRow, RequestRow, Row
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.schemas.secret import Secret
from tests.gateway.config.configs import read
from tests.gateway.experiments.recorded_gateway import config

CONTRACT = "metrics: [{name: thumbs_up, type: boolean, higher_is: worse}]"


def rows() -> list[Row]:
    found: list[Row] = []
    for number in range(400):
        treated = number % 2 == 1
        request_id = f"request-{number}"
        found.append(
            RequestRow(
                surface="openai",
                request_id=request_id,
                time=1.0,
                status=200,
                ms=100.0,
                key="ann",
                experiment="trial",
                epoch=1,
                variant="treatment" if treated else "control",
                unit=f"unit-{number}",
            )
        )
        pleased = number // 2 % 20 < (16 if treated else 4)
        found.append(voted(request_id, float(pleased), boolean=True))
    return found


def voted(request_id: str, value: float, *, boolean: bool = False, at: float = 2.0) -> FeedbackRow:
    return FeedbackRow(
        request_id=request_id, time=at, key="ann", metric="thumbs_up", value=value, boolean=boolean
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    url = f"sqlite:///{tmp_path / 'strowger.db'}"
    file = tmp_path / "config.yaml"
    file.write_text(config("http://127.0.0.1:9/v1", other=f"{CONTRACT}\nstore: {{url: '{url}'}}"))
    store = store_of(file)
    store.prepare()
    ExperimentPoller(store).poll(read(file.read_text()).experiments)
    found = rows()
    store.import_rows("file", 0, len(found), found)
    store.close()
    return file


def store_of(file: Path) -> SqlStore:
    return open_store(Secret(f"sqlite:///{file.parent / 'strowger.db'}"))


def run(file: Path, *words: str) -> Result:
    return CliRunner().invoke(strowger, ["experiments", *words, "--config", str(file)])


def report(file: Path) -> Any:
    return json.loads(run(file, "report", "trial", "--json").stdout)


def test_a_vote_older_than_its_contract_is_reported_found_and_removed(file: Path) -> None:
    before = report(file)
    store = store_of(file)
    store.import_rows("more", 0, 1, [voted("request-7", 1000.0, at=3.0)])
    store.close()

    told = run(file, "report", "trial").stdout
    listed = run(file, "votes", "trial", "--outside")
    farthest = json.loads(run(file, "votes", "trial", "--limit", "3", "--json").stdout)
    removed = run(file, "remove-vote", "trial", "request-7")
    again = run(file, "remove-vote", "trial", "request-7")
    store = store_of(file)
    store.import_rows("more", 1, 2, [voted("request-7", 1.0, boolean=True, at=4.0)])
    store.close()

    assert (
        "thumbs_up: there are votes from 0 to 1000, outside of what it takes; to find them: "
        "strowger experiments votes trial --metric thumbs_up --outside."
    ) in told
    assert [line.split()[:3] for line in listed.stdout.splitlines()[1:]] == [
        ["request-7", "1000", "treatment"]
    ]
    assert [vote["value"] for vote in farthest] == [1000.0, 0.0, 0.0]
    assert (farthest[0]["key"], farthest[0]["variant"]) == ("ann", "treatment")
    assert removed.stdout == "1 removed from thumbs_up of trial\n"
    assert again.exit_code == 1
    assert "request-7: no vote of thumbs_up in trial" in again.stderr
    assert report(file) == before


def test_where_higher_is_worse_the_verdict_says_so_also_for_a_removed_experiment(
    file: Path,
) -> None:
    before = run(file, "report", "trial").stdout
    text = file.read_text()
    kept, _, rest = text.partition("experiments:\n")
    file.write_text(kept + rest[rest.index("store:") :])

    after = run(file, "report", "trial").stdout

    assert "Verdict: treatment is worse than control: thumbs_up +0.6 (+0." in before
    assert "Verdict: treatment is worse than control: thumbs_up +0.6 (+0." in after
    assert "thumbs_up: true or false, higher is worse." in before


def test_without_a_contract_no_vote_of_a_metric_is_outside(file: Path) -> None:
    found = run(file, "votes", "trial", "--metric", "stars", "--outside")

    assert found.exit_code == 1
    assert 'stars accepts every number: it has no contract under "metrics"' in found.stderr
