"""`when` rules: send requests that match the operator's conditions to certain backends."""

from collections.abc import Sequence

from strowger_gateway.gateway.config.checks.when_rules import STREAM
from strowger_gateway.gateway.config.schema.config import WhenRule
from strowger_gateway.gateway.routing.planning.request_facts import (
    RequestFacts,
    estimated_tokens,
    metadata_of,
)
from strowger_gateway.schemas.fields import sent_fields
from strowger_gateway.schemas.requests import Request
from strowger_gateway.schemas.tasks.task import Unsampled


def matches(rule: WhenRule, request: Request, facts: RequestFacts) -> bool:
    """Whether all conditions match. Headers, keys and metadata may end in `*`."""
    if rule.key is not None and not _is(rule.key, facts.caller):
        return False
    if not all(_is(wanted, facts.header(name)) for name, wanted in rule.header.items()):
        return False
    if rule.metadata:
        found = metadata_of(request)
        if not all(_is(wanted, found.get(name)) for name, wanted in rule.metadata.items()):
            return False
    if rule.features and not _uses(request, rule.features):
        return False
    return rule.tokens_over is None or estimated_tokens(request) > rule.tokens_over


def unmet_conditions(rule: WhenRule, request: Request, facts: RequestFacts) -> tuple[str, ...]:
    """Describe each condition that does not match; () if `matches` is true."""
    unmet: list[str] = []
    if rule.key is not None and not _is(rule.key, facts.caller):
        unmet.append(f"the key is {facts.caller!r}" if facts.caller else "no key was sent")
    for name, wanted in rule.header.items():
        value = facts.header(name)
        if not _is(wanted, value):
            actual = "was not sent" if value is None else f"is {value!r}"
            unmet.append(f"the header {name} {actual}")
    if rule.metadata:
        found = metadata_of(request)
        for name, wanted in rule.metadata.items():
            if not _is(wanted, found.get(name)):
                actual = f"is {found[name]!r}" if name in found else "was not sent"
                unmet.append(f"metadata {name} {actual}")
    unmet += [
        f"it does not use {feature}" for feature in rule.features if not _uses(request, (feature,))
    ]
    if rule.tokens_over is not None:
        tokens = estimated_tokens(request)
        if tokens <= rule.tokens_over:
            unmet.append(f"the prompt has about {tokens} tokens")
    return tuple(unmet)


def describe(rule: WhenRule) -> str:
    """Describe all conditions: `header x-tier: premium, tokens over 8000`."""
    words = [f"header {name}: {wanted}" for name, wanted in rule.header.items()]
    words += [f"key {rule.key}"] if rule.key is not None else []
    words += [f"metadata {name}: {wanted}" for name, wanted in rule.metadata.items()]
    words += [f"uses {feature}" for feature in rule.features]
    words += [f"tokens over {rule.tokens_over}"] if rule.tokens_over is not None else []
    return ", ".join(words)


def _is(wanted: str, found: str | None) -> bool:
    if found is None:
        return False
    return found.startswith(wanted[:-1]) if wanted.endswith("*") else found == wanted


def _uses(request: Request, features: Sequence[str]) -> bool:
    """Whether the request uses all features. `messages.image` includes remote images."""
    sent = sent_fields(request)
    if "messages.remote_image" in sent:
        sent |= {"messages.image"}
    if not isinstance(request, Unsampled) and request.stream:
        sent |= {STREAM}
    return sent.issuperset(features)
