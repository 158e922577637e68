"""The rules of an adapter name the first row of its table that covers a field."""

from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.adapters.client_fields.denied import ANY, VENDORS, withheld
from strowger_gateway.adapters.client_fields.patterns import ClientFields, covers

RULES = [ANY, withheld("deepseek"), *map(withheld, VENDORS)]
PATTERNS = sorted({row.path for rules in RULES for row in rules.table})


@st.composite
def fields(draw: st.DrawFn) -> str:
    """Paths that patterns cover, or nearly."""
    path = draw(st.sampled_from(PATTERNS)).replace("*", draw(st.sampled_from(["", "x", "a_b"])))
    path += draw(st.sampled_from(["", ".a", "[]", "[].b", "c"]))
    return path[draw(st.integers(0, 2)) :] or "x"


@given(rules=st.sampled_from(RULES), path=fields())
def test_the_first_row_that_covers_a_field_decides(rules: ClientFields, path: str) -> None:
    expected = next((row for row in rules.table if covers(row.path, path)), None)

    assert rules.verdict(path) == expected
