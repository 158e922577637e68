"""How much the gateway adds to a replayed request: the texts of prompts, and of a variant."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from strowger_gateway.gateway.config.prompts.template import Gap, Template, parse_template
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema.experiment import Variant
from strowger_gateway.gateway.experiments.replay.prompts import named_prompt
from strowger_gateway.gateway.experiments.replay.spending import text_size

_FRAME: Final = 20
"""Tokens that an API adds to a message."""


def added_tokens(config: Config, variant: Variant | None) -> Callable[[Mapping[str, object]], int]:
    """Return the most tokens that a request of an arm gets besides its body, by its body.

    variant: `None` for an arm that is a model.
    """
    versions = {
        prompt.name: [parse_template(one.text) for one in prompt.versions]
        for prompt in config.prompts
    }
    system = text_size("" if variant is None else variant.set.system or "")
    own = [parse_template(variant.prompt_text)] if variant is not None and variant.prompt else []

    def added(body: Mapping[str, object]) -> int:
        name, values = named_prompt(body)
        possible = own or versions.get(name, [])
        sizes = (_size(one, values) for one in possible)
        frames = (_FRAME * len(one.sections) for one in possible)
        return (system + max(sizes, default=0)) // 2 + max(frames, default=0)

    return added


def _size(template: Template, values: Mapping[str, object]) -> int:
    """Return the size of the rendered text: a value counts in each of its places."""
    given = {name: _text(value) for name, value in values.items() if value is not None}
    filled = {**template.defaults, **given}
    pieces: Iterable[str] = (
        filled.get(one.name, "") if isinstance(one, Gap) else one
        for section in template.sections
        for one in section.pieces
    )
    return sum(map(text_size, pieces))


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
