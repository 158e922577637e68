"""Translates keys, the database, budgets, limits and callbacks."""

import re
from collections.abc import Mapping

from strowger_gateway.gateway.cli.litellm_import.ledger import Path, mapping, number
from strowger_gateway.gateway.cli.litellm_import.response_cache import ResponseCache, redis_url
from strowger_gateway.gateway.cli.litellm_import.values import Values
from strowger_gateway.gateway.cli.litellm_import.vendors import PERIODS
from strowger_gateway.gateway.config.schema.config import ServerConfig
from strowger_gateway.gateway.config.yaml_document import Tree

_CALLBACKS = ("callbacks", "success_callback", "failure_callback", "service_callback")
_DEFAULTS = {
    "default_key_generate_params": "key",
    "default_team_params": "team",
    "default_internal_user_params": "user",
}
_MOST_USD = 1_000_000_000
"""The largest `budgets[].usd`."""
_HEADER_NAME = re.compile(r"[A-Za-z0-9-]{1,128}")
_PORT = 4000
"""LiteLLM's port, so that clients keep their base URL."""


class GeneralSettings:
    """The translated settings of the gateway as a whole."""

    def __init__(
        self, values: Values, document: Mapping[str, Tree], *, issued: bool = False
    ) -> None:
        """issued: the keys, teams and users of the database have their own limits and budgets."""
        self.values = values
        self._issued = issued
        self.ledger = values.ledger
        self.server: dict[str, object] = {"host": "127.0.0.1", "port": _PORT}
        self.store: dict[str, object] = {}
        self.auth: dict[str, object] = {}
        self.end_users: dict[str, object] = {}
        self.budgets: list[dict[str, object]] = []
        self.limits: list[dict[str, object]] = []
        self._general(mapping(document.get("general_settings")))
        self._litellm(mapping(document.get("litellm_settings")))
        url = redis_url(values, mapping(document.get("router_settings")), ("router_settings",))
        self.cache = ResponseCache(values, document, url)
        found = url or self.cache.redis_url
        if found is not None:
            self.store["redis_url"] = found
        self.ledger.omit(
            ("guardrails",),
            "guardrails have other settings",
            "write guardrails (docs/guardrails.md)",
        )
        self.ledger.omit(
            ("environment_variables",),
            "Strowger sets no environment variables",
            "set them where the gateway starts",
        )

    def _general(self, settings: Mapping[str, Tree]) -> None:
        section = "general_settings"
        master = self.values.secret(
            settings.get("master_key"),
            (section, "master_key"),
            "auth.admin_key",
            "LITELLM_MASTER_KEY",
        )
        if master is not None:
            self.auth = {"mode": "keys", "admin_key": master}
            self.server["host"] = "0.0.0.0"  # as LiteLLM listens; `mode: keys` permits it
        url = self.values.secret(
            settings.get("database_url"), (section, "database_url"), "store.url", "DATABASE_URL"
        )
        if url is not None:
            self.store["url"] = url
        self._sizes(section, settings)
        self._end_users(section, self.values.text(settings.get("user_header_name")))
        for key, reason, remedy in (
            ("alerting", "other alerts", "use docs/operations.md's alerts and budgets[].alerts"),
            (
                "custom_auth",
                "no Python code in configurations",
                "use auth.jwt (docs/identities.md)",
            ),
            (
                "enable_jwt_auth",
                "tokens have other settings",
                "write auth.jwt (docs/identities.md)",
            ),
            (
                "litellm_jwtauth",
                "tokens have other settings",
                "write auth.jwt (docs/identities.md)",
            ),
            (
                "pass_through_endpoints",
                "the gateway serves the APIs of docs/matrix.md only",
                "call the service directly",
            ),
            ("store_model_in_db", "models are in config.yaml only", "add them to config.yaml"),
            (
                "background_health_checks",
                "checks are per provider",
                "write providers[].health_check (docs/routing.md)",
            ),
            (
                "health_check_interval",
                "checks are per provider",
                "write providers[].health_check.every_s (docs/routing.md)",
            ),
        ):
            self.ledger.omit((section, key), reason, remedy)

    def _sizes(self, section: str, settings: Mapping[str, Tree]) -> None:
        size = int((number(settings.get("max_request_size_mb")) or 0) * 1024 * 1024)
        if size > ServerConfig().max_buffered_bytes:
            self.ledger.omit(
                (section, "max_request_size_mb"),
                "more than server.max_buffered_bytes, the limit for all bodies together",
                "set server.max_body_bytes and max_buffered_bytes",
            )
        elif size:
            self.server["max_body_bytes"] = size
            self.ledger.translate((section, "max_request_size_mb"), "server.max_body_bytes")
        total = number(settings.get("global_max_parallel_requests"))
        if total and total >= 1:
            self.server["max_in_flight"] = int(total)
            self.ledger.translate((section, "global_max_parallel_requests"), "server.max_in_flight")
        each = number(settings.get("max_parallel_requests"))
        if each and each >= 1:
            self._limit("each-key-parallel", "key", {"concurrent": int(each)})
            self.ledger.translate((section, "max_parallel_requests"), "limits[].concurrent")

    def _end_users(self, section: str, header: str | None) -> None:
        if header and not _HEADER_NAME.fullmatch(header):
            self.ledger.omit(
                (section, "user_header_name"),
                "end_users.sources has names of letters, digits and -",
                "rename the header, also in clients, and import again",
            )
        elif header:
            self.end_users["sources"] = [f"header:{header}", "user", "safety_identifier"]
            self.ledger.translate((section, "user_header_name"), "end_users.sources")

    def _litellm(self, settings: Mapping[str, Tree]) -> None:
        section = "litellm_settings"
        self._spend((section,), settings, {"any": True}, "everything", None)
        for key, who in _DEFAULTS.items():
            found = mapping(settings.get(key))
            if self._issued:
                self.ledger.omit(
                    (section, key),
                    f"is for {who}s that are made later; those of the database have their own",
                    "give new keys --limit and --budget, and new teams limits and budgets",
                )
                continue
            self._spend((section, key), found, {"any": True}, f"each-{who}", who)
            self._rates((section, key), found, who)
        self._spend(
            (section,),
            settings,
            {"any": True},
            "each-internal-user",
            "user",
            ("max_internal_user_budget", "internal_user_budget_duration"),
        )
        people = ("max_end_user_budget", "")  # without a period
        self._spend((section,), settings, {"any": True}, "each-end-user", "end_user", people)
        for key in _CALLBACKS:
            listed = settings.get(key)
            for place, name in enumerate(listed if isinstance(listed, list) else [listed]):
                at = (section, key, place) if isinstance(listed, list) else (section, key)
                if name in ("prometheus", "prometheus_system"):
                    self.ledger.translate(at, "GET /metrics, which is always there")
                elif name is not None:
                    self.ledger.omit(
                        at,
                        "no such callback",
                        "export traces with telemetry.otlp (docs/tracing.md), or use /metrics, the "
                        "access log or the store (docs/operations.md)",
                    )
        for key, reason, remedy in (
            (
                "upperbound_key_generate_params",
                "the operator issues keys, with bounds of their own",
                "give --expires, --limit and --budget to strowger keys create",
            ),
            (
                "ssl_verify",
                "each provider has its own TLS",
                "set providers[].tls.ca_file or verify",
            ),
        ):
            self.ledger.omit((section, key), reason, remedy)
        for key in ("set_verbose", "json_logs", "turn_off_message_logging", "telemetry"):
            self.ledger.omit(
                (section, key),
                "logging has its own settings; prompts are never logged",
                "see logging in docs/configuration.md",
            )

    def _spend(
        self,
        path: Path,
        settings: Mapping[str, Tree],
        who: dict[str, object],
        name: str,
        each: str | None,
        keys: tuple[str, str] = ("max_budget", "budget_duration"),
    ) -> None:
        most, duration = number(settings.get(keys[0])), settings.get(keys[1])
        per = "total" if duration is None else PERIODS.get(str(duration))
        if not most:
            return
        if most > _MOST_USD:
            for key in keys:
                self.ledger.omit((*path, key), f"more than {_MOST_USD:,} dollars", "lower it")
            return
        if per is None:
            for key in keys:
                self.ledger.omit(
                    (*path, key),
                    "budgets have calendar periods: day, week, month or total",
                    "add an entry to budgets with one of them (docs/budgets.md)",
                )
            return
        budget: dict[str, object] = {"name": name, "who": who}
        if each is not None:
            budget["each"] = each
        # LiteLLM counts an unknown price as 0.
        self.budgets.append(budget | {"usd": most, "per": per, "unknown_price": {"count_usd": 0}})
        self.ledger.translate((*path, keys[0]), "budgets[].usd")
        if keys[1]:
            self.ledger.translate((*path, keys[1]), "budgets[].per")

    def _rates(self, path: Path, settings: Mapping[str, Tree], who: str) -> None:
        limit: dict[str, object] = {}
        for theirs, ours in (("rpm_limit", "requests"), ("tpm_limit", "tokens")):
            most = number(settings.get(theirs))
            if most and most >= 1:
                limit[ours] = int(most)
                self.ledger.translate((*path, theirs), f"limits[].{ours}")
        parallel = number(settings.get("max_parallel_requests"))
        if parallel and parallel >= 1:
            limit["concurrent"] = int(parallel)
            self.ledger.translate((*path, "max_parallel_requests"), "limits[].concurrent")
        if limit:
            self._limit(f"each-{who}", who, limit)
        self.ledger.omit(
            (*path, "models"),
            "keys and teams name their own models",
            "pass the models to strowger keys create, or set teams[].models",
        )

    def _limit(self, name: str, each: str, limit: dict[str, object]) -> None:
        self.limits.append({"name": name, "who": {"any": True}, "each": each, **limit})
