"""Token counts can always be added up, whatever a backend sends."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert

from strowger_gateway.schemas.events import Usage
from strowger_gateway.schemas.usage import MOST_TOKENS

COUNTS = [name for name in Usage.__struct_fields__ if name != "raw"]
ODD = st.one_of(st.none(), st.integers(), st.integers(-(10**300), 10**300))


@given(st.fixed_dictionaries(dict.fromkeys(COUNTS, ODD)))
def test_a_count_that_cannot_be_is_none_at_all(told: dict[str, int | None]) -> None:
    usage = convert(told, Usage)

    for name, count in told.items():
        sound = count is not None and 0 <= count <= MOST_TOKENS
        assert getattr(usage, name) == (count if sound else None)
