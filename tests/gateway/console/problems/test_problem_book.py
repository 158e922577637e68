"""Problems begin and end once, and keep the time since when they last."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.console.problems.band import state_of
from strowger_gateway.gateway.console.problems.book import WINDOW_S, ProblemBook, since_known
from strowger_gateway.gateway.console.problems.event_words import cause_of, name_of, subject_of
from strowger_gateway.gateway.console.problems.metric_rules import CounterTotals, metric_problems
from strowger_gateway.gateway.console.problems.problem import ORDER, GatewayProblem, by_weight
from strowger_gateway.gateway.console.problems.words import KINDS, problem
from strowger_gateway.gateway.observability.telemetry.metric_snapshot import Family, Sample

NAMES = ("store_down", "redis_down", "import_late")


def found(*kinds: str) -> list[GatewayProblem]:
    return [problem(kind, seconds="61") for kind in kinds]


def totals(at: float, **values: float) -> CounterTotals:
    return CounterTotals(
        time=at, values={f"strowger_{name}_total": one for name, one in values.items()}
    )


@given(st.lists(st.sets(st.sampled_from(NAMES)), max_size=30))
def test_each_problem_begins_before_it_ends_and_never_twice(looks: list[set[str]]) -> None:
    book = ProblemBook("a (1)")
    for at, kinds in enumerate(looks):
        book.judge(found(*kinds), totals(float(at)))
        assert kinds <= {one.kind for one in book.current}

    on = set[str]()
    for _, event in book.events:
        if event.kind == "ended":
            on.remove(event.subject)
        else:
            assert event.kind not in on
            on.add(event.kind)
    assert on == {one.kind for one in book.current}
    numbers = [number for number, _ in book.events]
    assert numbers == sorted(set(numbers))


def test_an_event_says_which_problem_is_over() -> None:
    book = ProblemBook("a (1)")
    spent = problem("budget_spent", subject="ads", name="ads", count="1", all="1")
    book.judge([spent], totals(10.0))
    for at in (15.0, 20.0):
        book.judge([], totals(at))

    (_, (_, over)) = book.events
    assert (name_of(over), subject_of(over)) == ("over: budget spent", "a (1)")
    assert cause_of(over).startswith("The budget ads is spent")


def test_a_problem_that_is_missing_once_has_not_ended() -> None:
    book = ProblemBook("a (1)")
    book.judge(found("store_down"), totals(10.0))
    book.judge(found(), totals(15.0))
    book.judge(found("store_down"), totals(20.0))
    (still,) = book.current
    book.judge(found(), totals(25.0))
    book.judge(found(), totals(30.0))

    assert still.since == 10.0
    assert [(event.kind, event.duration_s) for _, event in book.events] == [
        ("store_down", None),
        ("ended", 20.0),
    ]


def test_lost_records_are_a_problem_for_ten_minutes() -> None:
    book = ProblemBook("a (1)")
    book.judge([], totals(0.0, records_lost=5))
    quiet = book.current
    book.judge([], totals(5.0, records_lost=8))
    (lost,) = book.current
    shown = since_known([], book.current)
    book.judge([], totals(10.0 + WINDOW_S, records_lost=8))
    book.judge([], totals(15.0 + WINDOW_S, records_lost=8))

    assert quiet == []
    assert (lost.severity, lost.message) == (
        "critical",
        "3 records were lost in the last 10 minutes",
    )
    assert shown == [lost]
    assert book.current == []


def gauge(name: str, value: float, labels: Mapping[str, str] | None = None) -> Family:
    sample = Sample(name, tuple((labels or {}).items()), value)
    return Family(name, "", "gauge", (sample,))


def test_gauges_are_problems_by_name_and_value() -> None:
    at = 1_000_000.0
    expiry = "strowger_tls_certificate_expiry_timestamp_seconds"
    budget = {"budget": "b", "subject": "team-1"}
    other = {"budget": "b", "subject": "team-2"}
    families = (
        gauge("strowger_store_available", 0.0),
        gauge("strowger_redis_available", 1.0),
        gauge("strowger_import_lag_seconds", 75.0),
        gauge(expiry, at + 3 * 86_400, {"name": "server"}),
        gauge(expiry, at - 1, {"name": "old"}),
        gauge("strowger_budget_limit_usd", 10.0, budget),
        gauge("strowger_budget_limit_usd", 10.0, other),
        gauge("strowger_budget_spent_usd", 9.0, budget),
        gauge("strowger_budget_reserved_usd", 1.0, budget),
        gauge("strowger_budget_spent_usd", 9.0, other),
    )

    told = {one.kind: one.message for one in metric_problems(families, at)}

    assert told == {
        "store_down": "The store is unreachable: keys, budgets and records are as last known",
        "import_late": "Records reach the store 75 s late",
        "certificate_expires": "The certificate server expires in 3 days",
        "certificate_expired": "The certificate old has expired",
        "budget_spent": "The budget b is spent for 1 of 2: their requests are refused",
    }


def test_the_heaviest_problem_comes_first_and_colours_the_bar() -> None:
    held = problem("backend_held", backend="p", state="draining", who="ann")
    many = by_weight([*found("redis_down", "store_down"), held])

    assert [one.kind for one in many] == ["store_down", "redis_down", "backend_held"]
    assert state_of(many) == ("bad", "1 serious problem")
    assert state_of(many[1:]) == ("warn", "ready · 1 warning")
    assert state_of(many[2:]) == ("good", "ready")
    assert {severity for severity, _, _ in KINDS.values()} == ORDER.keys()
