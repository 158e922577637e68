"""Which pairs count: the first ones in the fixed order, of whole units, whatever ends sooner."""

from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.experiments.replay.report import counted_pairs
from strowger_gateway.gateway.experiments.replay.rows import Pair


def pairs(units: str, decided: str) -> list[Pair]:
    """units: the letter of each pair's unit. decided: x for those that are."""
    return [
        Pair(
            place=place,
            unit=unit,
            how="judge" if mark == "x" else "",
            score=0.5 if mark == "x" else None,
            first=None,
            second=None,
            length=None,
        )
        for place, (unit, mark) in enumerate(zip(units, decided, strict=True))
    ]


def counted(units: str, decided: str) -> str:
    return "".join(pair.unit for pair in counted_pairs(pairs(units, decided)))


def test_pairs_count_up_to_the_first_undecided_one_in_whole_units() -> None:
    assert counted("aabbcc", "xxxxxx") == "aabbcc"
    assert counted("aabbcc", "xxxx.x") == "aabb"
    assert counted("aabbcc", "xxx.xx") == "aa"
    assert counted("aabbcc", ".xxxxx") == ""
    assert counted("aabbcc", "xxxxx.") == "aabb"
    assert counted("", "") == ""


@given(st.lists(st.tuples(st.integers(1, 4), st.booleans()), max_size=12))
def test_what_counts_is_a_beginning_of_whole_decided_units(units: list[tuple[int, bool]]) -> None:
    names = "".join(chr(97 + n) * size for n, (size, _) in enumerate(units))
    marks = "".join(("x" if done else ".") * size for size, done in units)
    whole = [n for n, (_, done) in enumerate(units) if not done]

    last = whole[0] if whole else len(units)
    assert counted(names, marks) == "".join(chr(97 + n) * units[n][0] for n in range(last))
