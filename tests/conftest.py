"""Fixtures that every test may use."""

import gc
import os
import re
import tempfile
from collections.abc import Generator
from functools import cache
from pathlib import Path

import pytest
import trustme
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from tests.examples import EXAMPLES
from tests.forked import reports
from tests.forked.cpu_time import CpuTime
from tests.gateway.shared_engine import SharedEngine, shared_engine
from tests.oracle.oracle import ORACLE
from tests.oracle.plugin import Plugin as OraclePlugin

os.environ["DO_NOT_TRACK"] = "true"  # mlflow, a client in some tests, reports its use unless told

for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
    os.environ.pop(name, None)  # the gateway warns of them

settings.register_profile(
    "steady",
    settings.get_profile(settings.get_current_profile_name()),
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.filter_too_much,
        HealthCheck.data_too_large,
    ],
)
settings.register_profile("drawn", settings.get_profile("steady"), derandomize=False)
settings.load_profile("steady")
"""The code decides, and neither how busy the machine is nor what is drawn today: a property has the
same examples each time. New ones are drawn at night.
"""

ROOT = Path(__file__).parent.parent
LONGEST = (
    "tests/gateway/cli/terminals/test_stopped_and_killed.py",
    "tests/gateway/backends/end_to_end/test_two_backends.py",
    "tests/gateway/fleet/processes/test_workers.py",
    "tests/gateway/backends/engines/process/test_local_engine.py",
    "tests/local_engine/execution/test_watchdog.py",
    "tests/gateway/backends/upstream/test_local.py",
    "tests/adapters/conformance/test_contract.py",
    "tests/local_engine/execution/test_equality.py",
    "tests/local_engine/sampling/test_sampler.py",
    "tests/local_engine/server/test_leaks.py",
    "tests/local_engine/execution/test_beams.py",
)
"""Files that begin first: at the end one of them would keep one worker while the others idle."""


SLOW = (
    "tests/adapters/anthropic/test_anthropic_invariants.py",
    "tests/adapters/conformance/test_contract.py",
    "tests/adapters/conformance/test_supports.py",
    "tests/gateway/statistics/test_simulations.py",
    "tests/gateway/observability/recording/test_exactly_once.py",
    "tests/gateway/routing/resilience/test_breaker.py",
    "tests/gateway/routing/planning/test_plan_cache.py",
    "tests/gateway/routing/planning/test_policies.py",
    "tests/gateway/routing/failures/test_engine_faults.py",
    "tests/gateway/backends/end_to_end/test_every_backend.py",
    "tests/gateway/backends/end_to_end/test_every_backend_fails.py",
    "tests/gateway/routing/failures/test_every_task.py",
    "tests/gateway/routing/failures/test_fault_suite.py",
    "tests/gateway/http/test_fuzz.py",
    "tests/gateway/http/test_garbage.py",
    "tests/gateway/server/test_large_bodies.py",
    "tests/gateway/routing/failures/test_last_resort.py",
    "tests/gateway/fleet/processes/test_soak.py",
    "tests/gateway/routing/failures/test_timeouts.py",
    "tests/gateway/server/http1/test_wire_limits.py",
    "tests/gateway/fleet/processes/test_footprint.py",
    "tests/oracle/fuzz/test_vendors_take_it.py",
    "tests/stand_ins/test_mindie_server.py",
)
"""Files that `--fast` leaves out because they compute or wait for long."""

STARTS_MUCH = re.compile(
    r"^ *(?:import|from) (?:torch|transformers|subprocess|playwright|databricks|anthropic|google"
    r"|botocore|boto3|mlflow|cohere|mistralai|ollama|huggingface_hub|tritonclient|azure"
    r"|tests\.local_engine|tests\.gateway\.cli\.terminals|tests\.(?:\w+\.)*(?:postgres|redis_server|redis_relay|bedrock_client"
    r"|aws_signing|google_cloud|browser|by_hand|commanded|staging))\b"
    r"|importorskip|EngineProcess|engine: SharedEngine|mlflow_client",
    re.MULTILINE,
)
"""Files that `--fast` leaves out because they load torch or a vendor's client, or start an engine,
a browser, a database or the gateway as a process."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="the tests of `make test-fast` alone")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(OraclePlugin(config))
    if config.getoption("fast"):
        ORACLE.schemas = False  # vendors' clients, which take seconds to import
    elif config.getoption("markexpr") != "not nightly":
        settings.load_profile("drawn")
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(reports)
    else:
        config.pluginmanager.register(CpuTime())
        _replace_authorities(config)


def _replace_authorities(config: pytest.Config) -> None:
    """Replace the public authorities, which no test needs, by one: every client reads them all.

    A context of the system's 140 takes 50 ms to make, and a gateway with its client makes three.
    Workers inherit the environment.
    """
    folder = tempfile.TemporaryDirectory(prefix="strowger-authorities-")
    file = Path(folder.name) / "public.pem"
    trustme.CA().cert_pem.write_to_path(file)
    patch = pytest.MonkeyPatch()
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "AWS_CA_BUNDLE"):
        patch.setenv(name, str(file))
    config.add_cleanup(folder.cleanup)
    config.add_cleanup(patch.undo)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if not config.getoption("fast"):
        return None
    place = collection_path.relative_to(ROOT).as_posix()
    if place == "tests/local_engine" or place in SLOW:  # its conftest.py loads torch
        return True
    python = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    return bool(python and STARTS_MUCH.search(collection_path.read_text())) or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort whole files: those of LONGEST first, in that order, then all others as collected.

    Within a file, the tests of one transport follow each other: what they share starts once.
    """
    places = {file: place for place, file in enumerate(LONGEST)}
    for item in items:
        places.setdefault(_file_of(item), len(places))
    items.sort(key=lambda item: (places[_file_of(item)], _transport_of(item)))


def _file_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def _transport_of(item: pytest.Item) -> str:
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return ""
    return str(item.callspec.params.get("faults", ""))


class WholeFiles(LoadFileScheduling):
    """One worker runs a whole file, and one all files that share an engine, which starts once."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "those that share an engine" if _shares_an_engine(file) else file


@cache
def _shares_an_engine(file: str) -> bool:
    """By itself, or through the gateway of tests/gateway/conftest.py."""
    text = (ROOT / file).read_text()
    return "engine: SharedEngine" in text or ("CONFIG" in text and "{here}" in text)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> WholeFiles | None:
    """Keep files whole, also with `-n 2` alone: tests of a file share what takes long to start."""
    return WholeFiles(config, log) if config.getoption("dist") in {"load", "loadfile"} else None


def pytest_collection_finish(session: pytest.Session) -> None:
    """Make each test cheaper.

    What was imported and collected, two million objects, is excluded from garbage collection; the
    thresholds are those of a gateway worker.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, object]]:
    """On uvloop, as in production: its transports and timings differ from asyncio's."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Generator[SharedEngine]:
    """An engine shared by files that neither stop it, nor count its work, nor need own settings.

    Its cache may contain prompts of another file.
    """
    pytest.importorskip("torch")
    with shared_engine(tmp_path_factory.mktemp("engine")) as running:
        yield running
