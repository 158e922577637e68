"""The shape of config.yaml; the fields and defaults are those that docs/configuration.md lists.

`None` always means "not set". Sizes are bytes, times are seconds. Everything is frozen: a reload
builds a new `Config`.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from strowger_gateway.gateway.config.schema.audit import Audit
from strowger_gateway.gateway.config.schema.auth import Auth, CallerPlan, Team
from strowger_gateway.gateway.config.schema.budgets import Budget, SpendCap
from strowger_gateway.gateway.config.schema.cache import CacheConfig, ModelCache, PromptCache
from strowger_gateway.gateway.config.schema.capabilities import Capability, PublishedFacts
from strowger_gateway.gateway.config.schema.connection import (
    Aws,
    Azure,
    ClientFields,
    Fetch,
    Google,
    HealthCheck,
    OAuth,
    ProviderKey,
    Timeouts,
    Tls,
)
from strowger_gateway.gateway.config.schema.discovery import DiscoverReplicas
from strowger_gateway.gateway.config.schema.engines import Engines
from strowger_gateway.gateway.config.schema.experiment import Experiment
from strowger_gateway.gateway.config.schema.failover import (
    BreakerRule,
    Continues,
    ErrorFallbackConfig,
    OnSlow,
    RetryRule,
    StreamRecovery,
)
from strowger_gateway.gateway.config.schema.guardrails import GuardrailConfig
from strowger_gateway.gateway.config.schema.limits import EndUsers, Limit
from strowger_gateway.gateway.config.schema.listener_tls import CorsConfig, ListenerTls
from strowger_gateway.gateway.config.schema.metric import MetricContract
from strowger_gateway.gateway.config.schema.payloads import Payloads
from strowger_gateway.gateway.config.schema.pool import InferencePool
from strowger_gateway.gateway.config.schema.prices import CatalogueRow, Price
from strowger_gateway.gateway.config.schema.prompts.section import Prompt
from strowger_gateway.gateway.config.schema.responses import ResponsesConfig
from strowger_gateway.gateway.config.schema.store import StoreConfig
from strowger_gateway.gateway.config.schema.telemetry import Telemetry
from strowger_gateway.gateway.config.schema.units import (
    MIB,
    BackendName,
    Count,
    ModelPath,
    Name,
    Path,
    Port,
    Revision,
    Seconds,
    SecondsOrZero,
    Share,
    Size,
    Weight,
)
from strowger_gateway.gateway.config.schema.webhooks import Webhook
from strowger_gateway.gateway.config.sections import NO_SECTIONS, Sections, SectionT
from strowger_gateway.gateway.config.source_file.written import NOT_WRITTEN, Written
from strowger_gateway.schemas.sampling import Sampling
from strowger_gateway.schemas.secret import Secret

Policy = Literal[
    "in_order",
    "weighted",
    "least_busy",
    "lowest_latency",
    "lowest_cost",
    "sticky",
    "prefix_affinity",
]
Device = Literal["auto", "npu", "cuda", "cpu"]
StickyBy = Annotated[
    str,
    Meta(
        pattern=r"^(user|session|api_key|header:[A-Za-z0-9-]+)$",
        description="user, session, api_key or header:NAME",
    ),
]
ProviderName = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}(@\S{1,300})?$",
        description="up to 128 letters, digits and . - _, starting with a letter or digit",
    ),
]


class ServerConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the gateway listens, and its load limits.

    tls:                `None` serves cleartext.
    reload:             auto: when the file changes, or on SIGHUP; signal: only on SIGHUP.
    max_body_bytes:     per request: no less than vendors accept (Anthropic 32 MB, OpenAI files of
                        50 MB in base64). max_buffered_bytes: of all bodies in memory together.
    client_timeout_s:   for a complete head, and for progress of a body or a response.
    max_connections:    of clients, in each process; auto: twice max_in_flight. Both at most half
                        of the open files that the system allows.
    max_connections_per_address: of one address, trusted proxies aside; `None`: no limit.
    max_in_flight:      requests of the whole gateway. max_choices: prompts x n of one request.
    max_share_per_key:  of max_in_flight and max_buffered_bytes, if there are several keys.
    commit_after_s:     send 200 and comments after this long without content. auto: by the API.
    sse_keepalive_s:    send a comment on a started stream after this long without data.
    drain_delay_s:      serve this long after SIGTERM; drain_timeout_s: then wait for streams.
    trusted_proxies:    networks whose x-forwarded-for and forwarded the access log trusts.
    docs:               serve /docs and /openapi.json.
    allowed_hosts:      names in Host besides loopback's; `mode: none` rejects all others.
    expose_headers:     send x-gateway-* headers.
    default_model:      the model of routes whose requests name none, such as /infer_token.
    fetch:              download of images by URL, for providers that need the bytes.
    """

    host: Name = "127.0.0.1"
    port: Port = 8080
    tls: ListenerTls | None = None
    workers: Count = 1
    reload: Literal["auto", "signal"] = "auto"
    max_body_bytes: Size = 64 * MIB
    max_buffered_bytes: Size = 512 * MIB
    client_timeout_s: Seconds = 60.0
    max_connections: Count | Literal["auto"] = "auto"
    max_connections_per_address: Count | None = None
    max_in_flight: Count = 4096
    max_choices: Count = 256
    max_share_per_key: Share = 0.5
    commit_after_s: Seconds | Literal["auto"] | None = "auto"
    sse_keepalive_s: Seconds = 15.0
    drain_delay_s: SecondsOrZero = 5.0
    drain_timeout_s: SecondsOrZero = 30.0
    cors: CorsConfig = CorsConfig()
    trusted_proxies: tuple[Name, ...] = ()
    docs: bool = True
    allowed_hosts: tuple[Name, ...] = ()
    expose_headers: bool = True
    default_model: Name | None = None
    fetch: Fetch = Fetch()


