"""Translates `model_list`: deployments to providers, backends, prices and capabilities."""

from collections.abc import Mapping
from typing import NamedTuple

from strowger_gateway.adapters.registry import Registry
from strowger_gateway.gateway.cli.litellm_import.acceptance import accepts
from strowger_gateway.gateway.cli.litellm_import.addresses import Addresses
from strowger_gateway.gateway.cli.litellm_import.credentials import DeploymentCredentials, region_of
from strowger_gateway.gateway.cli.litellm_import.headers import Headers
from strowger_gateway.gateway.cli.litellm_import.ledger import Path, mapping, number
from strowger_gateway.gateway.cli.litellm_import.timeouts import DeploymentTimeouts
from strowger_gateway.gateway.cli.litellm_import.values import REFERENCE, Values, per_million
from strowger_gateway.gateway.cli.litellm_import.vendors import (
    FACTS,
    OTHER_TASKS,
    PRICES,
    AdapterChoice,
    bedrock_region,
    unserved,
    vendor_of,
)
from strowger_gateway.gateway.cli.litellm_import.yaml_output import COMMENT
from strowger_gateway.gateway.config.checks.models import valid_name
from strowger_gateway.gateway.config.yaml_document import Tree

BAD_NAME = (
    "names of models have letters, digits and . - _ / : @ + only, and none of . - _ at the ends",
    "rename it, also where fallbacks name it, and import again",
)
"""Reason and remedy of a name that `strowger check` would reject."""

_OTHERWISE = (
    ("thinking", "reasoning has levels", "set models[].defaults.reasoning_effort"),
    (
        "max_parallel_requests",
        "no limit of one deployment's requests",
        "set providers[].max_connections",
    ),
    ("ssl_verify", "each provider has its own TLS", "set providers[].tls.ca_file or verify"),
)


class Deployment(NamedTuple):
    """One entry of `model_list` with an adapter. path: of the entry."""

    path: Path
    model_name: str
    provider: str
    model: str
    params: Mapping[str, Tree]
    embeds: bool
    """Its mode is `embedding`, so that no model for chats can answer in its place."""


