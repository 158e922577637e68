"""`strowger experiments`: reports, pausing and resuming, and the required sample."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from strowger_gateway.gateway.cli.main import strowger
from strowger_gateway.gateway.experiments.state_poller import ExperimentPoller
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.rows import FeedbackRow, RequestRow, Row
from strowger_gateway.schemas.secret import Secret
from tests.gateway.config.configs import read
from tests.gateway.experiments.recorded_gateway import config

UNITS = 1200


def rows(epoch: int) -> list[Row]:
    """Of as many units in each arm; 30 % of control's are content, 45 % of the treatment's."""
    found: list[Row] = []
    for number in range(UNITS):
        treated = number % 2 == 1
        request_id = f"request-{number}"
        found.append(
            RequestRow(
                surface="openai",
                request_id=request_id,
                time=1.0,
                status=200,
                ms=100.0,
                experiment="trial",
                epoch=epoch,
                variant="treatment" if treated else "control",
                unit=f"unit-{number}",
                fallback=number % 100 == 0,
            )
        )
        content = number // 2 % 20 < (9 if treated else 6)
        found.append(
            FeedbackRow(
                request_id=request_id,
                time=2.0,
                key="",
                metric="thumbs_up",
                value=float(content),
                boolean=True,
            )
        )
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A configuration whose store has seen the whole experiment."""
    text = config("http://127.0.0.1:9/v1")
    url = f"sqlite:///{tmp_path / 'strowger.db'}"
    file = tmp_path / "config.yaml"
    file.write_text(f"{text}\nstore: {{url: '{url}'}}\n")
    store = open_store(Secret(url))
    store.prepare()
    ExperimentPoller(store).poll(read(text).experiments)
    found = rows(1)
    store.import_rows("file", 0, len(found), found)
    store.close()
    return file


def run(file: Path | None, *words: str) -> Result:
    more = [] if file is None else ["--config", str(file)]
    return CliRunner().invoke(strowger, ["experiments", *words, *more])