class EngineModel(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model that the local engine loads.

    revision:   of a model at the Hugging Face hub: a branch, a tag or a commit.
    special_tokens_in_prompts: whether raw prompts may spell special tokens.
    matryoshka: its embeddings may be shortened although its files don't say so; for task embed.
    token_inputs: whether embedding inputs may be token ids, which must be the model's own.
    tool_calls:  whether calls that the model chooses to make are held to their schemas; `None`:
                 those of a bundled model.
    """

    name: Name
    path: ModelPath
    revision: Revision = ""
    special_tokens_in_prompts: Literal["parse", "text"] = "parse"
    task: Literal["generate", "embed"] = "generate"
    matryoshka: bool = False
    token_inputs: Literal["accept", "refuse"] = "refuse"
    tool_calls: Literal["free", "schema"] | None = None


class Lora(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A low-rank adapter, which the local engine serves as a model of its own name.

    base: the model that it adapts; `None`: the only model with task generate.
    """

    name: Name
    path: Path
    base: Name | None = None


class Engine(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The local inference engine of one provider, in one process on one device.

    max_new_tokens:   the ceiling and the default for max_tokens; auto: up to the context's end.
    max_step_tokens:  token budget per step; auto: cpu 512, cuda and npu 8192.
    kv_cache:         bytes; auto: 0.9 of the free memory on npu and cuda, on cpu 2 GiB or a
                      quarter of the available memory, whichever is less.
    compile:          build kernels for this CPU; auto: if a C++ compiler is found.
    accept_lora:      requests may bring adapters; max_loras and max_lora_bytes limit the cache.
    draft_tokens:     maximum tokens drafted by prompt lookup; 0: none.
    max_logits_bytes: context and generation logits of one response.
    max_first_token_wait_s: a wait that offsets one priority level; head start of a running one.
    step_timeout_s:   a longer step means that the engine hangs; it is restarted.
    """

    models: tuple[EngineModel, ...]
    device: Device = "auto"
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = "auto"
    threads: Count | Literal["auto"] = "auto"
    max_seq_len: Count | None = None
    max_new_tokens: Count | Literal["auto"] = "auto"
    max_step_tokens: Count | Literal["auto"] = "auto"
    max_sequences: Count = 256
    kv_cache: Size | Literal["auto"] = "auto"
    prefix_cache: bool = True
    compile: Literal["auto", "on", "off"] = "auto"
    graphs: bool = True
    draft_tokens: Annotated[int, Meta(ge=0)] = 8
    loras: tuple[Lora, ...] = ()
    accept_lora: bool = False
    max_loras: Count = 64
    max_lora_bytes: Size = 256 * MIB
    max_logits_bytes: Size = 256 * MIB
    max_first_token_wait_s: Seconds = 2.5
    step_timeout_s: Seconds = 600.0
    environment: tuple[Name, ...] = ()
    reload: Literal["refuse", "replace"] = "refuse"


CONNECTIONS = 512
"""Connections to a provider that each process may open if `max_connections` says nothing."""


class Provider(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An account or a connection.

    base_url:  scheme, authority and path prefix; optional if the adapter has a default.
    api_keys:  several keys of one account or of several, instead of an api_key.
    oauth:     instead of an api_key. headers: sent with every request; all of them secrets.
    aws:       keys that sign, instead of an api_key; its region is valid with both.
    google:    tokens of a Google account instead of an api_key; azure: tokens of Entra ID.
    health_check: how its backends are checked without clients' requests; `None`: not at all.
    spend_caps: of its backends; once one is used up, other backends serve.
    max_connections: of the whole gateway; `None`: CONNECTIONS for each process.
    max_answer_bytes: of a whole answer; one with vectors may have 128 KiB more for each input.
    tokenizer: a tokenizer.json; proxy: a URL, which may contain a password.
    client_fields: what clients may pass through to it; num_ctx: Ollama's context, by model.
    continues: how it continues a broken stream; `None`: as its adapter knows.
    pool:      headers for the endpoint picker in front of its model servers; `None`: no picker.
    engine:    for adapter local; engines: elsewhere; replica_of: the provider that has them.
    """

    name: ProviderName
    adapter: Name
    base_url: str | None = None
    api_key: Secret = Secret("")
    api_keys: Annotated[
        tuple[Annotated[ProviderKey, Meta(extra={"shorthand": True})], ...], Meta(max_length=256)
    ] = ()
    oauth: OAuth | None = None
    aws: Aws | None = None
    google: Google | None = None
    azure: Azure | None = None
    headers: Mapping[str, Secret] = {}
    timeouts: Timeouts = Timeouts()
    health_check: HealthCheck | None = None
    spend_caps: Annotated[tuple[SpendCap, ...], Meta(max_length=20)] = ()
    max_connections: Count | None = None
    max_answer_bytes: Size = 32 * MIB
    tokenizer: Path | None = None
    tls: Tls = Tls()
    proxy: Secret | None = None
    num_ctx: Mapping[str, Count] = {}
    continues: Continues | None = None
    client_fields: ClientFields = ClientFields()
    pool: InferencePool | None = None
    engine: Engine | None = None
    engines: Engines | None = None
    replica_of: Annotated[str, Meta(extra={"resolved": True})] = ""

    @property
    def first_key(self) -> Secret:
        """Its key, or the first of several; empty without one."""
        return self.api_keys[0].key if self.api_keys else self.api_key

    @property
    def pooled_keys(self) -> tuple[ProviderKey, ...]:
        """Those of `api_keys`, each with a name."""
        return tuple(
            replace(one, name=one.name or f"key-{place}")
            for place, one in enumerate(self.api_keys, 1)
        )

    def connections_of(self, workers: int) -> int:
        """Return how many connections each of the gateway's processes may open, at least 1."""
        most = self.max_connections
        return CONNECTIONS if most is None else -(-most // workers)


class BackendRef(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A provider and its own name for a model; "*" passes the requested name on.

    weight: `None` on all backends of a model shares its traffic evenly.
    discover: the addresses of its replicas; `None`: the provider's `base_url` is the only one.
    """

    provider: Name
    model: Name
    weight: Weight | None = None
    discover: DiscoverReplicas | None = None


class MirrorConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Send a copy of `share` of the requests to `backend` after the client was served."""

    backend: BackendName
    share: Share


class WhenRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Route requests that match all conditions to these backends only.

    header, metadata: values by name; key: the name of the client's. Each may end in `*`.
    tokens_over: of the prompt, estimated. features: fields in use, or kinds of content.
    """

    header: Mapping[str, str] = {}
    key: Name | None = None
    metadata: Mapping[str, str] = {}
    tokens_over: Count | None = None
    features: tuple[Name, ...] = ()
    backends: tuple[BackendName, ...]


class RequestFields(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Request fields that the operator sets; in config.yaml they are all on one level."""

    sampling: Annotated[Sampling, Meta(extra={"flatten": True})] = Sampling()
    reasoning_effort: str | UnsetType = UNSET
    parallel_tool_calls: bool | UnsetType = UNSET
    user: str | UnsetType = UNSET
    priority: Annotated[int, Meta(ge=1, le=5)] | UnsetType = UNSET
    timeout_s: Annotated[float, Meta(gt=0, le=3600)] | UnsetType = UNSET


class Model(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model that clients can request.

    name:       may end in "*", a wildcard.
    deadline_s: for all attempts and fallbacks together; `None`: WHOLE_S, or STREAM_S for a stream.
    stream_recovery: a stream that breaks off is continued by another backend, or ends in an error.
    on_slow:    a backend that has become slow comes after the others, or keeps its place.
    cache:      `None`: answers are kept for requests that ask for it, if `cache` is set.
    require:    only backends that honour every field, including those that a dialect may ignore.
    on_repair:  `reject`: a request is refused rather than sent without one of its constraints.
    defaults:   for fields that the request does not set; overrides replace the request's.
    """

    name: Name
    backends: tuple[BackendRef, ...]
    aliases: tuple[Name, ...] = ()
    policy: Policy = "weighted"
    sticky_by: StickyBy = "user"
    deadline_s: Seconds | None = None
    retry: RetryRule = RetryRule()
    fallback: tuple[Name, ...] = ()
    fallback_by_error: tuple[ErrorFallbackConfig, ...] = ()
    require: bool = False
    breaker: BreakerRule = BreakerRule()
    hedge_after_s: Seconds | None = None
    stream_recovery: StreamRecovery = "error"
    on_slow: OnSlow = "deprioritise"
    mirror: MirrorConfig | None = None
    defaults: RequestFields = RequestFields()
    overrides: RequestFields = RequestFields()
    on_unsupported: Literal["error", "drop"] = "error"
    on_repair: Literal["send", "reject"] = "send"
    prompt_cache: PromptCache = "auto"
    when: tuple[WhenRule, ...] = ()
    cache: ModelCache | None = None


class Logging(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """format auto: coloured on a terminal, JSON otherwise. client_address: in access lines."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "console", "json"] = "auto"
    payloads: Payloads = Payloads()
    client_address: bool = True


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole gateway.

    cache: of answers; `None` turns it on only for models with one of their own.
    price_catalogue: backends without a row in `prices` have the price that their vendor publishes.
    prices_from: where prices come from that are not in `prices`. catalogue: its rows.
    published: the rows of the table of models for the backends.
    hidden: what was read as a secret and is also in a setting that is not one.
    digest: a hash of the file without secrets; see `gateway/config/digest.py`.
    sections: those of parts, which are listed in `gateway/assembly/parts.py`.
    written: the file itself.
    """

    providers: tuple[Provider, ...]
    models: tuple[Model, ...]
    server: ServerConfig = ServerConfig()
    store: StoreConfig = StoreConfig()
    responses: ResponsesConfig = ResponsesConfig()
    auth: Auth = Auth()
    audit: Audit = Audit()
    teams: tuple[Team, ...] = ()
    plans: tuple[CallerPlan, ...] = ()
    experiments: tuple[Experiment, ...] = ()
    metrics: tuple[MetricContract, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    end_users: EndUsers = EndUsers()
    limits: tuple[Limit, ...] = ()
    budgets: tuple[Budget, ...] = ()
    webhooks: tuple[Webhook, ...] = ()
    guardrails: tuple[GuardrailConfig, ...] = ()
    cache: CacheConfig | None = None
    prices: tuple[Price, ...] = ()
    price_catalogue: bool = True
    capabilities: tuple[Capability, ...] = ()
    logging: Logging = Logging()
    telemetry: Telemetry = Telemetry()
    prices_from: Annotated[Literal["rows", "catalogue"], Meta(extra={"resolved": True})] = "rows"
    catalogue: Annotated[tuple[CatalogueRow, ...], Meta(extra={"resolved": True})] = ()
    published: Annotated[tuple[PublishedFacts, ...], Meta(extra={"resolved": True})] = ()
    hidden: Annotated[tuple[Secret, ...], Meta(extra={"resolved": True})] = ()
    digest: Annotated[str, Meta(extra={"resolved": True})] = ""
    sections: Annotated[Sections, Meta(extra={"resolved": True})] = NO_SECTIONS
    written: Annotated[Written, Meta(extra={"resolved": True})] = NOT_WRITTEN

    def section(self, cls: type[SectionT]) -> SectionT | None:
        """Return a part's section by its type; `None` if the file does not have it."""
        return self.sections.of(cls)
