"""What a generation of the configuration has of prompts."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from strowger_gateway.gateway.stages.request_part import Prepared

if TYPE_CHECKING:
    from strowger_gateway.gateway.content.prompts.catalogue import PromptCatalogue

NAME = "prompts"


class PreparedPrompts(Prepared):
    """The prompts of one generation."""

    def __init__(self, catalogue: "PromptCatalogue") -> None:
        self.catalogue = catalogue


def catalogue_of(prepared: Mapping[str, Prepared]) -> "PromptCatalogue | None":
    """Return the prompts of a generation; `None` if it has none. prepared: by part."""
    found = prepared.get(NAME)
    return found.catalogue if isinstance(found, PreparedPrompts) else None
