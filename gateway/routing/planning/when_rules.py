"""`when` rules: requests of a kind that the operator describes go to backends of their own."""

from collections.abc import Sequence

from gateway.config.checks.when_rules import STREAM
from gateway.config.schema import WhenRule
from gateway.routing.planning.request_facts import RequestFacts, estimated_tokens, metadata_of
from schemas.fields import sent_fields
from schemas.requests import EmbeddingsRequest, Request


def matches(rule: WhenRule, request: Request, facts: RequestFacts) -> bool:
    """Whether all of the rule's conditions do. Headers, keys and metadata may end in `*`."""
    if rule.key is not None and not _is(rule.key, facts.caller):
        return False
    if not all(_is(wanted, facts.header(name)) for name, wanted in rule.header.items()):
        return False
    if rule.metadata:
        found = metadata_of(request)
        if not all(_is(wanted, found.get(name)) for name, wanted in rule.metadata.items()):
            return False
    if rule.features and not _asks_for(request, rule.features):
        return False
    return rule.tokens_over is None or estimated_tokens(request) > rule.tokens_over


def unmet_conditions(rule: WhenRule, request: Request, facts: RequestFacts) -> tuple[str, ...]:
    """Each of its conditions that does not hold, in words; () where `holds` is true."""
    faults: list[str] = []
    if rule.key is not None and not _is(rule.key, facts.caller):
        faults.append(f"the key is {facts.caller!r}" if facts.caller else "no key was sent")
    for name, wanted in rule.header.items():
        value = facts.header(name)
        if not _is(wanted, value):
            said = "was not sent" if value is None else f"is {value!r}"
            faults.append(f"the header {name} {said}")
    if rule.metadata:
        found = metadata_of(request)
        for name, wanted in rule.metadata.items():
            if not _is(wanted, found.get(name)):
                said = f"is {found[name]!r}" if name in found else "was not sent"
                faults.append(f"metadata {name} {said}")
    faults += [
        f"it does not use {feature}"
        for feature in rule.features
        if not _asks_for(request, (feature,))
    ]
    if rule.tokens_over is not None:
        tokens = estimated_tokens(request)
        if tokens <= rule.tokens_over:
            faults.append(f"the prompt has about {tokens} tokens")
    return tuple(faults)


def describe(rule: WhenRule) -> str:
    """All of its conditions: `header x-tier: premium, tokens over 8000`."""
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


def _asks_for(request: Request, features: Sequence[str]) -> bool:
    """Whether it asks for all of them. An image is one, whether it is remote or not."""
    sent = sent_fields(request)
    if "messages.remote_image" in sent:
        sent |= {"messages.image"}
    if not isinstance(request, EmbeddingsRequest) and request.stream:
        sent |= {STREAM}
    return sent.issuperset(features)
