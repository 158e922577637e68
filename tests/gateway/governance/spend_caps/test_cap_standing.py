"""What caps hold: exactly the backends whose sum reaches one, until the last of them resets."""

import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from strowger_gateway.gateway.config.model_patterns import covers
from strowger_gateway.gateway.config.schema.budgets import SpendCap
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.governance.budgets.calendar import Period
from strowger_gateway.gateway.governance.spend_caps import spent_book
from strowger_gateway.gateway.governance.spend_caps.spent_book import LOST_S, SpentBook, StoredCosts
from strowger_gateway.gateway.governance.spend_caps.standing import holds_of, standings
from strowger_gateway.gateway.storage.sql.spend_rows import SLOT_S
from tests.gateway.config.configs import faults, read, warnings

NAMES = ("m", "mini", "large", "other")
CAPS = st.lists(
    st.builds(
        SpendCap,
        usd=st.integers(1, 9).map(float),
        per=st.sampled_from(["day", "week", "month", "total"]),
        models=st.lists(st.sampled_from(["*", "m*", *NAMES]), min_size=1, max_size=2).map(tuple),
    ),
    max_size=4,
)
NOON = 1_780_000_000.0


def configured(caps: list[SpendCap]) -> Config:
    text = "providers:\n"
    for name in ("p", "pp"):
        text += f"  - {{name: {name}, adapter: openai, base_url: 'http://127.0.0.1:9/v1'}}\n"
    text += "models:\n"
    for name in ("p", "pp"):
        backends = ", ".join(f"{{provider: {name}, model: {model}}}" for model in NAMES)
        text += f"  - {{name: of-{name}, backends: [{backends}]}}\n"
    config = read(text)
    first, *others = config.providers
    return replace(config, providers=(replace(first, spend_caps=tuple(caps)), *others))


@given(CAPS, st.dictionaries(st.sampled_from(NAMES), st.integers(0, 6 * 10**9)))
def test_a_backend_is_held_exactly_if_a_cap_of_it_is_used_up(
    caps: list[SpendCap], spent: dict[str, int]
) -> None:
    costs = {f"p/{name}": nanos for name, nanos in spent.items()}
    costs |= {f"pp/{name}": 10**12 for name in NAMES}

    found = standings(configured(caps), lambda _: costs, NOON)
    held = {one.name: one for one in holds_of(found, {})}

    wanted: dict[str, float | None] = {}
    for cap, standing in zip(caps, found, strict=True):
        total = sum(nanos for name, nanos in spent.items() if covers(cap.models, name))
        assert standing.used_up == (total >= cap.usd * 10**9)
        for name in NAMES if standing.used_up else ():
            if covers(cap.models, name):
                before = wanted.get(f"p/{name}", 0.0)
                ends = standing.resets
                wanted[f"p/{name}"] = (
                    None if None in (before, ends) else max(before or 0, ends or 0)
                )
    assert {name: one.until for name, one in held.items()} == wanted


BATCHES = st.lists(
    st.tuples(
        st.sampled_from(["one", "two"]),
        st.integers(0, 3),
        st.dictionaries(st.sampled_from(["p/m", "p/n"]), st.integers(0, 9)),
        st.booleans(),
    ),
    max_size=30,
)
"""Writer, slot and costs of each, and whether the store then imports everything so far."""


@given(BATCHES, st.integers(1, 4))
def test_what_is_imported_and_what_is_not_yet_counts_once(
    batches: list[tuple[str, int, dict[str, int], bool]], most: int
) -> None:
    period, book = Period(0, 2 * SLOT_S), SpentBook(lambda: 0.0)
    wanted, stored = Counter[str](), Counter[str]()
    last: dict[str, int] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spent_book, "MOST_BATCHES", most)
        for number, (writer, slot, costs, imports) in enumerate(batches):
            book.add(writer, number, slot * SLOT_S, costs)
            last[writer] = number
            wanted.update(costs if slot < 2 else {})
            if imports:
                stored = Counter(wanted)
                book.learn(StoredCosts(sums={period: stored}, batches=last, whole_at=0.0))

            assert Counter(book.spent(period)) == wanted


def test_what_a_process_took_with_it_is_forgotten_once_everything_else_is_imported() -> None:
    book, period = SpentBook(lambda: 0.0), Period(0, SLOT_S)
    book.add("dead", 7, 0.0, {"p/m": 5})
    now = time.monotonic()

    book.learn(StoredCosts(sums={}, batches={}, whole_at=now + LOST_S - 1))
    assert book.spent(period) == {"p/m": 5}
    book.learn(StoredCosts(sums={}, batches={}, whole_at=now + LOST_S + 1))
    assert book.spent(period) == {}


def capping(cap: str, model: str) -> str:
    address = "http://127.0.0.1:9/v1"
    return (
        f"providers: [{{name: p, adapter: openai, base_url: '{address}', spend_caps: [{cap}]}}]\n"
        f"models: [{{name: chat, backends: [{{provider: p, model: {model}}}]}}]\n"
        "prices: [{match: p/known, input: 1, output: 1}]\n"
    )


def test_caps_that_cannot_work_are_reported() -> None:
    (fault,) = faults(capping("{usd: 1, time_zone: Mars/Base}", "known"))
    assert fault.startswith('providers[0].spend_caps[0].time_zone: "Mars/Base" is not a time zone')
    assert warnings(capping("{usd: 1, models: [x]}", "known")) == [
        "providers[0].spend_caps[0].models: no model has a backend that the cap is of"
    ]
    passed_on = capping("{usd: 1, models: [x, y*]}", "'*'").replace("name: chat", "name: any-*")
    assert [one for one in warnings(passed_on) if "no model has" in one] == []
    unpriced = warnings(capping("{usd: 1}", "unknown"))
    assert 'providers[0].spend_caps[0]: does not count "p/unknown", which has no price; ' in str(
        unpriced
    )
    assert warnings(capping("{usd: 1}", "known")) == []
