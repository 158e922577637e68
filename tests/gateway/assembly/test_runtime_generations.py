"""The state that one configuration generation passes on to the next."""

from pathlib import Path

from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.assembly.wiring.engine_processes import engine_processes
from strowger_gateway.gateway.backends.engines.process.process import engine_settings
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.routing.resilience.retry import RetryBudget
from tests.gateway.config.configs import read

AT = 1000.0


def config(key: str = "k", after_s: float = 0.5) -> Config:
    return read(f"""
providers: [{{name: a, adapter: openai, base_url: "http://127.0.0.1:9/v1", api_key: {key}}}]
models:
  - {{name: chat, hedge_after_s: {after_s}, backends: [{{provider: a, model: m}}]}}
""")


def spend(budget: RetryBudget) -> None:
    while budget.take(AT):
        pass


def budgets(runtime: Runtime) -> tuple[RetryBudget, RetryBudget]:
    """The budgets of retries and of hedges."""
    hedging = runtime.table.routes["chat"].hedging
    assert hedging is not None
    return runtime.backends["chat: a/m"].budget, hedging.budget


def test_what_is_spent_of_a_budget_stays_spent_over_a_reload(tmp_path: Path) -> None:
    first = Runtime(config(), run_dir=tmp_path)
    for budget in budgets(first):
        spend(budget)

    second = Runtime(config(after_s=0.7), run_dir=tmp_path, before=first)
    other_account = Runtime(config(key="other"), run_dir=tmp_path, before=second)

    hedging = second.table.routes["chat"].hedging
    assert hedging is not None
    assert hedging.after_s == 0.7
    assert [one.take(AT) for one in budgets(second)] == [False, False]
    assert [one.take(AT) for one in budgets(other_account)] == [True, False]


def local(timeouts: str) -> Config:
    return read(f"""
providers:
  - {{name: here, adapter: local, timeouts: {timeouts},
     engine: {{models: [{{name: m, path: "bundled:tiny-chat"}}]}}}}
models: [{{name: chat, backends: [{{provider: here, model: m}}]}}]
""")


def test_an_engines_timeouts_change_without_its_process(tmp_path: Path) -> None:
    engines = engine_processes(local("{}"), tmp_path)
    first = Runtime(local("{}"), run_dir=tmp_path, engines=engines)

    same = Runtime(local("{}"), run_dir=tmp_path, engines=engines, before=first)
    other = Runtime(local("{total_s: 5}"), run_dir=tmp_path, engines=engines, before=same)

    assert same.links["here"] is first.links["here"]
    assert other.links["here"] is not same.links["here"]
    assert other.links["here"].timeouts.total_s == 5
    assert engine_settings(local("{total_s: 5}").providers[0]) == engines["here"].settings
