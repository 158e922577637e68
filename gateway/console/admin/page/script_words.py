"""The sentences of page.js, which the document hands it in the reader's language."""

from collections.abc import Mapping
from typing import Final

from strowger_gateway.gateway.platform.language import language, sentence, words_of

say = words_of(__file__)

SENTENCES: Final = (
    sentence("Theme: {name}"),
    sentence("auto"),
    sentence("light"),
    sentence("dark"),
    sentence("Pause"),
    sentence("Resume"),
    sentence("no response, showing old data"),
    sentence("Send"),
    sentence("Stop"),
    sentence("Stopped."),
    sentence("broken off: {why}"),
    sentence("{count} attempts"),
    sentence("TTFT {time}"),
    sentence("{prompt} + {completion} tokens"),
    sentence("Copied"),
    sentence("Press Ctrl+C"),
    sentence("request"),
    sentence("the tool's result"),
    sentence("Send results"),
    sentence("Send the results of the tools first, or begin a new conversation."),
    sentence("Another model: a new conversation begins."),
)
"""Each is in a call of `say` in page.js."""


def script_words() -> Mapping[str, str]:
    """Return the translations by the English; none for English."""
    return {} if language() == "en" else {one: say(one) for one in SENTENCES}
