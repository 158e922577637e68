"""Wrap a provider with the adaptations that its configuration and capabilities call for."""

from pathlib import Path

from strowger_gateway.gateway.backends.upstream.adaptation.echo_and_suffix import (
    with_echo_and_suffix,
)
from strowger_gateway.gateway.backends.upstream.adaptation.fan_out import with_fan_out
from strowger_gateway.gateway.backends.upstream.adaptation.stop_enforcement import (
    with_stop_enforcement,
)
from strowger_gateway.gateway.backends.upstream.base import Upstream


def check_tokenizer(path: Path) -> None:
    """Read a provider's tokenizer and its accompanying files. Raises InvalidConfig."""
    from strowger_gateway.gateway.backends.upstream.adaptation.tokenizer import load_tokenizer

    load_tokenizer(path)


def adapt(upstream: Upstream, tokenizer: Path | None) -> Upstream:
    """Return the upstream with all adaptations that it needs; itself if it needs none.

    tokenizer: a tokenizer.json, or the folder that contains one. Only then are the tokenizers and
    jinja2 packages imported. Raises InvalidConfig for unreadable files.
    From the inside out: ids get their text, stops are enforced on what the backend itself sends,
    requests are translated, stops are enforced on the translated answer, prompts and suffixes are
    added to completions, and last, one request becomes several.
    """
    choices = upstream.supports.tokens is not None
    if tokenizer is None:
        return with_fan_out(with_echo_and_suffix(with_stop_enforcement(upstream)), choices=choices)
    from strowger_gateway.gateway.backends.upstream.adaptation.detokenizing import Detokenizing
    from strowger_gateway.gateway.backends.upstream.adaptation.request_translation import (
        RequestTranslation,
    )
    from strowger_gateway.gateway.backends.upstream.adaptation.tokenizer import load_tokenizer

    reads = load_tokenizer(tokenizer)
    if upstream.supports.tokens is not None:
        upstream = Detokenizing(upstream, reads)
    translating = RequestTranslation(with_stop_enforcement(upstream, reads), reads)
    spelt = translating.ways.tokens != "own"
    whole = with_echo_and_suffix(with_stop_enforcement(translating, reads, spelt=spelt), reads)
    return with_fan_out(whole, choices=choices)
