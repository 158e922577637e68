"""The state of one choice of an answer in the OpenAI dialect while it arrives."""

from collections.abc import Mapping

from msgspec import Raw

from adapters.openai.tool_calls import ToolCalls
from adapters.openai.wire import NULL, Choice

_NOTHING_SAID = Raw(b"{}")
_NO_VERDICTS: Mapping[str, Raw] = {}


class ChoiceState:
    """What must be remembered of one choice until it finishes."""

    __slots__ = ("blank", "block", "filters", "finished", "shown", "tools")

    def __init__(self, index: int, prefix: str) -> None:
        self.tools = ToolCalls(index, prefix)
        self.shown = False
        self.blank = False
        self.block = 0
        self.filters: Mapping[str, Raw] = _NO_VERDICTS
        self.finished = False

    def verdicts(self, choice: Choice) -> dict[str, Raw]:
        """What the content filters say, where it is not empty and not what they said before."""
        told = {
            "content_filter_results": choice.content_filter_results,
            "content_filter_offsets": choice.content_filter_offsets,
        }
        news = {
            name: raw.copy()
            for name, raw in told.items()
            if raw not in (NULL, _NOTHING_SAID, self.filters.get(name))
        }
        self.filters = {**self.filters, **news}
        return news
