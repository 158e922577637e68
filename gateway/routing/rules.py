"""`when` rules: requests of a kind that the operator describes go to backends of their own."""

from collections.abc import Sequence

from gateway.config.check_routing import STREAM
from gateway.config.model import WhenRule
from gateway.routing.facts import Facts, estimated_tokens, metadata_of
from schemas.fields import sent_fields
from schemas.requests import EmbeddingsRequest, Request


def holds(rule: WhenRule, request: Request, facts: Facts) -> bool:
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
