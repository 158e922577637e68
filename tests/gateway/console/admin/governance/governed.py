"""A gateway with keys, three months of usage, budgets and limits, for tests of the page's parts."""

import random
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
from msgspec import Struct

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.audit.event import Actor
from strowger_gateway.gateway.experiments.experiment_service import ExperimentService
from strowger_gateway.gateway.experiments.process_side import ExperimentsSide
from strowger_gateway.gateway.governance.issued_keys.authority import KeyAuthority, KeyFields
from strowger_gateway.gateway.governance.issued_keys.desk import KeyDesk, log_event
from strowger_gateway.gateway.governance.issued_keys.process_side import KeysSide
from strowger_gateway.gateway.governance.limits.metrics import LimitUseCollector
from strowger_gateway.gateway.governance.limits.process_side import LimitsSide
from strowger_gateway.gateway.observability.recording.process_side import AuditSide
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.rows import AttemptRow, RequestRow, Row
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.gateway.storage.store_access import StoreAccess
from strowger_gateway.schemas.secret import Secret
from tests.gateway.console.admin.page.trial import DroppingRecorder
from tests.gateway.serving import Serving, serving

KEY = "key-of-the-operator"
ANN = Actor(kind="session", name="ann", label="ann")
DAY_S = 86_400.0
CONFIG = """
auth:
  mode: keys
  admin_key: key-of-the-operator
  keys: [{name: of-the-file, key: key-of-the-file, team: search, tags: [prod]}]
teams: [{name: search}, {name: support}, {name: research}]
providers: [{name: p, adapter: openai, base_url: "http://127.0.0.1:9/v1", api_key: k}]
models:
  - name: chat
    retry: {attempts: 1}
    breaker: {min_requests: 1000}
    backends: [{provider: p, model: large}]
  - name: small
    retry: {attempts: 1}
    breaker: {min_requests: 1000}
    backends: [{provider: p, model: small}]
prices: [{match: p/large, input: 2, output: 8}, {match: p/small, input: 0.2, output: 0.8}]
budgets:
  - {name: search-day, who: {team: search}, usd: 4, per: day}
  - {name: everyone, who: {any: true}, usd: 200, per: month}
  - {name: per-key, who: {any: true}, each: key, tokens: 50_000_000, per: week}
limits:
  - {name: everyone, who: {any: true}, requests: 1000, tokens: 2_000_000, concurrent: 50}
  - {name: per-key, who: {any: true}, each: key, requests: 60}
"""
PAYERS = (
    ("crawler", "search", "", ("prod", "cc-4711")),
    ("ranker", "search", "", ("prod", "cc-4711")),
    ("helpdesk", "support", "", ("prod", "cc-0815")),
    ("notebook-ann", "research", "ann@example.org", ("dev",)),
    ("notebook-bob", "research", "bob@example.org", ("dev",)),
    ("ci", "", "", ()),
)


class Governed(Struct, frozen=True, kw_only=True, eq=False):
    """client: of the operator, with its key."""

    up: Serving
    store: SqlStore
    client: httpx.AsyncClient

    def keys(self) -> KeyAuthority:
        config = self.up.state.runtime.config
        return KeyAuthority(self.store.issued_keys, lambda: config, log_event)

    def issue(self, name: str, **fields: object) -> str:
        """Issue a key; return its secret."""
        made = self.keys().create(name, KeyFields(**fields), ANN)  # pyright: ignore[reportArgumentType]
        self.apply()
        return made.secret

    def apply(self) -> None:
        self.up.state.runtime.access.issued.push(self.store.issued_keys.current())


@asynccontextmanager
async def governed(folder: Path, config: str = CONFIG) -> AsyncGenerator[Governed]:
    """Serve with a store, whose keys apply at once."""
    store = open_store(Secret(f"sqlite:///{folder / 'strowger.db'}"))
    store.prepare()

    def equip(gateway: Gateway) -> None:
        def changed() -> None:
            gateway.runtime.access.issued.push(store.issued_keys.current())

        registry = gateway.log.metrics.registry
        registry.register(LimitUseCollector(gateway.side(LimitsSide).limits.accounts))
        gateway.side(AuditSide).rows = store.audit
        gateway.side(KeysSide).desk = KeyDesk(
            store.issued_keys, lambda: gateway.runtime.config, changed
        )
        gateway.store = StoreAccess(store)
        gateway.side(ExperimentsSide).service = ExperimentService(
            gateway.store,
            DroppingRecorder(),
            gateway.runtime.routing.experiments,
            lambda: gateway.runtime.config.experiments,
        )

    try:
        async with serving(config, folder, equip=equip) as up:
            headers = {"authorization": f"Bearer {KEY}"}
            async with httpx.AsyncClient(base_url=up.url, headers=headers, timeout=60) as client:
                yield Governed(up=up, store=store, client=client)
            desk = up.state.side(KeysSide).desk
            assert desk is not None
            desk.close()
    finally:
        store.close()


def use(store: SqlStore, *, days: int = 90, now: float | None = None, seed: int = 5) -> None:
    """Add usage of the last days: more in the week, and one team more expensive than the others."""
    draw, rows = random.Random(seed), list[Row]()
    now = time.time() if now is None else now
    for day in range(days):
        at = now - day * DAY_S - 600
        weekend = time.gmtime(at).tm_wday >= 5
        for place, (key, team, user, tags) in enumerate(PAYERS):
            for number in range(2 if weekend else 6 - place % 3):
                model = "chat" if draw.random() < 0.6 else "small"
                name, tokens = f"{day}-{key}-{number}", draw.randrange(10_000, 200_000)
                nanos = tokens * (4_000 if model == "chat" else 400)
                rows.append(
                    RequestRow(
                        surface="openai",
                        request_id=name,
                        time=at,
                        status=200,
                        ms=900.0,
                        key=key,
                        model=model,
                        route=model,
                        backend=f"p/{'large' if model == 'chat' else 'small'}",
                        team=team,
                        user=user,
                        tags=tags,
                    )
                )
                rows.append(
                    AttemptRow(
                        request_id=name,
                        number=1,
                        time=at,
                        backend=f"p/{'large' if model == 'chat' else 'small'}",
                        role="served" if draw.random() < 0.97 else "failed",
                        outcome="ok",
                        ms=900.0,
                        usage_source="reported",
                        prompt_tokens=tokens,
                        completion_tokens=tokens // 8,
                        cost_usd=nanos / 1e9,
                    )
                )
    store.import_rows("past", 0, len(rows), rows)