def test_before_it_begins_an_experiment_is_not_running(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(config("http://127.0.0.1:9/v1"))

    checked = CliRunner().invoke(strowger, ["check", str(file)])
    lines = run(file, "report", "trial").output.splitlines()

    assert "OK (1 provider, 2 models, 1 experiment; hash" in checked.output
    assert lines[0] == "trial over chat, by header:x-session-id; not started"
    assert lines[2] == "Verdict: treatment: not enough data for an interval of thumbs_up yet"
    assert not (tmp_path / "strowger.db").exists()


def test_nothing_is_paused_where_no_gateway_has_served(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(config("http://127.0.0.1:9/v1"))

    found = run(file, "pause", "trial")

    assert found.exit_code == 1
    assert f"store.url: {tmp_path / 'strowger.db'} does not exist, so no gateway" in found.output
    assert not (tmp_path / "strowger.db").exists()


def test_a_report_reads_as_a_sentence_and_two_tables(file: Path) -> None:
    lines = run(file, "report", "trial").output.splitlines()

    assert lines[0] == "trial over chat, by header:x-session-id; epoch 1, running"
    assert lines[2].startswith("Verdict: treatment is better than control: thumbs_up +0.15 (+0.0")
    (control,) = [line for line in lines if line.startswith("control ")]
    assert control.split() == ["control", "a/old", "50", "600", "600", "2", "%"]
    vote = next(line for line in lines if line.startswith("thumbs_up") and "treatment" in line)
    assert vote.split()[:7] == [
        "thumbs_up",
        "(primary)",
        "treatment",
        "600",
        "600",
        "0.45",
        "+0.15",
    ]


def test_a_report_says_what_watches_the_variants_and_what_it_sees(file: Path) -> None:
    limit = "    harm_limits: [{metric: error, worse_by: 0.02}]\n    primary:"
    file.write_text(file.read_text().replace("    primary:", limit, 1))

    lines = run(file, "report", "trial").output.splitlines()
    circuit, score = json.loads(run(file, "report", "trial", "--json").output)["guards"]

    assert (
        "Guard: treatment is watched by its circuit, which opens when 50 % of its last 20 requests"
        " fail and control's do not." in lines
    )
    seen = f"{score['smallest']:.3g}"
    assert (
        "Guard: treatment is watched in error by a test of 1,200 units; it finds a harm of"
        f" {seen} in 80 % of cases." in lines
    )
    assert (circuit["units"], circuit["needed"], circuit["smallest"]) == (600, 20, 0.5)
    assert (score["rule"], score["units"], score["needed"]) == ("score", 1200, 15)
    assert 0.02 < score["smallest"] < 0.06


def test_a_program_gets_the_same_numbers(file: Path) -> None:
    report = json.loads(run(file, "report", "trial", "--json").output)

    assert report["kind"] == "better"
    assert [arm["units"] for arm in report["arms"]] == [600, 600]
    assert report["findings"][0]["variant"] == "treatment"


def test_a_pause_is_kept_with_its_reason_until_resumed(file: Path) -> None:
    paused = run(file, "pause", "trial", "--reason", "too dear")
    listed = json.loads(run(file, "list", "--json").output)
    resumed = [run(file, "resume", "trial").output, run(file, "resume", "trial").output]

    assert paused.output == "trial is paused: control serves all requests\n"
    assert (listed[0]["paused"], listed[0]["reason"]) == (True, "too dear")
    assert resumed == ["trial is resumed\n", "trial was not paused\n"]


def test_an_unknown_name_is_reported_with_the_nearest(file: Path) -> None:
    found = run(file, "report", "trail")

    assert found.exit_code == 1
    assert 'no experiment is named "trail"; did you mean "trial"?' in found.output


def taken_out(file: Path) -> Path:
    """The same file without its experiments."""
    before, _, after = file.read_text().partition("experiments:\n")
    file.write_text(before + after[after.index("store:") :])
    return file


def test_what_was_taken_out_of_the_file_is_listed_and_reported_as_it_ended(file: Path) -> None:
    before = json.loads(run(file, "report", "trial", "--json").output)
    taken_out(file)

    listed = json.loads(run(file, "list", "--json").output)
    table = run(file, "list").output
    lines = run(file, "report", "trial").output.splitlines()
    after = json.loads(run(file, "report", "trial", "--json").output)

    (row,) = listed
    assert (row["name"], row["model"], row["removed"]) == ("trial", "chat", True)
    assert (row["variants"], row["last_request"]) == (["control", "treatment"], 1.0)
    ended = "removed from the configuration, last request 1970-01-01 00:00 UTC"
    assert ended in table
    assert lines[0] == f"trial over chat, by header:x-session-id; epoch 1, {ended}"
    assert lines[2].startswith("Verdict: treatment is better than control: thumbs_up +0.15")
    assert after == {**before, "removed": True, "guards": []}


def test_what_was_taken_out_of_the_file_cannot_be_paused(file: Path) -> None:
    found = run(taken_out(file), "pause", "trial")

    assert found.exit_code == 1
    assert 'no experiment of the configuration is named "trial"' in found.output


def test_removed_experiments_are_listed_as_removed(file: Path) -> None:
    store = open_store(Secret(f"sqlite:///{file.parent / 'strowger.db'}"))
    store.define("trial", '{"of": "another version"}', 1.0)
    store.close()
    taken_out(file)

    listed = json.loads(run(file, "list", "--json").output)
    found = run(file, "report", "trial")

    assert (listed[0]["name"], listed[0]["model"], listed[0]["removed"]) == ("trial", "", True)
    assert found.exit_code == 1
    assert "the store has no readable definition" in found.output


def test_votes_for_only_one_arm_are_reported_with_what_is_missing(file: Path) -> None:
    store = open_store(Secret(f"sqlite:///{file.parent / 'strowger.db'}"))
    votes = [
        FeedbackRow(request_id=f"request-{number}", time=3.0, key="", metric="stars", value=4.0)
        for number in range(0, 40, 2)
    ]
    store.import_rows("more", 0, 1, votes)
    store.close()

    lines = run(file, "report", "trial").output.splitlines()

    assert [line.split() for line in lines if line.startswith("stars")] == [
        ["stars", "control", "20", "20", "4"],
        ["stars", "treatment", "0", "0", "no", "votes", "yet"],
    ]


def test_the_sample_size_needs_no_configuration_and_no_store() -> None:
    found = run(None, "plan", "--baseline", "0.12", "--lift", "0.02")
    wrong = run(None, "plan", "--baseline", "0.12", "--lift", "0")
    words = run(None, "plan", "--baseline", "0.12", "--lift", "0.02", "--shares", "80,x")

    assert found.output.splitlines() == [
        "Required sample: 16,984 units (8,492, 8,492) with continuous monitoring",
        "Fixed-horizon test: 8,870 units (look once, at the end)",
        "Harm limits: from about 17 active units on, if all requests of a variant fail",
        "config.yaml: planned: 16984, smallest: 0.02",
    ]
    assert (wrong.exit_code, words.exit_code) == (2, 2)
    assert "--shares: '80,x' is not a list of numbers such as 80,20" in words.output


DECIDE = """    decide: {better: thumbs_up, not_worse: [{metric: error, by: 0.03}]}
    primary:"""


@pytest.fixture
def deciding(file: Path) -> Path:
    file.write_text(file.read_text().replace("    primary:", DECIDE, 1))
    return file


def test_a_decision_is_the_verdict_and_shows_its_clauses(deciding: Path) -> None:
    lines = run(deciding, "report", "trial").output.splitlines()
    report = json.loads(run(deciding, "report", "trial", "--json").output)

    assert lines[2].startswith("!!!!!!!!!!!! PLAN CHANGED after 1,200 requests: decide was none")
    assert lines[4].startswith("Verdict: ship treatment: thumbs_up rises by at least 0.0")
    assert lines[5] == "Decision on treatment:"
    assert lines[6].startswith("  holds  thumbs_up rises by at least")
    assert lines[7].startswith("  holds  error rises by at most 0.0")
    assert report["kind"] == "ship"
    [decision] = report["decisions"]
    assert decision["ship"]
    assert [one["metric"] for one in decision["clauses"]] == ["thumbs_up", "error"]
    assert decision["clauses"][1]["by"] == 0.03
    assert -0.03 < decision["clauses"][1]["at_least"] < 0


def test_a_plan_takes_its_baseline_from_the_store(file: Path) -> None:
    [found] = json.loads(run(file, "plan", "--from", "trial", "--lift", "0.05", "--json").output)

    seen = found["baseline"]
    assert (seen["metric"], seen["units"], seen["observed_share"]) == ("thumbs_up", 600, 1.0)
    assert seen["mean"] == pytest.approx(0.3)
    assert seen["sd"] == pytest.approx((0.3 * 0.7) ** 0.5, rel=1e-3)
    by_hand = json.loads(
        run(
            None, "plan", "--baseline", "0.3", "--lift", "0.05", "--sd", str(seen["sd"]), "--json"
        ).output
    )
    assert found["plan"]["total"] == pytest.approx(by_hand["total"], abs=2)


def test_a_plan_covers_every_clause_of_a_decision(deciding: Path) -> None:
    output = run(deciding, "plan", "--from", "trial", "--lift", "0.05").output
    found = json.loads(run(deciding, "plan", "--from", "trial", "--lift", "0.05", "--json").output)

    assert [(one["metric"], one["by"]) for one in found] == [("thumbs_up", None), ("error", 0.03)]
    most = max(one["units"] for one in found)
    assert output.splitlines()[-1] == f"config.yaml: planned: {most}"
    assert "not worse by 0.03" in output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--lift", "0.05"), "give --baseline, or --from"),
        (("--from", "trail", "--lift", "0.05"), 'did you mean "trial"?'),
        (
            ("--from", "trial", "--lift", "0.1", "--metric", "stars"),
            "stars has no values in the store",
        ),
        (("--from", "trial", "--lift", "0.1", "--metric", "cost_usd"), "needs at least 30"),
    ],
)
def test_a_plan_that_cannot_be_made_says_why(file: Path, words: tuple[str, ...], told: str) -> None:
    found = run(file, "plan", *words)

    assert found.exit_code != 0
    assert told in found.output


