"""An experiment with all that changes a figure of its report, in a store.

A baseline and a ramp, three variants, busy units, an excluded unit and key, an adjustment, votes by
every kind of contract, also a wide range, and a decision.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from click.testing import CliRunner

from strowger_gateway.gateway.cli.main import strowger
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.request_observations import PROMPT_ATTRIBUTE
from strowger_gateway.gateway.storage.sql.rows import FeedbackRow, RequestRow, Row
from strowger_gateway.schemas.secret import Secret
from tests.gateway.experiments.recorded_gateway import config

ARMS = (
    "{name: control, backend: a/old, weight: 40}, {name: warm, backend: a/new, weight: 30}, "
    "{name: cold, backend: a/backup, weight: 30}"
)
NAMES = ("control", "warm", "cold")
SHARES = {1: (1.0, 0.0, 0.0), 2: (0.7, 0.15, 0.15), 3: (0.4, 0.3, 0.3), 4: (0.4, 0.3, 0.3)}
USERS = {1: 400, 2: 600, 3: 700, 4: 14}
ALPHA, PLANNED = 0.04, 2_000
MORE = f"""
    planned: {PLANNED}
    alpha: {ALPHA}
    adjust: [prompt_tokens, past]
    decide:
      better: cost_usd
      not_worse:
        - {{metric: thumbs_up, by: 0.2}}
        - {{metric: edits, by: 4}}
        - {{metric: latency_ms, by: 0.1}}
"""
CONTRACTS = """
prices: [{match: a/*, input: 1, output: 1}]
metrics:
  - {name: thumbs_up, type: boolean}
  - {name: resolved, type: boolean, level: unit, higher_is: worse}
  - {name: stars, type: number, range: [1, 5]}
  - {name: wide, type: number, range: [-1000, 100000]}
  - {name: edits, type: number, range: [0, 1000], cap: 20, higher_is: worse}
"""


def rows(*epochs: int) -> Iterator[Row]:
    chance = np.random.default_rng(5)
    for user in range(max(USERS.values())):
        base, taste = float(chance.lognormal(5, 1)), float(chance.beta(2, 3))
        for epoch, shares in SHARES.items():
            if user >= USERS[epoch] or epoch not in epochs:
                continue
            variant = NAMES[int(chance.choice(3, p=shares))]
            turns = 300 if user == 7 else min(1 + int(chance.pareto(1.5)), 60)
            for turn in range(turns):
                yield from turned(
                    chance, f"{epoch}-{user}-{turn}", user, epoch, variant, base, taste
                )


def turned(
    chance: np.random.Generator,
    request_id: str,
    user: int,
    epoch: int,
    variant: str,
    base: float,
    taste: float,
) -> Iterator[Row]:
    tokens = int(base * chance.lognormal(0, 0.5))
    failed = bool(chance.random() < 0.05)
    yield RequestRow(
        surface="openai",
        request_id=request_id,
        key="load-test" if user % 40 == 3 else "app",
        time=float(epoch),
        status=502 if failed else 200,
        ms=float((50 + tokens) * chance.lognormal(0.1 * (variant == "warm"), 0.4)),
        stream=user % 2 == 0,
        ttft_ms=float(chance.lognormal(3, 0.3)) if user % 2 == 0 else None,
        completion_tokens=int(chance.integers(1, 400)),
        cost_usd=(tokens + float(chance.exponential(100))) / 1e6,
        fallback=bool(chance.random() < 0.1),
        experiment="trial",
        epoch=epoch,
        variant=variant,
        unit=f"unit-{user}",
        attributes={PROMPT_ATTRIBUTE: tokens} if user % 5 or epoch != 2 else None,
    )
    if chance.random() < 0.4:
        for name, value, boolean in (
            ("thumbs_up", float(chance.random() < taste), True),
            ("resolved", float(chance.random() < taste), True),
            ("stars", float(chance.integers(1, 6)), False),
            ("wide", float(chance.normal(3, 1.7)), False),
            ("plain", float(chance.random() < taste), True),
        ):
            if chance.random() < 0.7:
                yield vote(request_id, name, value, boolean=boolean)
        edits = float(int(chance.pareto(1) * 5))
        yield vote(request_id, "edits", min(edits, 20.0), given=edits if edits > 20 else None)


def vote(
    request_id: str, metric: str, value: float, *, boolean: bool = False, given: float | None = None
) -> FeedbackRow:
    return FeedbackRow(
        request_id=request_id,
        time=9.0,
        key="app",
        metric=metric,
        value=value,
        given=given,
        boolean=boolean,
    )


def run(file: Path, *words: str) -> str:
    found = CliRunner().invoke(strowger, ["experiments", *words, "--config", str(file)])
    assert found.exit_code == 0, found.output
    return found.stdout


def stored(
    folder: Path,
    more: str = MORE,
    shares: Mapping[int, tuple[float, ...]] = SHARES,
) -> Path:
    """Fill a store in a folder; return the configuration. shares: as the store has them."""
    url = f"sqlite:///{folder / 'strowger.db'}"
    text = config("http://127.0.0.1:9/v1", ARMS, more, other=CONTRACTS)
    file = folder / "config.yaml"
    file.write_text(f"{text}\nstore: {{url: '{url}'}}\n")
    store = open_store(Secret(url))
    store.prepare()
    for epoch, weights in shares.items():
        of: dict[str, float] = dict(zip(NAMES, weights, strict=True))
        store.epoch("trial", str(epoch), of, float(epoch))
    found = list(rows(*shares))
    store.import_rows("file", 0, len(found), found)
    store.close()
    run(file, "exclude", "trial", "--unit", "unit-11", "--reason", "a bot")
    run(file, "exclude", "trial", "--key", "load-test")
    return file