class Deployments:
    """The translated entries of `model_list`."""

    def __init__(self, values: Values, timeouts: DeploymentTimeouts, credentials: Tree) -> None:
        """credentials: `credential_list`."""
        self.values = values
        self.ledger = values.ledger
        self.timeouts = timeouts
        self.addresses = Addresses(values)
        self.credentials = DeploymentCredentials(values)
        self._credentials_at: dict[str, tuple[Path, Mapping[str, Tree]]] = {}
        for place, one in enumerate(credentials if isinstance(credentials, list) else []):
            name, at = mapping(one).get("credential_name"), ("credential_list", place)
            self.ledger.omit((*at, "credential_info"), "informs LiteLLM only", "nothing")
            if isinstance(name, str):
                self._credentials_at[name] = (at, mapping(mapping(one).get("credential_values")))
        self.deployments: list[Deployment] = []
        self.providers: dict[str, dict[str, object]] = {}
        self.prices: dict[str, dict[str, object]] = {}
        self.capabilities: dict[str, dict[str, object]] = {}

    def add(self, path: Path, entry: Tree) -> None:
        """Translate one entry, or list it as a whole if no adapter can serve it."""
        params = mapping(mapping(entry).get("litellm_params"))
        name, model = mapping(entry).get("model_name"), params.get("model")
        if not (isinstance(name, str) and name and isinstance(model, str)):
            self.ledger.omit(path, "no model_name or no litellm_params.model", "complete the entry")
            return
        if not valid_name(name, wildcard=True):
            self.ledger.omit(path, *BAD_NAME)
            return
        task = unserved(model, mapping(mapping(entry).get("model_info")).get("mode"))
        if task:
            self.ledger.omit(
                path, f"the gateway does not serve {task}", "call the provider directly"
            )
            return
        if model.startswith(REFERENCE):
            self.ledger.omit(
                path, "the model is named in the environment", "write its name and import again"
            )
            return
        params = self._with_credential((*path, "litellm_params"), params)
        named = params.get("custom_llm_provider")
        found = vendor_of(model, named if isinstance(named, str) else "")
        if found is None:
            self.ledger.omit(
                path,
                "no adapter for this provider",
                "if it has an OpenAI-compatible API, add a provider with adapter: openai and its "
                "base_url; else see docs/add-a-provider.md",
            )
            return
        vendor, own = found
        if vendor.adapter == "bedrock":
            region, own = bedrock_region(own)
            params = {"aws_region_name": region, **params} if region else params
        if "*" in name + own and name != own:
            self.ledger.omit(
                path,
                "a wildcard that changes the model's name",
                "add the models by name, or call the wildcard as the provider names its models",
            )
            return
        pattern, own = own, "*" if "*" in own else own
        settings = self._provider(path, vendor, params, own)
        if settings is None:
            return
        provider = self._named(vendor.adapter, settings, path)
        self.ledger.translate((*path, "model_name"), "models[].name")
        for key in ("model", "custom_llm_provider"):
            self.ledger.translate((*path, "litellm_params", key), "models[].backends[].model")
        for key, reason, remedy in _OTHERWISE:
            self.ledger.omit((*path, "litellm_params", key), reason, remedy)
        mode = mapping(mapping(entry).get("model_info")).get("mode")
        self.deployments.append(
            Deployment(path, name, provider, own, params, embeds=mode in OTHER_TASKS)
        )
        self._facts(path, f"{provider}/{pattern}", mapping(entry))

    def _with_credential(self, at: Path, params: Mapping[str, Tree]) -> Mapping[str, Tree]:
        """Add the values of the credential that the entry names; its own fields win."""
        name = params.get("litellm_credential_name")
        if not isinstance(name, str) or name not in self._credentials_at:
            self.ledger.omit(
                (*at, "litellm_credential_name"),
                "the credential is not in the file",
                "write its values into litellm_params and import again",
            )
            return params
        place, values = self._credentials_at[name]
        for key in values.keys() - params.keys():
            self.ledger.move((*at, key), (*place, "credential_values", key))
        self.ledger.translate((*at, "litellm_credential_name"), "models[].backends[].provider")
        self.ledger.translate((*place, "credential_name"), "models[].backends[].provider")
        return {**values, **params}

    def _provider(
        self, path: Path, vendor: AdapterChoice, params: Mapping[str, Tree], model: str
    ) -> dict[str, object] | None:
        at = (*path, "litellm_params")
        settings: dict[str, object] = {"adapter": vendor.adapter}
        address = self.addresses.of(at, vendor, params)
        if address is None and (vendor.vertex or not Registry().base_url(vendor.adapter)):
            region = region_of(self.values.text(params.get("aws_region_name")))
            if not (vendor.adapter == "bedrock" and region):
                self.ledger.omit(
                    path,
                    f"adapter {vendor.adapter} needs an address, which is not in the file",
                    "set litellm_params.api_base (Vertex AI: vertex_project and vertex_location; "
                    "Bedrock: aws_region_name) and import again",
                )
                return None
        if address is not None:
            if not accepts({"adapter": vendor.adapter, "base_url": address}, "base_url"):
                self.ledger.refuse(
                    path,
                    "its address is not a URL that providers[].base_url accepts",
                    "correct it (http://HOST:PORT/PATH) and import again",
                )
                return None
            settings["base_url"] = address
        self.credentials.add(at, vendor, params, settings)
        headers = Headers(self.values, at, vendor, settings).of(params)
        if headers:
            settings["headers"] = headers
        timeouts = self.timeouts.of(at, params)
        if timeouts:
            settings["timeouts"] = timeouts
        return settings

    def _named(self, adapter: str, settings: dict[str, object], path: Path) -> str:
        """Return the name of the provider with these settings; equal ones are one provider."""
        for name, known in self.providers.items():
            if {key: one for key, one in known.items() if key != COMMENT} == settings:
                return name
        name, count = adapter, 1
        while name in self.providers:
            count += 1
            name = f"{adapter}-{count}"
        self.providers[name] = {COMMENT: f"from {path[0]}[{path[1]}]", **settings}
        return name

    def _facts(self, path: Path, match: str, entry: Mapping[str, Tree]) -> None:
        prices: dict[str, tuple[object, Path]] = {}
        facts: dict[str, tuple[object, Path]] = {}
        for section in ("litellm_params", "model_info"):
            for key, value in mapping(entry.get(section)).items():
                at = (*path, section, key)
                cost = number(value) if key in PRICES else None
                fact = _fact(FACTS[key], value) if key in FACTS else None
                if cost is not None and PRICES[key] in prices:
                    self.ledger.omit(at, "litellm_params wins", "nothing: it had no effect")
                elif cost is not None:
                    prices[PRICES[key]] = (per_million(cost), at)
                elif section == "model_info" and fact is not None:
                    facts[FACTS[key]] = (fact, at)
                elif section == "model_info":
                    self._information(at, key)
        self._fit(match, facts)
        head = {COMMENT: f"from {path[0]}[{path[1]}]", "match": match}
        self._row(self.prices, "prices[]", head, {"input": 0, "output": 0}, prices)
        self._row(self.capabilities, "capabilities[]", {"match": match}, {}, facts)

    def _fit(self, match: str, facts: dict[str, tuple[object, Path]]) -> None:
        """List an answer that is longer than the context, which LiteLLM has for prompts alone."""
        known = self.capabilities.get(match, {})
        found = {key: value for key, (value, _) in facts.items()} | known
        context, longest = found.get("context"), found.get("max_output")
        key = "context" if "max_output" in known else "max_output"
        if not (isinstance(context, int) and isinstance(longest, int) and longest > context):
            return
        if key in facts:
            self.ledger.omit(
                facts.pop(key)[1],
                "prompt and answer share capabilities[].context, so max_output is at most as long",
                "set context to what they have together, and max_output",
            )

    def _row(
        self,
        rows: dict[str, dict[str, object]],
        to: str,
        head: Mapping[str, object],
        others: Mapping[str, object],
        found: Mapping[str, tuple[object, Path]],
    ) -> None:
        """Add what an entry says of its backend, or list where an entry before it differs.

        others: values of keys that no entry has.
        """
        if not found:
            return
        values = {key: value for key, (value, _) in found.items()}
        row = rows.setdefault(str(head["match"]), {**head, **others, **values})
        for key, (value, at) in found.items():
            if row.setdefault(key, value) == value:
                self.ledger.translate(at, f"{to}.{key}")
            else:
                self.ledger.omit(
                    at,
                    "an entry before it has the same backend and another value",
                    f"correct {to}.{key} if this one is right",
                )

    def _information(self, at: Path, key: str) -> None:
        if key in ("id", "mode", "description"):
            self.ledger.omit(at, "informs LiteLLM only", "nothing: Strowger works without it")
        elif key == "base_model":
            self.ledger.omit(
                at,
                "prices and limits are those of the name that the provider has for the model",
                "add prices and capabilities for the backend if that name is one of your own",
            )
        elif key == "max_tokens":
            self.ledger.omit(
                at,
                "an old name of either the context or the longest answer",
                "set capabilities[].context or max_output",
            )


def _fact(to: str, value: Tree) -> object:
    """Return the value for `capabilities[]`, `None` for one that it does not accept."""
    if to in ("context", "max_output"):
        most = number(value)
        return int(most) if most and most == int(most) else None
    return value if isinstance(value, bool) else None