def test_a_decision_names_each_metric_once(file: Path) -> None:
    clauses = "{better: error, not_worse: [{metric: error, by: 0.1}]}"
    text = file.read_text().replace("    primary:", f"    decide: {clauses}\n    primary:", 1)
    file.write_text(text)

    checked = CliRunner().invoke(strowger, ["check", str(file)])

    assert checked.exit_code == 1
    assert "decide.not_worse[0].metric" in checked.output
    assert "give one clause per metric" in checked.output


def trial(tmp_path: Path, found: list[Row]) -> Path:
    """A configuration whose store has taken these rows."""
    url = f"sqlite:///{tmp_path / 'strowger.db'}"
    file = tmp_path / "config.yaml"
    file.write_text(f"{config('http://127.0.0.1:9/v1')}\nstore: {{url: '{url}'}}\n")
    store = open_store(Secret(url))
    store.prepare()
    store.import_rows("file", 0, len(found), found)
    store.close()
    return file


def test_a_ramp_changes_no_interval_without_new_data(file: Path) -> None:
    """Intervals are tuned by the plan, not by the current weights."""

    def interval() -> object:
        found = json.loads(run(file, "report", "trial", "--json").output)
        return next(one["variants"][1] for one in found["metrics"] if one["name"] == "thumbs_up")

    before = interval()
    text = file.read_text()
    assert text.count("weight: 50") == 2
    file.write_text(text.replace("weight: 50", "weight: 97", 1).replace("weight: 50", "weight: 3"))

    assert interval() == before


