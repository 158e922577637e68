"""What caps hold: exactly the backends whose sum reaches one, until the last of them resets."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from strowger_gateway.gateway.config.model_patterns import covers
from strowger_gateway.gateway.config.schema.budgets import SpendCap
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.governance.budgets.calendar import Period
from strowger_gateway.gateway.governance.spend_caps.spent_book import SpentBook
from strowger_gateway.gateway.governance.spend_caps.standing import holds_of, standings
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


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 9)), max_size=20), st.integers(0, 99))
def test_what_is_not_imported_yet_counts_once(costs: list[tuple[int, int]], imported: int) -> None:
    book = SpentBook(lambda: float(imported))
    for at, nanos in costs:
        book.add(float(at), {"p/m": nanos})

    found = book.spent(Period(10, 90))

    wanted = sum(nanos for at, nanos in costs if at > imported and 10 <= at < 90)
    assert found.get("p/m", 0) == wanted


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
    unpriced = warnings(capping("{usd: 1}", "unknown"))
    assert 'providers[0].spend_caps[0]: does not count "p/unknown", which has no price; ' in str(
        unpriced
    )
    assert warnings(capping("{usd: 1}", "known")) == []
