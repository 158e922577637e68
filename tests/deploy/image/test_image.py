"""The images answer from themselves alone: read-only, as a plain user, without a network.

`make nightly-image` builds both from the Dockerfile; it needs root, Debian's mirrors and PyPI.
"""

import json
import os
import signal
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.deploy.image.building import (
    READY_S,
    USER,
    Builder,
    Container,
    Image,
    builder,
    children_of,
    missing,
)

pytestmark = [pytest.mark.nightly, pytest.mark.skipif(bool(missing()), reason=missing())]

LARGEST = 120_000_000
"""Bytes of the gateway's image, compressed."""
KEY = "the-key-of-the-test"
OWN = """
server: {host: 0.0.0.0, drain_delay_s: 0}
auth: {mode: keys, keys: [{name: client, key: "${STROWGER_API_KEY}"}]}
providers: [{name: one, adapter: openai, base_url: "http://127.0.0.1:9/v1", api_key: k}]
models: [{name: chat, backends: [{provider: one, model: m}]}]
store: {url: "sqlite:////var/lib/strowger/strowger.db"}
"""
ASK = f"""
import json, urllib.request
body = json.dumps({{"model": "chat", "messages": [{{"role": "user", "content": "Hello!"}}]}})
headers = {{"authorization": "Bearer {KEY}", "content-type": "application/json"}}
url = "http://127.0.0.1:8080/v1/chat/completions"
print(urllib.request.urlopen(urllib.request.Request(url, body.encode(), headers)).read().decode())
"""
ORPHAN = """
import os
if os.fork() == 0:
    if os.fork() == 0:
        os.setsid()
    os._exit(0)
"""
WRITE = """
for path in ("/opt/strowger/x", "/etc/strowger/x", "/tmp/x", "/usr/x"):
    try:
        open(path, "w")
    except OSError as exc:
        print(exc.errno)
"""
PYTHON = "/opt/strowger/bin/python"


@pytest.fixture(scope="module")
def images() -> Generator[Builder, None, None]:
    with builder() as made:
        yield made


@pytest.fixture(scope="module")
def gateway(images: Builder) -> Image:
    return images.build("gateway")


@pytest.fixture(scope="module")
def engine(images: Builder) -> Image:
    return images.build("engine")


def state_of(image: Image) -> Path:
    return image.builder.folder / f"state-{image.target}"


def test_the_gateways_image_is_small(gateway: Image) -> None:
    layers = gateway.layers()

    print(f"gateway: {sum(layers) / 1e6:.1f} MB compressed, by layer: {layers}")
    assert sum(layers) <= LARGEST
    assert not list(gateway.root.glob("opt/strowger/lib/python3*/site-packages/torch"))
    assert not list(gateway.root.glob("opt/strowger/lib/python3*/site-packages/pip"))


def test_the_gateways_image_serves_a_file_of_ones_own(gateway: Image) -> None:
    state = state_of(gateway)
    state.mkdir()
    (state / "own.yaml").write_text(OWN)
    (state / "own.yaml").chmod(0o644)
    own = {"STROWGER_CONFIG": "/var/lib/strowger/own.yaml", "STROWGER_API_KEY": KEY}

    with gateway.running(state, **own) as container:
        ready = container.healthy()
        status = Path(f"/proc/{container.first()}/status").read_text()

        assert ready.startswith("http://127.0.0.1:8080: ready (")
        assert f"Uid:\t{USER}\t{USER}\t{USER}\t{USER}\n" in status
        assert "CapEff:\t0000000000000000\n" in status
        assert "NoNewPrivs:\t1\n" in status
        assert container.inside(PYTHON, "-c", WRITE).stdout.split() == ["30"] * 4
        _reaps_orphans(container.first(), container.inside(PYTHON, "-c", ORPHAN).returncode)
        _ends_on_sigterm(container)


def test_the_engines_image_answers_with_tiny_chat(engine: Image) -> None:
    print(f"engine: {sum(engine.layers()) / 1e6:.1f} MB compressed")

    with engine.running(state_of(engine), STROWGER_API_KEY=KEY) as container:
        ready = container.healthy()
        asked = container.inside(PYTHON, "-c", ASK)

        assert ready.startswith("http://127.0.0.1:8080: ready (engine here: ready, ")
        assert asked.returncode == 0, asked.stderr
        answer = json.loads(asked.stdout)
        assert answer["model"] == "tiny-chat"
        assert answer["choices"][0]["message"]["content"]
        _ends_on_sigterm(container)


def test_the_engines_image_names_the_variable_that_it_needs(engine: Image) -> None:
    with engine.running(engine.builder.folder / "state-without") as container:
        assert container.process.wait(READY_S) == 1

        assert "STROWGER_API_KEY" in container.log.read_text()


def _reaps_orphans(first: int, status: int) -> None:
    """Process 1 is left with only the gateway, although a command left an orphan behind."""
    assert status == 0
    deadline = time.monotonic() + READY_S
    while len(children_of(first)) > 1:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _ends_on_sigterm(container: Container) -> None:
    """Drained, and with the status of the gateway."""
    os.kill(container.first(), signal.SIGTERM)
    assert container.process.wait(READY_S) == 0, container.log.read_text()
    assert "stopped" in container.log.read_text()
