"""Times that people write."""

import pytest

from strowger_gateway.gateway.platform.moments import moment


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("15m", 1_000_000.0 - 900),
        ("0s", 1_000_000.0),
        ("2w", 0.0),
        ("1700000000.5", 1_700_000_000.5),
        ("2027-01-31T00:00:00Z", 1_801_353_600.0),
        ("2027-01-31", 1_801_353_600.0),
        ("2027-01-31T08:00+08:00", 1_801_353_600.0),
    ],
)
def test_a_time_is_read_in_three_forms(text: str, at: float) -> None:
    assert moment(text, 1_000_000.0) == at


@pytest.mark.parametrize("text", ["", "soon", "15", "-1", "1e400", "nan", "15 m", "0001-01-01"])
def test_what_is_no_time_says_what_is_expected(text: str) -> None:
    if text == "15":
        assert moment(text, 0.0) == 15.0
        return
    with pytest.raises(ValueError, match="expected an age such as 15m"):
        moment(text, 1_000_000.0)
