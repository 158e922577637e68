"""The modules that each process loads, and those it does not load until they are needed."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from strowger_gateway.gateway.backends.upstream.tls import TlsContexts
from strowger_gateway.gateway.config.schema.connection import Tls

ROOT = Path(__file__).parents[4]

UNUSED = {
    "attr": "Litestar brings a plug-in for it, which no route of ours uses",
    "cryptography": "server.tls and identity providers call for it",
    "strowger_gateway.gateway.content.guardrails.stage": "guardrails call for it",
    "strowger_gateway.gateway.content.hooks.guarded_request": "guardrails call for it",
    "strowger_gateway.gateway.surfaces.openapi.document": "the first reader of it calls for it",
    "strowger_gateway.gateway.surfaces.anthropic.translation": "its first request calls for it",
    "strowger_gateway.gateway.surfaces.databricks.translation": "its first request calls for it",
    "strowger_gateway.gateway.surfaces.kserve.translation": "its first request calls for it",
    "strowger_gateway.gateway.surfaces.mindie.translation": "its first request calls for it",
    "strowger_gateway.gateway.surfaces.responses.translation": "its first request calls for it",
    "httpx": "proxies, token endpoints and images to fetch call for it: 6 MB",
    "joserfc": "identity providers call for it",
    "psycopg": "store.url may call for it",
    "pydantic": "Litestar brings a plug-in for it, which no route of ours uses: 9 MB",
    "re2": "guardrails call for it",
    "redis": "store.redis_url calls for it",
    "rich": "tables of other commands than serve: 3 MB",
    "uvicorn": "the server is ours; others may mount the application under it",
    "websockets": "of a protocol that we do not support",
    "zoneinfo": "budgets and reports of usage call for it",
}
"""Modules, and why a gateway with providers that need only keys does not load them."""

LED = {
    "litestar": "the leader serves no requests",
}
"""What besides these the process that leads several workers does not load."""

IMPORTS_WITHOUT = {
    "strowger_gateway.adapters": "the importing process calls no provider",
    "asyncio": "it has threads and pipes: 4 MB",
    "hashlib": "OpenSSL: 3.5 MB",
    "prometheus_client": "the leader shows its figures: 6 MB",
}
"""What besides these the process that imports records does not load."""

KEYED = """
providers:
  - {name: one, adapter: openai, base_url: "https://one.example/v1", api_key: k}
models:
  - {name: chat, backends: [{provider: one, model: a}]}
"""
PROXIED = KEYED.replace("api_key: k", 'api_key: k, proxy: "http://proxy.example:3128"')

SERVES = """
import json, pathlib, sys
from strowger_gateway.gateway.cli.serve import serve
from strowger_gateway.gateway.config.load import load_config
import strowger_gateway.gateway.cli
import strowger_gateway.gateway.cli.main
import strowger_gateway.gateway.fleet.processes.main
import strowger_gateway.gateway.fleet.processes.single_process
import strowger_gateway.gateway.fleet.processes.worker
from strowger_gateway.gateway.http.app import build_app
from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.observability.telemetry.access_log import AccessLog
path = pathlib.Path(sys.argv[1])
runtime = Runtime(load_config(path, {}), run_dir=path.parent)
build_app(Gateway(runtime, AccessLog(sys.stderr.buffer, "json")))
print(json.dumps(sorted(sys.modules)))
"""
LEADS = """
import json, sys
import strowger_gateway.gateway.cli.serve
import strowger_gateway.gateway.cli
import strowger_gateway.gateway.cli.main
import strowger_gateway.gateway.fleet.processes.leader
import strowger_gateway.gateway.fleet.processes.main
print(json.dumps(sorted(sys.modules)))
"""
IMPORTS = """
import json, sys
import strowger_gateway.gateway.observability.recording.import_program
print(json.dumps(sorted(sys.modules)))
"""


def loaded(folder: Path, program: str, config: str = KEYED) -> set[str]:
    """The modules of a process that has done what the program says."""
    path = folder / "config.yaml"
    path.write_text(config)
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], check=True, capture_output=True, cwd=ROOT
    )
    return set(json.loads(done.stdout))


def test_a_gateway_loads_nothing_that_its_configuration_has_no_use_for(tmp_path: Path) -> None:
    found = loaded(tmp_path, SERVES)

    assert {name: why for name, why in UNUSED.items() if name in found} == {}


def test_a_proxy_calls_for_the_general_client(tmp_path: Path) -> None:
    assert "httpx" in loaded(tmp_path, SERVES, PROXIED)


def test_the_leader_loads_nothing_that_answers_requests(tmp_path: Path) -> None:
    found = loaded(tmp_path, LEADS)

    assert {name: why for name, why in {**UNUSED, **LED}.items() if name in found} == {}


def test_the_importing_process_loads_only_what_moves_rows_to_the_store(tmp_path: Path) -> None:
    found = loaded(tmp_path, IMPORTS)

    unused = {**UNUSED, **LED, **IMPORTS_WITHOUT}
    assert {name: why for name, why in unused.items() if name in found} == {}


def test_providers_with_the_same_settings_share_what_their_certificates_are_checked_with() -> None:
    contexts = TlsContexts()
    first = contexts.http1(None, upstream="one")

    assert contexts.http1(Tls(), upstream="two") is first
    assert contexts.http1(Tls(verify=False), upstream="three") is not first
    assert TlsContexts().http1(None, upstream="four") is not first


@pytest.mark.parametrize("name", UNUSED)
def test_what_must_not_be_loaded_is_there_to_be_loaded(name: str) -> None:
    """Otherwise these tests would hold whatever a gateway did."""
    assert find_spec(name) is not None


def test_a_gateway_that_takes_over_loads_what_clients_of_the_old_one_use() -> None:
    """Their first request would take 30 to 60 ms longer. Some surfaces have no such part."""
    program = (
        "import sys; from strowger_gateway.gateway.surfaces.late_module import "
        "import_translations as load; "
        "load(('anthropic', 'openai', 'admin', 'a.b')); "
        "print([one for one in sys.modules if one.endswith('.translation')])"
    )
    command = [sys.executable, "-c", program]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    assert found.stdout == "['strowger_gateway.gateway.surfaces.anthropic.translation']\n"
