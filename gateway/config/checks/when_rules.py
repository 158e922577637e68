"""Cross-checks of `when`: each rule can match some request, and its backends exist."""

import re
from collections.abc import Mapping, Sequence

from strowger_gateway.gateway.config.checks.identities import token_caller
from strowger_gateway.gateway.config.checks.models import matches
from strowger_gateway.gateway.config.checks.routing import check_backend
from strowger_gateway.gateway.config.problems import Found, Path, Problems, nearest
from strowger_gateway.gateway.config.schema.config import Config, WhenRule
from strowger_gateway.schemas.fields import FIELDS

STREAM = "stream"
FEATURES = frozenset({STREAM}.union(*FIELDS.values()))
"""Valid values of `when[].features`."""

_STREAMED = frozenset({"chat", "completion", "tokens"})
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
"""https://www.rfc-editor.org/rfc/rfc9110#section-5.1"""


def check_rules(config: Config, problems: Problems) -> None:
    providers = {provider.name: provider for provider in config.providers}
    for index, model in enumerate(config.models):
        for place, rule in enumerate(model.when):
            path: Path = ("models", index, "when", place)
            _conditions(rule, path, problems)
            _headers(rule, (*path, "header"), problems)
            _key(rule, (*path, "key"), config, problems)
            _features(rule, (*path, "features"), problems)
            for spot, name in enumerate(rule.backends):
                check_backend(name, (*path, "backends", spot), providers, problems)
            _reached(rule, model.when[:place], path, problems)


def _conditions(rule: WhenRule, path: Path, problems: Problems) -> None:
    conditions = (rule.header, rule.key, rule.metadata, rule.tokens_over, rule.features)
    if not any(conditions) and not problems.under(path) and not problems.at(path):
        problems.add(
            path,
            "has no condition, so it would always match; give header, key, metadata, tokens_over "
            "or features",
        )
    if not rule.backends and not problems.at((*path, "backends")):
        problems.add((*path, "backends"), "is empty; give at least one backend")


def _headers(rule: WhenRule, path: Path, problems: Problems) -> None:
    """Check header names, which are case-insensitive, and their values."""
    seen: set[str] = set()
    for name, wanted in rule.header.items():
        if problems.at((*path, name)):
            continue
        if not _HEADER_NAME.fullmatch(name):
            problems.add((*path, name), "is not a valid header name; use letters, digits and - _")
        elif name.lower() in seen:
            problems.add((*path, name), "is given twice; header names are case-insensitive")
        elif wanted != wanted.strip():
            problems.warn(
                (*path, name), "starts or ends with a blank, which no header value does, so the "
                "rule never matches",
            )  # fmt: skip
        seen.add(name.lower())


def _key(rule: WhenRule, path: Path, config: Config, problems: Problems) -> None:
    if rule.key is None or problems.at(path) or problems.under(("auth",)):
        return
    names = [key.name for key in config.auth.keys]
    if config.auth.mode == "none":
        problems.warn(path, "with auth.mode none no request has a key, so the rule never matches")
    elif not any(matches(rule.key, name) for name in names) and not token_caller(rule.key, config):
        problems.warn(
            path,
            "no key of the file is named ",
            Found(rule.key),
            ", so the rule only matches if one of this name is issued",
            nearest(rule.key, names),
        )


def _features(rule: WhenRule, path: Path, problems: Problems) -> None:
    for place, feature in enumerate(rule.features):
        if feature not in FEATURES and not problems.at((*path, place)):
            problems.add(
                (*path, place),
                "unknown feature ",
                Found(feature),
                nearest(feature, sorted(FEATURES)),
            )
    if problems.under(path) or problems.at(path):
        return
    wanted_features = frozenset(rule.features)
    tasks = {
        task
        for task, fields in FIELDS.items()
        if wanted_features <= fields | ({STREAM} if task in _STREAMED else frozenset())
    }
    if not tasks:
        problems.warn(path, "no type of request has all of these, so the rule never matches")
    elif rule.metadata and "chat" not in tasks:
        problems.warn(
            path,
            "only chat requests have metadata, and none has these, so the rule never matches",
        )


def _reached(rule: WhenRule, before: Sequence[WhenRule], path: Path, problems: Problems) -> None:
    """Warn of a rule behind one that matches the same requests: the first match decides."""
    for place, other in enumerate(before):
        if not problems.under((*path[:-1], place)) and _follows(other, rule):
            problems.warn(
                path, f"never decides: when[{place}] matches every request that it matches"
            )
            return


def _follows(other: WhenRule, rule: WhenRule) -> bool:
    """True if `other` matches every request that `rule` matches."""
    lowered = {name.lower(): value for name, value in rule.header.items()}
    return (
        _within({name.lower(): value for name, value in other.header.items()}, lowered)
        and _within(other.metadata, rule.metadata)
        and (other.key is None or (rule.key is not None and _covers(other.key, rule.key)))
        and set(other.features) <= set(rule.features)
        and (
            other.tokens_over is None
            or (rule.tokens_over is not None and rule.tokens_over >= other.tokens_over)
        )
    )


def _within(wanted: Mapping[str, str], given: Mapping[str, str]) -> bool:
    return all(name in given and _covers(value, given[name]) for name, value in wanted.items())


def _covers(pattern: str, other: str) -> bool:
    """True if `pattern` matches everything that `other` matches; each may end in `*`."""
    if pattern.endswith("*"):
        return other.removesuffix("*").startswith(pattern[:-1])
    return pattern == other
