"""A `discover` section that cannot work is rejected, with the place and the remedy."""

import pytest

from tests.gateway.config.configs import faults, read

CONFIG = """
providers:
  - {{name: pool, adapter: vllm, base_url: "http://pool.test:8000/v1"{more}}}
  - {{name: here, adapter: local, engine: {{models: [{{name: tiny, path: "bundled:tiny"}}]}}}}
models:
  - name: chat
    backends: [{{provider: {provider}, model: {model}, discover: {discover}}}]
"""
PLACE = "models[0].backends[0].discover"


def faults_of(
    discover: str, *, more: str = "", provider: str = "pool", model: str = "qwen", end: str = ""
) -> list[str]:
    text = CONFIG.format(discover=discover, more=more, provider=provider, model=model)
    return faults(text + end)


@pytest.mark.parametrize(
    "discover",
    [
        "{dns: pool.test, port: 8000}",
        "{dns: _http._tcp.pool.test}",
        "{dns: pool.test, port: 8000, server: '10.0.0.53:8600', every_s: 2, keep_s: 60}",
        "{file: targets.json, slow_start_s: 0}",
    ],
)
def test_these_are_accepted(discover: str) -> None:
    text = CONFIG.format(discover=discover, more="", provider="pool", model="qwen")

    assert read(text).models[0].backends[0].discover is not None


@pytest.mark.parametrize(
    ("discover", "fault"),
    [
        ("{}", f"{PLACE}: needs either dns or file"),
        ("{dns: pool.test, port: 1, file: a.json}", f"{PLACE}: needs either dns or file"),
        (
            "{dns: pool.test}",
            f"{PLACE}.port: is needed from 1 to 65535: A and AAAA records have none",
        ),
        (
            "{dns: _http._tcp.pool.test, port: 80}",
            f"{PLACE}.port: is in the SRV records of the name; remove it",
        ),
        ("{file: a.json, port: 80}", f"{PLACE}.port: has no effect with file; remove it"),
        (
            "{dns: pool.test, port: 80, server: resolver.test}",
            f'{PLACE}.server: "resolver.test" is not an address; '
            "write it as 10.0.0.53 or 10.0.0.53:8600",
        ),
    ],
)
def test_these_are_rejected(discover: str, fault: str) -> None:
    assert faults_of(discover) == [fault]


def test_replicas_have_one_model_name_and_plain_credentials() -> None:
    one = faults_of("{file: a.json}", model='"*"')
    other = faults_of("{file: a.json}", more=", proxy: 'http://proxy.test:3128'")
    local = faults_of("{file: a.json}", provider="here", model="tiny")

    assert f"{PLACE}: needs a model name in place of *" in one
    assert other == [f'{PLACE}: does not work with providers[].proxy of "pool"']
    assert local == [f"{PLACE}: is for servers over HTTP, not for adapter local"]


def test_a_mirror_is_a_single_backend() -> None:
    end = "    mirror: {backend: pool/qwen, share: 0.1}\n"

    found = faults_of("{file: a.json}", end=end)

    assert found == [
        'models[0].mirror.backend: "pool/qwen" has discover, and a single backend is needed'
    ]
