"""Translates `router_settings` and the groups of `model_list`: models with their fallbacks."""

from collections.abc import Mapping
from itertools import chain
from typing import cast

from strowger_gateway.gateway.cli.litellm_import.deployments import (
    BAD_NAME,
    Deployment,
    Deployments,
)
from strowger_gateway.gateway.cli.litellm_import.ledger import Ledger, Path, mapping, number
from strowger_gateway.gateway.cli.litellm_import.request_fields import FIELDS, request_fields
from strowger_gateway.gateway.cli.litellm_import.vendors import STRATEGIES
from strowger_gateway.gateway.cli.litellm_import.yaml_output import COMMENT
from strowger_gateway.gateway.config.checks.models import valid_name
from strowger_gateway.gateway.config.yaml_document import Tree

WEIGHTS = ("weight", "rpm", "tpm")
"""Fields of a deployment that decide its share of the traffic; the first one that is set counts."""
_RETRIES = ("num_retries", "max_retries")
"""Fields of a deployment: tries after the first, by LiteLLM or by the vendor's client in it."""
_ANY = "*"
"""The key of `fallbacks` for models without an entry."""
_DEADLINE = 600
"""`models[].deadline_s` if none is set."""
_BY_USAGE = "usage-based-routing"
_ERRORS = {
    "context_window_fallbacks": "context_length_exceeded",
    "content_policy_fallbacks": "content_filter",
}


