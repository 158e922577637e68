"""The share of ordinary chats that the gateway answers without a task, by client.

python -m benchmarks.clients [--url URL --key KEY --model MODEL]

40 chats, every second one streamed, from each of openai-python, openai-node, the AI SDK and curl,
and what the gateway's counters have gained after each. Without --url a gateway is started, in front
of benchmarks.gateway.mock. The clients from npm are installed into `.clients` at the first run.
"""

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

from rich.console import Console
from rich.table import Table

from benchmarks.clients.senders import CHATS, SENDERS, Account
from benchmarks.gateway.contenders import ALL_CORES, Mocks, Place, Recipe, running, stream_mock
from benchmarks.gateway.requests import KEY

REQUESTS = "strowger_requests_total"
WITHOUT_TASK = "strowger_requests_without_task_total"
_WAIT_S = 10.0
_CONFIG = """
server: {{port: {port}}}
auth: {{mode: keys, metrics: client, keys: [{{name: bench, key: {key}, models: [chat]}}]}}
providers:
  - {{name: mock, adapter: openai, base_url: "http://127.0.0.1:{provider}/v1", api_key: k}}
models:
  - {{name: chat, backends: [{{provider: mock, model: mock-1}}]}}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="of a running gateway, for example http://127.0.0.1:8000")
    parser.add_argument("--key", default=KEY)
    parser.add_argument("--model", default="chat")
    options = parser.parse_args()
    if options.url:
        _report(Account(url=options.url.rstrip("/"), key=options.key, model=options.model))
    else:
        with _own_gateway() as account:
            _report(account)


@contextmanager
def _own_gateway() -> Generator[Account]:
    with tempfile.TemporaryDirectory() as name, stream_mock() as port:
        mocks = Mocks(whole=port, stream=port)
        recipe = Recipe(name="Strowger", command=_served)
        with running(recipe, Path(name) / "files", mocks, cores=ALL_CORES) as gateway:
            yield Account(url=f"http://127.0.0.1:{gateway.port}", key=KEY, model="chat")


def _served(place: Place) -> list[str]:
    config = place.folder / "strowger.yaml"
    config.write_text(_CONFIG.format(port=place.port, key=KEY, provider=place.mocks.whole))
    return [sys.executable, "-m", "strowger_gateway.gateway.cli", "serve", "--config", str(config)]


def _report(account: Account) -> None:
    """Raises RuntimeError if the gateway counts another number of requests than the client sent."""
    if WITHOUT_TASK not in _metrics(account):
        raise SystemExit(f"this gateway does not count {WITHOUT_TASK}")
    table = Table("client", "requests", "without a task", "share")
    for name, send in SENDERS.items():
        before = _counted(account)
        send(account)
        end = time.monotonic() + _WAIT_S
        while (after := _counted(account))[0] < before[0] + CHATS and time.monotonic() < end:
            time.sleep(0.1)
        requests, without = (now - then for now, then in zip(after, before, strict=True))
        if requests != CHATS:
            raise RuntimeError(f"{name} sent {CHATS} requests, the gateway counted {requests:g}")
        table.add_row(name, f"{requests:g}", f"{without:g}", f"{without / requests:.0%}")
    Console().print(table)


def _counted(account: Account) -> tuple[float, float]:
    """All requests, and those without a task."""
    text = _metrics(account)
    return counter(text, REQUESTS), counter(text, WITHOUT_TASK)


def counter(metrics: str, name: str) -> float:
    """The sum over all labels; 0 if there is no such counter."""
    found = re.findall(rf"^{name}(?:{{.*}})? (\S+)$", metrics, re.MULTILINE)
    return sum(float(value) for value in found)


def _metrics(account: Account) -> str:
    """With auth.mode `keys`, auth.metrics must be `client` or `open`."""
    asked = Request(f"{account.url}/metrics", headers={"authorization": f"Bearer {account.key}"})
    with urlopen(asked, timeout=_WAIT_S) as answer:
        return answer.read().decode()


if __name__ == "__main__":
    main()
