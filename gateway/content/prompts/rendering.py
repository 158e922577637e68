"""Render a version of a prompt, and put it before the client's own messages.

Rendering fills the gaps of a parsed template once: a value is never read as a template, so that it
may contain anything, `{{ name }}` and lines such as `--- user ---` included.
"""

from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct

from strowger_gateway.gateway.config.prompts.template import (
    Gap,
    Section,
    Template,
    parse_template,
)
from strowger_gateway.gateway.routing.planning.system_prompt import with_system
from strowger_gateway.schemas.messages import Message

_SYSTEM = ("system", "developer")
_MOST_KEPT = 256


class PromptText(Struct, frozen=True, kw_only=True, eq=False):
    """One version of a prompt, ready to be rendered."""

    prompt: str
    version: str
    digest: str
    template: Template

    @property
    def ref(self) -> str:
        """NAME@VERSION."""
        return f"{self.prompt}@{self.version}"

    def missing(self, values: Mapping[str, str]) -> tuple[str, ...]:
        """Return the fields that have neither a value nor a default."""
        return tuple(name for name in self.template.required if name not in values)

    def unused(self, values: Mapping[str, str]) -> tuple[str, ...]:
        """Return the names of values that it has no field for."""
        return tuple(name for name in values if name not in self.template.fields)

    def characters(self, values: Mapping[str, str]) -> int:
        """Return the length of what is rendered, without rendering it."""
        return sum(_length(one, self._filled(values)) for one in self.template.sections)

    def with_messages(
        self, messages: tuple[Message, ...], values: Mapping[str, str]
    ) -> tuple[Message, ...]:
        """Return the rendered messages, and the client's after them.

        The system section becomes one message with the client's own system message, which follows
        it, because many models accept only one, and none accepts one after a turn: all system
        messages with which the client begins stay in front. values: of all required fields.
        """
        filled = self._filled(values)
        sections = self.template.sections
        rendered = [Message(role=one.role, content=rendered_text(one, filled)) for one in sections]
        if rendered[0].role == "system":
            text = rendered.pop(0).content
            assert isinstance(text, str)
            messages = with_system(messages, text)
        turns = (at for at, one in enumerate(messages) if one.role not in _SYSTEM)
        head = next(turns, len(messages))
        return (*messages[:head], *rendered, *messages[head:])

    def _filled(self, values: Mapping[str, str]) -> Mapping[str, str]:
        return {**self.template.defaults, **values}


def rendered_text(section: Section, values: Mapping[str, str]) -> str:
    """Return the text of a section. values: of all its fields."""
    return "".join([values[one.name] if isinstance(one, Gap) else one for one in section.pieces])


@lru_cache(_MOST_KEPT)
def prompt_text(prompt: str, version: str, text: str, digest: str) -> PromptText:
    """Return a version by its text. Raises InvalidTemplate."""
    return PromptText(prompt=prompt, version=version, digest=digest, template=parse_template(text))


def _length(section: Section, values: Mapping[str, str]) -> int:
    return sum(
        len(values.get(one.name, "") if isinstance(one, Gap) else one) for one in section.pieces
    )
