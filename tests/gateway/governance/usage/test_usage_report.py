"""Reports of usage: rows, totals, periods of time zones, and what is wrong with a question."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.governance.usage.csv_output import as_csv
from strowger_gateway.gateway.governance.usage.periods import Span, UsageRange, periods, usage_range
from strowger_gateway.gateway.governance.usage.report import (
    DIMENSIONS,
    SPANS,
    Dimension,
    UsageQuery,
    dimensions,
    usage_report,
)
from strowger_gateway.gateway.storage.sql.usage_rows import Usage, UsageCounts, UsagePayer
from strowger_gateway.schemas.errors import InvalidRequest

NOW = datetime(2026, 11, 24, 14, 7, tzinfo=UTC).timestamp()
ZONES = ("UTC", "Europe/Berlin", "Asia/Kathmandu", "America/St_Johns", "Pacific/Apia")
NAMES = st.sampled_from(["", "a", "b", "=cmd()", "x,y"])
PAYERS = st.builds(
    UsagePayer,
    key=NAMES,
    team=NAMES,
    user=NAMES,
    tags=st.lists(st.sampled_from(["red", "blue", "hot"]), unique=True).map(
        lambda tags: tuple(sorted(tags))
    ),
    route=NAMES,
    backend=NAMES,
    role=st.sampled_from(["served", "failed", "hedge", "mirror"]),
)
COUNTS = st.builds(UsageCounts, *[st.integers(0, 10**15)] * 8)
WITHOUT_TAG = [name for name in DIMENSIONS if name not in ("tag", "request_tag")]


def at(text: str, zone: str = "UTC") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp())


@given(
    st.lists(st.tuples(PAYERS, COUNTS), max_size=30, unique_by=lambda one: one[0]),
    st.lists(st.sampled_from(WITHOUT_TAG), unique=True, max_size=4),
)
def test_rows_add_up_to_the_total_whatever_they_are_by(
    used: list[tuple[UsagePayer, UsageCounts]], by: list[Dimension]
) -> None:
    spans = [one for one in by if one in SPANS]
    by = [one for one in by if one not in spans[1:]]
    wanted = UsageQuery(
        range=UsageRange(begin=at("2026-11-20"), end=at("2026-11-24")), by=tuple(by)
    )

    def read(parts: Sequence[tuple[int, int]]) -> list[Usage]:
        return [Usage(n % len(parts), payer, one) for n, (payer, one) in enumerate(used)]

    report = usage_report(wanted, read)

    for name in ("requests", "attempts", "cost_nano_usd", "served_nano_usd", "prompt_tokens"):
        assert sum(getattr(row, name) for row in report.rows) == getattr(report.total, name)
    assert report.total.cost_nano_usd == sum(one.nanos for _, one in used)
    assert not report.rows_overlap
    keys = [tuple(row.text(one) for one in by) for row in report.rows]
    assert len(set(keys)) == len(keys)


def test_a_request_counts_under_each_of_its_tags_and_once_in_the_total() -> None:
    def read(parts: Sequence[tuple[int, int]]) -> list[Usage]:
        payer = UsagePayer("k", "", "", ("blue", "red"), "m", "p/m", "served")
        bare = UsagePayer("k", "", "", (), "m", "p/m", "served")
        return [Usage(0, payer, UsageCounts(2, nanos=5)), Usage(0, bare, UsageCounts(1, nanos=1))]

    wanted = UsageRange(begin=0, end=900)
    by_tag = usage_report(UsageQuery(range=wanted, by=("tag",)), read)
    by_set = usage_report(UsageQuery(range=wanted, by=("tags",)), read)
    only = usage_report(UsageQuery(range=wanted, by=("tag",), only={"tag": "red"}), read)
    without = usage_report(UsageQuery(range=wanted, by=("tag",), only={"tag": ""}), read)

    assert [(row.tag, row.requests) for row in by_tag.rows] == [("", 1), ("blue", 2), ("red", 2)]
    assert (by_tag.rows_overlap, by_tag.total.requests, by_tag.total.cost_nano_usd) == (True, 3, 6)
    assert [(row.tags, row.requests) for row in by_set.rows] == [((), 1), (("blue", "red"), 2)]
    assert not by_set.rows_overlap
    assert [(row.tag, row.requests) for row in only.rows] == [("red", 2)]
    assert not only.rows_overlap
    assert [(row.tag, row.requests) for row in without.rows] == [("", 1)]


@given(
    st.sampled_from(ZONES),
    st.sampled_from(SPANS),
    st.integers(0, 400 * 96),
    st.integers(1, 60 * 96),
)
def test_periods_cover_the_range_once_and_begin_where_the_local_clock_says(
    zone: str, span: Span, first: int, length: int
) -> None:
    begin = at("2011-06-01") + first * 900
    found = periods(UsageRange(begin=begin, end=begin + length * 900, time_zone=zone), span)

    assert (found[0].begin, found[-1].end) == (begin, begin + length * 900)
    for one, after in pairwise(found):
        assert one.end == after.begin > one.begin
        local = datetime.fromtimestamp(after.begin, ZoneInfo(zone))
        assert local.minute == 0
        if span != "hour":
            earlier = local - timedelta(seconds=1)
            assert local.date() != earlier.date()
    assert len({one.label for one in found}) == len(found)


def test_the_hours_of_a_day_with_a_clock_change_are_25_and_their_names_differ() -> None:
    day = UsageRange(
        begin=at("2026-10-25", "Europe/Berlin"),
        end=at("2026-10-26", "Europe/Berlin"),
        time_zone="Europe/Berlin",
    )

    found = [one.label for one in periods(day, "hour")]

    assert len(found) == 25
    assert found[2:4] == ["2026-10-25T02:00+02:00", "2026-10-25T02:00+01:00"]


@pytest.mark.parametrize(
    ("words", "begin", "end"),
    [
        ({}, "2026-10-26", "2026-11-24T14:15"),
        ({"days": 1}, "2026-11-24", "2026-11-24T14:15"),
        ({"month": "last"}, "2026-10-01", "2026-11-01"),
        ({"month": "this"}, "2026-11-01", "2026-12-01"),
        ({"month": "2024-02"}, "2024-02-01", "2024-03-01"),
        ({"begin": "2026-11-02", "end": "2026-11-03"}, "2026-11-02", "2026-11-03"),
        ({"begin": "2026-11-02T03:15+01:00"}, "2026-11-02T02:15", "2026-11-24T14:15"),
    ],
)
def test_ranges(words: dict[str, object], begin: str, end: str) -> None:
    found = usage_range(NOW, **words)  # pyright: ignore[reportArgumentType]  as words on the wire

    assert (found.begin, found.end) == (at(begin), at(end))


def test_days_and_months_begin_in_the_time_zone() -> None:
    found = usage_range(NOW, month="2026-11", time_zone="America/New_York")

    assert found.begin == at("2026-11-01T04:00")
    assert found.end == at("2026-12-01T05:00")


@pytest.mark.parametrize(
    ("words", "param", "message"),
    [
        ({"month": "2026-13"}, "month", "expected a month such as"),
        ({"month": "٢٠٢٦-١١"}, "month", "expected a month such as"),
        ({"month": "9999-12"}, "month", "expected a month such as"),
        ({"begin": "yesterday"}, "from", "expected a date"),
        ({"begin": "2026-11-01T08:00"}, "from", "a time with a time zone"),
        ({"begin": "2026-11-01T08:01Z"}, "from", "quarter of an hour"),
        ({"begin": "0001-01-01"}, "from", "year from 1970"),
        ({"begin": "2026-11-02", "end": "2026-11-02"}, "to", "empty"),
        ({"begin": "2027-11-02"}, "from", "empty"),
        ({"end": "2026-11-02"}, "to", "needs from"),
        ({"days": 3, "month": "last"}, "month", "either days or month"),
        ({"time_zone": "Mars/Olympus"}, "time_zone", "unknown time zone"),
        ({"time_zone": "../../etc/passwd"}, "time_zone", "unknown time zone"),
        ({"time_zone": "\0"}, "time_zone", "unknown time zone"),
        ({"time_zone": "x" * 5000}, "time_zone", "unknown time zone"),
    ],
)
def test_a_wrong_range_is_refused_with_the_field_and_the_remedy(
    words: dict[str, object], param: str, message: str
) -> None:
    with pytest.raises(InvalidRequest, match=message) as refused:
        usage_range(NOW, **words)  # pyright: ignore[reportArgumentType]  as words on the wire

    assert refused.value.param == param


@pytest.mark.parametrize(
    ("by", "message"), [("teem", 'did you mean "team"'), ("day,month", "at most one of")]
)
def test_an_unknown_dimension_is_refused(by: str, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message) as refused:
        dimensions(by)

    assert refused.value.param == "by"


def test_more_periods_than_a_report_may_have_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="more than 2000 periods of one hour"):
        periods(UsageRange(begin=0, end=at("2026-01-01")), "hour")


def test_csv_is_exact_and_runs_nothing_in_a_spreadsheet() -> None:
    def read(parts: Sequence[tuple[int, int]]) -> list[Usage]:
        payer = UsagePayer('=HYPERLINK("x")', "a,b", "", ("-1", "t"), "m", "p/m", "served")
        return [Usage(0, payer, UsageCounts(1, 7, 3, nanos=123_456_789_000_000_001))]

    wanted = UsageQuery(range=UsageRange(begin=0, end=900), by=("key", "team", "tags"))
    header, line, rest = as_csv(usage_report(wanted, read)).split("\r\n")

    assert header.startswith("key,team,tags,requests,served_prompt_tokens,")
    assert line.startswith('"\'=HYPERLINK(""x"")","a,b","\'-1, t",1,7,3,123456789.000000001,')
    assert rest == ""