class Models:
    """The translated models, by name."""

    def __init__(self, found: Deployments, sections: Mapping[str, Mapping[str, Tree]]) -> None:
        """sections: `router_settings` and `litellm_settings`; the first that has a key counts."""
        self.ledger: Ledger = found.ledger
        self.sections = sections
        self.models: dict[str, dict[str, object]] = {}
        self._next: dict[str, list[str]] = {}
        """`fallback` by model; only these must not form a circle."""
        self._of_alias: dict[str, str] = {}
        groups: dict[str, list[Deployment]] = {}
        for one in found.deployments:
            groups.setdefault(one.model_name, []).append(one)
        for name, group in groups.items():
            self.models[name] = self._model(name, group)
        self._embedding = {
            name for name, group in groups.items() if any(one.embeds for one in group)
        }
        self._policy()
        self._aliases()
        self._fallbacks()
        self._failures(groups)
        self._dropping()
        self._deadlines(found.providers)

    def names(self) -> list[str]:
        """Return the names that clients may use."""
        aliases = [cast("list[str]", model.get("aliases", [])) for model in self.models.values()]
        return [*self.models, *chain.from_iterable(aliases)]

    def _model(self, name: str, group: list[Deployment]) -> dict[str, object]:
        shares = self._shares(group)
        backends: list[dict[str, object]] = []
        for one, share in zip(group, shares, strict=True):
            backend: dict[str, object] = {"provider": one.provider, "model": one.model}
            if any(backend.items() <= other.items() for other in backends):
                self.ledger.omit(
                    one.path, "the same backend as an entry before", "nothing: once is enough"
                )
                continue
            backends.append(backend | ({} if share is None else {"weight": share}))
        model: dict[str, object] = {
            COMMENT: "from " + ", ".join(f"model_list[{one.path[1]}]" for one in group),
            "name": name,
            "backends": backends,
        }
        fields = [request_fields(one.params) for one in group]
        defaults = {
            key: value
            for key, value in fields[0].items()
            if all(other.get(key) == value for other in fields)
        }
        if defaults:
            model["defaults"] = defaults
        for one, own in zip(group, fields, strict=True):
            self._unaccepted(one, own)
            for key in own:
                at = (*one.path, "litellm_params", key)
                if key in defaults:
                    self.ledger.translate(at, f"models[].defaults.{key}")
                else:
                    self.ledger.omit(
                        at,
                        "the deployments of the model differ in this field",
                        "make them two models, each with its own defaults",
                    )
        return model

    def _unaccepted(self, one: Deployment, accepted: Mapping[str, Tree]) -> None:
        for key in FIELDS & one.params.keys() - accepted.keys():
            self.ledger.omit(
                (*one.path, "litellm_params", key),
                "models[].defaults does not accept this value",
                "correct it and import again, or remove it",
            )

    def _shares(self, group: list[Deployment]) -> list[float | int | None]:
        key = next((key for key in WEIGHTS if number(group[0].params.get(key)) is not None), None)
        shares: list[float | int | None] = [
            None if key is None else number(one.params.get(key)) or 0 for one in group
        ]
        orders = [number(one.params.get("order")) for one in group]
        if any(order is not None for order in orders):
            first = min(order for order in orders if order is not None)
            drawn = any(
                share for share, order in zip(shares, orders, strict=True) if order == first
            )
            shares = [
                0 if order != first else share if drawn and share is not None else 1
                for share, order in zip(shares, orders, strict=True)
            ]
        levels = sorted({order for order in orders if order is not None})
        for one, order in zip(group, orders, strict=True):
            at = (*one.path, "litellm_params")
            if order is not None and order in levels[2:]:
                self.ledger.omit(
                    (*at, "order"),
                    "the backends of a model have two levels; this one is used as the second is",
                    "make it a model of its own, and name that in fallback",
                )
            if key is not None:
                self.ledger.translate((*at, key), "models[].backends[].weight")
            if order is None or order not in levels[2:]:
                self.ledger.translate((*at, "order"), "models[].backends[].weight")
            for other in ("rpm", "tpm"):
                self.ledger.omit(
                    (*at, other),
                    "limits belong to callers, not to deployments; another field decides the share",
                    "add an entry to limits (docs/limits.md), or rely on the provider's 429",
                )
        return shares if any(shares) else [None for _ in group]

    def _setting(self, key: str) -> tuple[Path, Tree]:
        for section, settings in self.sections.items():
            if key in settings:
                for other in self.sections:
                    if other != section:
                        self.ledger.omit(
                            (other, key), f"{section}.{key} wins", "nothing: it had no effect"
                        )
                return (section, key), settings[key]
        return (), None

    def _policy(self) -> None:
        path, strategy = self._setting("routing_strategy")
        if path and isinstance(strategy, str) and strategy in STRATEGIES:
            self.ledger.translate(path, "models[].policy")
            for model in self.models.values():
                model["policy"] = STRATEGIES[strategy]
        elif path and isinstance(strategy, str) and strategy.startswith(_BY_USAGE):
            self.ledger.omit(
                path,
                "no policy prefers the backend with the fewest tokens in the last minute; backends "
                "are weighted by their rpm or tpm",
                "keep the weights, or set models[].policy: least_busy, by requests in flight",
            )
        elif path:
            self.ledger.omit(
                path, "no policy with this rule", "choose a models[].policy (docs/routing.md)"
            )

    def _aliases(self) -> None:
        path, aliases = self._setting("model_group_alias")
        for alias, target in mapping(aliases).items():
            name = mapping(target).get("model") if isinstance(target, dict) else target
            at = (*path, alias)
            if not isinstance(name, str) or name not in self.models or alias in self.models:
                self.ledger.omit(at, *self._absent(name))
                continue
            if not valid_name(alias, wildcard=False):
                self.ledger.omit(at, *BAD_NAME)
                continue
            names = cast("list[str]", self.models[name].setdefault("aliases", []))
            names.append(alias)
            self._of_alias[alias] = name
            self.ledger.translate(
                (*at, "model") if isinstance(target, dict) else at, "models[].aliases"
            )
            self.ledger.omit(
                (*at, "hidden"), "aliases are always listed", "remove the alias to hide it"
            )

    def _fallbacks(self) -> None:
        path, entries = self._setting("fallbacks")
        for name, targets in self._pairs(path, entries):
            self.models[name]["fallback"] = targets
        general: list[tuple[Path, Tree]] = [
            ((*path, place, _ANY), mapping(entry)[_ANY])
            for place, entry in enumerate(entries if isinstance(entries, list) else [])
            if _ANY in mapping(entry)
        ]
        path, targets = self._setting("default_fallbacks")
        if path:
            general.append((path, targets))  # LiteLLM adds it at the end, and the last one counts
        for path, targets in general[-1:]:
            for name, model in self.models.items():
                if "fallback" not in model and name not in self._embedding:
                    found = self._targets(path, targets, name)
                    if found:
                        model["fallback"] = found
        for path, _ in general[:-1]:
            self.ledger.omit(path, "later fallbacks of all models win", "nothing: it had no effect")
        for key, code in _ERRORS.items():
            path, entries = self._setting(key)
            for name, found in self._pairs(path, entries, "models[].fallback_by_error"):
                if not found:
                    continue
                rules = cast("list[object]", self.models[name].setdefault("fallback_by_error", []))
                rules.append({"codes": [code], "models": found})

    def _pairs(
        self, path: Path, entries: Tree, to: str = "models[].fallback"
    ) -> list[tuple[str, list[str]]]:
        pairs: dict[str, list[str]] = {}
        for place, entry in enumerate(entries if isinstance(entries, list) else []):
            for name, targets in mapping(entry).items():
                at = (*path, place, name)
                if name == _ANY and to == "models[].fallback":
                    continue
                if name not in self.models:
                    self.ledger.omit(at, *self._absent(name))
                elif name in pairs:
                    self.ledger.omit(
                        at, "the first entry of a model wins", "nothing: it had no effect"
                    )
                else:
                    pairs[name] = self._targets(at, targets, name, to)
        return list(pairs.items())

    def _targets(
        self, path: Path, targets: Tree, source: str, to: str = "models[].fallback"
    ) -> list[str]:
        plain = to == "models[].fallback"
        names: list[str] = []
        for place, target in enumerate(targets if isinstance(targets, list) else []):
            name = self._of_alias.get(target, target) if isinstance(target, str) else target
            known = isinstance(name, str) and name in self.models
            if plain and known and name != source and self._reaches(str(name), source):
                self.ledger.omit(
                    (*path, place),
                    f"fallbacks must not form a circle, and those of {name!a} lead to {source!a}",
                    "decide which of the two models falls back to the other",
                )
            elif isinstance(name, str) and name in self.models and "*" not in name:
                self.ledger.translate((*path, place), to)
                if name != source and name not in names:
                    names.append(name)
                    if plain:
                        self._next.setdefault(source, []).append(name)
            else:
                self.ledger.omit((*path, place), *self._absent(name))
        return names

    def _reaches(self, name: str, target: str) -> bool:
        reached, waiting = {name}, [name]
        while waiting:
            for one in self._next.get(waiting.pop(), ()):
                if one not in reached:
                    reached.add(one)
                    waiting.append(one)
        return target in reached

    def _absent(self, name: object) -> tuple[str, str]:
        known = isinstance(name, str) and name in self.models
        return (
            "its name is a model's or a wildcard" if known else "its model was not translated",
            "name a translated model in config.yaml",
        )

    def _failures(self, groups: Mapping[str, list[Deployment]]) -> None:
        path, retries = self._setting("num_retries")
        most = number(retries)
        if path and most is not None:
            self.ledger.translate(path, "models[].retry.attempts")
        for name, model in self.models.items():
            own = [number(one.params.get(key)) for one in groups[name] for key in _RETRIES]
            given = [one for one in own if one is not None]
            for one in groups[name]:
                for key in _RETRIES:
                    self.ledger.translate(
                        (*one.path, "litellm_params", key), "models[].retry.attempts"
                    )
            count = max(given) if given else most
            if count is not None:
                model["retry"] = {"attempts": max(int(count) + 1, self._chain(model))}
        path, _ = self._setting("retry_policy")
        self.ledger.omit(
            path or ("router_settings", "retry_policy"),
            "attempts are counted over all kinds of errors",
            "set models[].retry.attempts and on (docs/routing.md)",
        )
        path, _ = self._setting("enable_pre_call_checks")
        self.ledger.omit(
            path or ("router_settings", "enable_pre_call_checks"),
            "prompts never reach a model that cannot read them",
            "nothing, or set capabilities[].context for models of your own",
        )
        breaker: dict[str, object] = {}
        path, fails = self._setting("allowed_fails")
        if path and number(fails) is not None:
            breaker["min_requests"] = int(number(fails) or 0) + 1
            self.ledger.translate(path, "models[].breaker.min_requests")
        path, cooldown = self._setting("cooldown_time")
        seconds = number(cooldown)
        if path and seconds:
            breaker |= {"cooldown_s": seconds, "max_cooldown_s": seconds}
            self.ledger.translate(path, "models[].breaker.cooldown_s")
        for model in self.models.values():
            if breaker:
                model["breaker"] = breaker

    def _members(self, model: Mapping[str, object]) -> list[Mapping[str, object]]:
        fallback = cast("list[str]", model.get("fallback", []))
        return [model, *(self.models[name] for name in fallback)]

    def _chain(self, model: Mapping[str, object]) -> int:
        """Return how many backends the model and its fallbacks have together."""
        return sum(len(cast("list[object]", one["backends"])) for one in self._members(model))

    def _dropping(self) -> None:
        path, drop = self._setting("drop_params")
        if not path or not isinstance(drop, bool):
            return
        self.ledger.translate(path, "models[].on_unsupported")
        for model in self.models.values():
            model["on_unsupported"] = "drop" if drop else "error"

    def _deadlines(self, providers: Mapping[str, Mapping[str, object]]) -> None:
        """Give a model the time of its slowest backend: LiteLLM has no deadline of all attempts."""
        for model in self.models.values():
            slowest = max(
                number(mapping(providers[str(one["provider"])].get("timeouts")).get("total_s")) or 0
                for member in self._members(model)
                for one in cast("list[Mapping[str, object]]", member["backends"])
            )
            if slowest > _DEADLINE:
                model["deadline_s"] = slowest