def test_missing_votes_are_reported_above_the_verdict(tmp_path: Path) -> None:
    """Every third vote of the treatment is missing, and all of those would have been bad."""
    kept = [
        row
        for row in rows(1)
        if not (
            isinstance(row, FeedbackRow)
            and int(row.request_id.removeprefix("request-")) % 6 == 1
            and row.value == 0.0
        )
    ]
    file = trial(tmp_path, kept)

    lines = run(file, "report", "trial").output.splitlines()
    (response,) = json.loads(run(file, "report", "trial", "--json").output)["responses"]

    alarm = "!" * 12 + " RESPONSE RATES DIFFER: answers of treatment get thumbs_up less often"
    assert lines[2].startswith(alarm)
    assert lines[4].startswith("Verdict: treatment is better")
    assert lines[-1].startswith("Votes per request on thumbs_up: 0.8")
    assert response["rate"] < response["control"] == 1
    assert response["high"] < 0


def test_a_unit_with_a_large_part_of_the_votes_and_epochs_left_out_are_named(
    tmp_path: Path,
) -> None:
    crowd = rows(1)
    bot = [
        row
        for n in range(400)
        for row in (
            RequestRow(request_id=f"bot-{n}", surface="openai", time=3.0, status=200, ms=100.0,
                       experiment="trial", epoch=1, variant="treatment", unit="bot"),
            FeedbackRow(request_id=f"bot-{n}", time=4.0, key="", metric="thumbs_up", value=1.0,
                        boolean=True),
        )
    ]  # fmt: skip
    late = [
        RequestRow(request_id="late", surface="openai", time=5.0, status=200, ms=100.0,
                   experiment="trial", epoch=2, variant="control", unit="late"),
        FeedbackRow(request_id="late", time=6.0, key="", metric="thumbs_up", value=1.0,
                    boolean=True),
    ]  # fmt: skip
    file = trial(tmp_path, [*crowd, *bot, *late])

    output = run(file, "report", "trial").output

    assert (
        "Note: thumbs_up: 40 % of treatment's votes are from a single unit, bot; exclude it "
        "(strowger experiments exclude), or set `per: unit` or `level: unit` in the next experiment"
    ) in output
    assert (
        "Note: thumbs_up: no unit has more than 1/50 of treatment's votes, in any epoch: unit bot "
        "sent 400 and counts as "
    ) in output
    assert (
        "Note: thumbs_up: treatment is compared without epoch 2, where an arm has fewer than 10 "
        "units with votes"
    ) in output
    assert "control's votes" not in output
