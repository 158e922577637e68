"""The schema of config.yaml and its defaults."""

import msgspec
from msgspec.structs import replace

from strowger_gateway.gateway.config.schema.config import (
    Auth,
    BreakerRule,
    Config,
    Engine,
    Logging,
    Model,
    Provider,
    RetryRule,
    ServerConfig,
    Telemetry,
    Timeouts,
    Tls,
)
from strowger_gateway.gateway.config.schema.payloads import Payloads
from strowger_gateway.gateway.config.schema.store import StoreConfig
from tests.gateway.config.configs import GOOD, read, with_model

MIB = 1024 * 1024


def test_the_smallest_configuration_has_every_documented_default() -> None:
    config = read(GOOD)

    assert config.server == ServerConfig(
        host="127.0.0.1",
        port=8080,
        workers=1,
        max_body_bytes=64 * MIB,
        max_buffered_bytes=512 * MIB,
        max_in_flight=4096,
        max_choices=256,
        max_share_per_key=0.5,
        allowed_hosts=(),
        commit_after_s="auto",
        sse_keepalive_s=15,
        drain_delay_s=5,
        drain_timeout_s=30,
        expose_headers=True,
    )
    assert config.server.cors.allow_origins == ()
    assert config.store.url.reveal() == "sqlite:///strowger.db"
    assert config.store == StoreConfig(spool="strowger-spool")
    assert config.auth == Auth(mode="none", allow_open=False, keys=())
    assert config.auth.admin_key.reveal() == ""
    assert (config.experiments, config.limits, config.prices) == ((), (), ())
    assert config.logging == Logging(level="info", format="auto", payloads=Payloads(mode="off"))
    assert config.telemetry == Telemetry(otlp=None)


def test_a_provider_has_every_documented_default() -> None:
    provider = read(GOOD).providers[0]

    assert provider.timeouts == Timeouts(
        connect_s=5,
        first_byte_s=None,
        silence_s=None,
        first_token_s=None,
        between_tokens_s=None,
        total_s=None,
    )
    assert provider.tls == Tls(verify=True, ca_file=None, client_cert=None, client_key=None)
    assert provider.max_connections is None
    assert provider.connections_of(workers=4) == 512
    assert (provider.tokenizer, provider.proxy, provider.engine) == (None, None, None)
    assert provider.headers == {}


def test_workers_divide_the_connections_that_a_gateway_may_open() -> None:
    provider = replace(read(GOOD).providers[0], max_connections=9)

    assert [provider.connections_of(workers) for workers in (1, 2, 4, 20)] == [9, 5, 3, 1]


def test_an_engine_has_every_documented_default() -> None:
    engine = read(GOOD).providers[1].engine

    assert engine == Engine(
        models=engine.models if engine else (),
        device="auto",
        dtype="auto",
        threads="auto",
        max_seq_len=None,
        max_new_tokens="auto",
        max_step_tokens="auto",
        max_sequences=256,
        kv_cache="auto",
        prefix_cache=True,
        compile="auto",
        graphs=True,
        loras=(),
        accept_lora=False,
        max_loras=64,
        max_lora_bytes=256 * MIB,
        max_logits_bytes=256 * MIB,
        reload="refuse",
    )


def test_a_model_has_every_documented_default() -> None:
    model = read(GOOD).models[0]

    assert model == Model(
        name="chat",
        backends=model.backends,
        aliases=(),
        policy="weighted",
        sticky_by="user",
        deadline_s=None,
        retry=RetryRule(
            attempts=3,
            on=("connect", "timeout", "rate_limit", "server_error", "broken_stream"),
            backoff_s=0.2,
            max_backoff_s=5,
        ),
        fallback=(),
        breaker=BreakerRule(
            failure_rate=0.5, min_requests=12, window_s=30, cooldown_s=5, max_cooldown_s=None
        ),
        hedge_after_s=None,
        mirror=None,
        on_unsupported="error",
        when=(),
    )
    assert model.backends[0].weight is None


def test_a_provider_without_a_base_url_gets_its_adapters() -> None:
    openai, here = read(GOOD).providers

    assert openai.base_url == "https://api.openai.test/v1"
    assert here.base_url is None


def test_a_configuration_cannot_be_changed_in_place() -> None:
    for struct in (Config, ServerConfig, Provider, Model, Engine):
        assert struct.__struct_config__.frozen
        assert struct.__struct_config__.forbid_unknown_fields


def test_sizes_may_be_written_in_units() -> None:
    text = GOOD + "server: {max_body_bytes: 512KiB, max_buffered_bytes: 1.5 GiB}\n"

    server = read(text).server

    assert server.max_body_bytes == 512 * 1024
    assert server.max_buffered_bytes == 1536 * MIB


def test_operator_values_become_sampling() -> None:
    fields = "temperature: 1, stop: [a, b], logit_bias: {50256: -100}, max_tokens: null"
    text = with_model(f"defaults: {{{fields}}}")

    defaults = read(text).models[2].defaults

    assert msgspec.to_builtins(defaults.sampling) == {
        "temperature": 1.0,
        "stop": ("a", "b"),
        "logit_bias": {50256: -100.0},
        "max_tokens": None,
    }


def test_operator_values_may_name_request_fields_other_than_sampling() -> None:
    fields = "user: bot, priority: 2, timeout_s: 30, reasoning_effort: low"
    text = with_model(f"overrides: {{{fields}}}")

    overrides = read(text).models[2].overrides

    assert (overrides.user, overrides.priority, overrides.timeout_s) == ("bot", 2, 30.0)
    assert overrides.reasoning_effort == "low"
